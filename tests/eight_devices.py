"""What eight devices do beside one, as JSON: run by test_sharding.py in a process of its own."""

import collections
import dataclasses
import functools
import json
import pathlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tiny import tiny

from gomoku_jax import learn, replay
from gomoku_jax.checkpoint import init_training_state, restore_checkpoint, save_checkpoint, total_updates
from gomoku_jax.config import SearchConfig, TrainConfig
from gomoku_jax.game import Gomoku, random_opening
from gomoku_jax.iteration import run_iteration
from gomoku_jax.network import apply_network, init_network
from gomoku_jax.programs import Programs, make_batch, make_meshes, make_programs, transform_positions
from gomoku_jax.replay_rings import newest_first, num_rings
from gomoku_jax.search import SearchOutput, search
from gomoku_jax.sharding import data_mesh, put, replicated, split_axis, split_spec

WORDS = (
    "all-reduce",
    "all-gather",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
    "collective-broadcast",
)
CONFIG = tiny(
    selfplay={"num_games": 16, "opening_stones": 0},
    learn={"batch_size": 16, "updates_per_iteration": 5},
    replay={"capacity": 1024, "min_size": 16},
)


@functools.cache
def programs_of(config: TrainConfig, count: int) -> Programs:
    return make_programs(config, *make_meshes(config, jax.devices()[:count]))


def played(count: int, iterations: int, config=CONFIG) -> tuple[Programs, Any, int]:
    """A run on so many devices; its finished games."""
    programs = programs_of(config, count)
    state, games = programs.place(init_training_state(config, programs.mesh.size)), 0
    for _ in range(iterations):
        state, metrics = run_iteration(config, programs, state)
        games += int(metrics["selfplay/games"])
    return programs, state, games


def copies_equal(tree) -> bool:
    """Whether all devices hold the same, to the last bit."""
    return all(
        np.array_equal(np.asarray(part.data), np.asarray(leaf.addressable_shards[0].data))
        for leaf in jax.tree.leaves(tree)
        for part in leaf.addressable_shards
    )


def largest_difference(a, b) -> float:
    pairs = zip(jax.tree.leaves(jax.device_get(a)), jax.tree.leaves(jax.device_get(b)), strict=True)
    return max(float(np.abs(np.subtract(x, y, dtype=float)).max()) for x, y in pairs)


def chosen_most_visited(output: SearchOutput) -> bool:
    """Whether every action is one of the most visited: which of several, the key decides."""
    visits = np.asarray(output.visit_counts)
    return bool((visits[np.arange(len(visits)), np.asarray(output.action)] == visits.max(-1)).all())


def search_report() -> dict:
    """The same search of 16 games on one device and two games on each of eight."""
    game = Gomoku.from_config(CONFIG.game)
    keys = jax.random.split(jax.random.key(1), 16)
    states = jax.vmap(lambda key: random_opening(game, key, jnp.int32(3), 3))(keys)
    params = init_network(CONFIG.network, game, jax.random.key(2))
    mesh = data_mesh(16)
    report: dict[str, Any] = {}
    for algorithm in ("puct", "gumbel"):
        config = SearchConfig(algorithm, num_simulations=24, max_considered_actions=6).greedy()

        def run(params, key, states, config=config):
            return search(game, CONFIG.network, params, key, states, config)

        whole = jax.sharding.PartitionSpec()
        split = jax.shard_map(
            run, mesh=mesh, in_specs=(whole, whole, split_spec()), out_specs=split_spec(), check_vma=False
        )
        one = jax.jit(run)(params, jax.random.key(3), states)
        key = put(jax.random.key(3), replicated(mesh))
        args = (put(params, replicated(mesh)), key, put(states, split_axis(mesh)))
        eight = jax.jit(split)(*args)
        text = jax.jit(split).lower(*args).compile().as_text() or ""
        report[algorithm] = {
            "visits_equal": bool(np.array_equal(one.visit_counts, eight.visit_counts)),
            "most_visited": bool(all(chosen_most_visited(output) for output in (one, eight))),
            "value_difference": float(np.abs(np.asarray(one.root_value - eight.root_value)).max()),
            "devices": len(eight.action.sharding.device_set),
            "collectives": sum(text.count(word) for word in WORDS),
        }
    return report


def update_report() -> dict:
    """Five updates on eight devices, and the same by hand: each ring's draws, one batch, one device."""
    programs, state, _ = played(8, 3)
    host = jax.device_get(state.replace(key=jax.random.key_data(state.key)))
    key = jax.random.key(9)
    learner, _ = programs.update(state.learner, state.replay, put(key, replicated(programs.mesh)))
    game, optimizer = (
        Gomoku.from_config(CONFIG.game),
        learn.make_optimizer(CONFIG.learn, total_updates(CONFIG)),
    )
    apply_fn = lambda params, x: apply_network(CONFIG.network, params, x)  # noqa: E731
    expected, each = host.learner, CONFIG.replay.capacity // 8
    for step_key in jax.random.split(jax.random.split(key)[1], 5):
        draw_key, train_key = jax.random.split(step_key)
        shares = []
        for i in range(8):
            items = jax.tree.map(lambda x, i=i: x[i * each : (i + 1) * each], host.replay.items)
            ring = replay.ReplayState(items, host.replay.next_row[i], host.replay.size[i])
            shares.append(replay.sample(ring, jax.random.fold_in(draw_key, i), 2, transform_positions))
        batch = make_batch(game, CONFIG, jax.tree.map(lambda *x: jnp.concatenate(x), *shares))
        expected, _ = learn.train_step(
            expected, batch, train_key, apply_fn=apply_fn, optimizer=optimizer, config=CONFIG.learn
        )
    return {
        "difference": largest_difference(learner.params, expected.params),
        "moved": largest_difference(learner.params, host.learner.params),
    }


def long_learning() -> dict:
    """Twenty updates and more: parameters, averages and moments on all devices."""
    programs, state, _ = played(8, 6)
    return {
        "updates": int(state.learner.step),
        "equal": copies_equal(state.learner),
        "devices": len(jax.tree.leaves(state.learner.params)[0].sharding.device_set),
        "parts": [num_rings(state.replay), programs.mesh.size],
    }


def selfplay_report() -> dict:
    """What the compiled self-play holds; games differ between devices, and none is lost."""
    programs, state, games = played(8, 4)
    args = (state.learner.params, state.selfplay, state.replay, state.key)
    text = programs.selfplay.lower(*args).compile().as_text()
    playing = programs.evaluate(4).lower(state.learner.params, state.key).compile().as_text()
    boards = np.asarray(state.replay.items.board)[newest_first(jax.device_get(state.replay))]
    shares = np.split(np.asarray(state.selfplay.states.board), 8)
    return {
        "collectives": sum(text.count(word) for word in WORDS),
        "collectives_in_matches": sum(playing.count(word) for word in WORDS),
        "update_collectives": sum(
            programs.update.lower(state.learner, state.replay, state.key).compile().as_text().count(word)
            for word in WORDS
        ),
        "first_positions": int((np.abs(boards).sum((1, 2)) == 0).sum()),
        "games": games,
        "shares_differ": len({share.tobytes() for share in shares}),
    }


def law_report() -> dict:
    """Games on one device and on eight: lengths and winners of each."""
    config = tiny(
        selfplay={"num_games": 128, "moves_per_iteration": 12, "opening_stones": 0, "temperature_moves": 12},
        search={"num_simulations": 2},
        learn={"batch_size": 128},
        replay={"capacity": 32768, "min_size": 32768},  # nothing is learned
    )
    report = {}
    for count in (1, 8):
        _, state, games = played(count, 12, config)
        items, rows = jax.device_get(state.replay.items), newest_first(jax.device_get(state.replay))
        first = np.abs(items.board[rows]).sum((1, 2)) == 0
        report[str(count)] = {
            "games": games,
            "positions": len(rows),
            "black_wins": int((items.value_target[rows][first] > 0).sum()),
            "openings": np.bincount(items.policy_target[rows][first].argmax(-1), minlength=12).tolist(),
        }
    return report


def split_report() -> dict:
    """Five devices play while three learn."""
    config = dataclasses.replace(
        tiny(
            selfplay={"num_games": 20, "opening_stones": 0},
            learn={"batch_size": 12, "updates_per_iteration": 4, "ema_decay": 0.0},
            replay={"capacity": 1024, "min_size": 16},
        ),
        devices=dataclasses.replace(CONFIG.devices, actors=5, refresh_every=6),
    )
    programs, state, games = played(8, 0, config)
    fresh, rows, updates, handed_over = 0, [], [], []
    for _ in range(6):
        before = jax.device_get(state.actor_params)
        state, metrics = run_iteration(config, programs, state)
        games += int(metrics["selfplay/games"])
        updates.append(int(state.learner.step))
        after = jax.device_get(state.actor_params)
        changed = largest_difference(before, after) > 0
        handed_over.append(changed)
        if changed:
            fresh = largest_difference(after, jax.device_get(state.learner.params))
        rows.append(np.asarray(state.replay.size).tolist())
    boards = np.asarray(state.replay.items.board)[newest_first(jax.device_get(state.replay))]
    return {
        "devices": [programs.actors.size, programs.mesh.size],
        "shared": len({*programs.actors.devices.flat} & {*programs.mesh.devices.flat}),
        "updates": updates,
        "handed_over": handed_over,
        "difference_when_handed_over": fresh,
        "ring_sizes": rows,
        "first_positions": int((np.abs(boards).sum((1, 2)) == 0).sum()),
        "games": games,
        "copies_equal": copies_equal(state.learner) and copies_equal(state.actor_params),
    }


def checkpoint_report(folder: pathlib.Path) -> dict:
    """A run on four devices goes on with one, two and eight, and with the same."""
    _, state, _ = played(4, 4)
    save_checkpoint(folder, CONFIG, state)
    saved = jax.device_get(state.replace(key=jax.random.key_data(state.key)))
    report = {}

    def positions(state) -> collections.Counter:
        items, rows = jax.device_get(state.replay.items), newest_first(jax.device_get(state.replay))
        return collections.Counter(
            b"".join(leaf[row].tobytes() for leaf in jax.tree.leaves(items)) for row in rows
        )

    for count in (1, 2, 4, 8):
        _, restored, _ = restore_checkpoint(folder, CONFIG)
        programs = programs_of(CONFIG, count)
        placed = programs.place(restored)
        again = jax.device_get(placed.replace(key=jax.random.key_data(placed.key)))
        report[str(count)] = {
            "replay_equal": positions(placed) == positions(state),
            "ring_sizes": np.asarray(placed.replay.size).tolist(),
            "games_equal": largest_difference(again.selfplay, saved.selfplay) == 0,
            "learner_equal": largest_difference(again.learner, saved.learner) == 0,
            "key_equal": bool(np.array_equal(again.key, saved.key)),
            "goes_on": run_iteration(CONFIG, programs, placed)[1]["learn/updates"],
        }
    return report


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    print(
        json.dumps(
            {
                "search": search_report(),
                "update": update_report(),
                "long": long_learning(),
                "selfplay": selfplay_report(),
                "law": law_report(),
                "split": split_report(),
                "checkpoint": checkpoint_report(pathlib.Path(sys.argv[1])),
            }
        )
    )
