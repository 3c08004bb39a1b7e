"""Saving and restoring: everything, exactly, and never the wrong thing."""

import dataclasses
import pathlib
import re
import shutil

import chex
import jax
import numpy as np
import pytest
from tiny import TINY, tiny

import gomoku_jax as gj
from gomoku_jax.checkpoint import (
    CheckpointError,
    init_training_state,
    load_checkpoint,
    read_config,
    restore_checkpoint,
    save_checkpoint,
)
from gomoku_jax.config import from_dict, to_dict
from gomoku_jax.iteration import run_iteration
from gomoku_jax.programs import make_programs


def key_as_data(state):
    return state.replace(key=jax.random.key_data(state.key))


@pytest.fixture(scope="module")
def states():
    """States after one, two and three iterations."""
    programs, state, kept = make_programs(TINY), init_training_state(TINY), []
    for _ in range(3):
        state, _ = run_iteration(TINY, programs, state)
        kept.append(jax.tree.map(lambda x: x.copy(), state))
    return kept


@pytest.fixture
def run(tmp_path, states):
    for state in states:
        save_checkpoint(tmp_path, TINY, state)
    return tmp_path


def test_round_trip_keeps_every_leaf_and_its_dtype(run, states):
    restored = load_checkpoint(run)
    assert jax.tree.structure(restored) == jax.tree.structure(states[-1])
    chex.assert_trees_all_equal(key_as_data(restored), key_as_data(states[-1]))
    chex.assert_trees_all_equal_dtypes(key_as_data(restored), key_as_data(states[-1]))
    # The pieces that are easily forgotten are there and are not blank.
    assert int(restored.replay.size.sum()) > 0
    assert np.asarray(restored.selfplay.pending.played).any()
    assert float(np.abs(jax.tree.leaves(restored.learner.opt_state)[1]).sum()) > 0
    assert int(restored.progress.positions) == int(restored.replay.size.sum())


def test_restored_key_draws_the_same_numbers(run, states):
    chex.assert_trees_all_equal(
        jax.random.uniform(load_checkpoint(run).key, (5,)), jax.random.uniform(states[-1].key, (5,))
    )


def test_only_the_newest_are_kept(tmp_path, states):
    config = tiny(keep_checkpoints=2)
    for state in states:
        save_checkpoint(tmp_path, config, state)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["2", "3"]


def big_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: -p.stat().st_size)


def truncate_largest(folder):
    path = big_files(folder)[0]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def delete_largest(folder):
    big_files(folder)[0].unlink()


def empty_all(folder):
    for path in big_files(folder):
        path.write_bytes(b"")


def truncate_manifest(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text()[:20])


def flip_a_byte(folder):
    path = big_files(folder)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def delete_state(folder):
    shutil.rmtree(folder / "state")


def delete_meta(folder):
    shutil.rmtree(folder / "meta")


@pytest.mark.parametrize(
    "damage", [truncate_largest, delete_largest, empty_all, flip_a_byte, delete_state, delete_meta]
)
def test_damaged_newest_falls_back_to_the_one_before_and_says_so(run, states, damage):
    damage(run / "checkpoints" / "3")
    _, restored, messages = restore_checkpoint(run, TINY)
    assert int(restored.progress.iteration) == 2
    chex.assert_trees_all_equal(key_as_data(restored), key_as_data(states[1]))
    assert len(messages) == 1
    assert re.search(r"checkpoints.3 does not read", messages[0])


def test_a_checkpoint_without_its_manifest_still_reads(run, states):
    (run / "checkpoints" / "3" / "manifest.json").unlink()
    chex.assert_trees_all_equal(key_as_data(load_checkpoint(run)), key_as_data(states[2]))


def test_deleted_newest_falls_back(run, states):
    shutil.rmtree(run / "checkpoints" / "3")
    chex.assert_trees_all_equal(key_as_data(load_checkpoint(run)), key_as_data(states[1]))


def test_all_damaged_is_an_error_that_names_each(run):
    for step in ("1", "2", "3"):
        truncate_largest(run / "checkpoints" / step)
    with pytest.raises(CheckpointError, match=r"(?s)1 does not read|no checkpoint"):
        load_checkpoint(run)


def test_nothing_there_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        load_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a run folder"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("changes", "ours", "theirs"),
    [
        ({"game": {"height": 4}}, "height=4", "height=3"),
        ({"game": {"rule": "exact"}}, "rule='exact'", "rule='freestyle'"),
        ({"network": {"channels": 16}}, "channels=16", "channels=8"),
        ({"network": {"kind": "conv"}}, "kind='conv'", "kind='resnet'"),
    ],
)
def test_checkpoint_of_another_kind_is_refused_naming_both(run, changes, ours, theirs):
    with pytest.raises(CheckpointError) as error:
        restore_checkpoint(run, tiny(**changes))
    assert ours in str(error.value) and theirs in str(error.value)


def test_a_run_goes_on_with_its_gradients_computed_otherwise(run, states):
    config = tiny(network={"remat": True})
    saved, restored, messages = restore_checkpoint(run, config)
    assert not saved.network.remat and messages == []
    chex.assert_trees_all_equal(restored.learner.params, jax.device_get(states[-1].learner.params))


def test_other_replay_capacity_is_refused(run):
    with pytest.raises(CheckpointError, match="replay/items/board"):
        restore_checkpoint(run, tiny(replay={"capacity": 512}))


def test_config_round_trip_and_unknown_keys():
    for config in (TINY, *gj.PRESETS.values()):
        assert from_dict(type(config), to_dict(config)) == config
        assert hash(from_dict(type(config), to_dict(config))) == hash(config)
    values = to_dict(TINY)
    values["search"]["num_simulatons"] = 3
    with pytest.raises(TypeError, match="num_simulatons"):
        from_dict(type(TINY), values)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("search", "num_simulations", 0),
        ("search", "algorithm", "alphabeta"),
        ("search", "dirichlet_fraction", 1.5),
        ("network", "kind", "transformer"),
        ("network", "dtype", "float16"),
        ("selfplay", "draw", "best"),
        ("selfplay", "full_search_fraction", 0.0),
        ("replay", "min_size", 10**9),
        ("learn", "schedule", "linear"),
        ("learn", "ema_decay", 1.0),
        ("evaluation", "num_games", 1),
        ("game", "k", 7),
    ],
)
def test_bad_values_are_named(part, field, value):
    with pytest.raises(ValueError) as error:
        dataclasses.replace(getattr(TINY, part), **{field: value})
    assert field in str(error.value) and repr(value) in str(error.value)
