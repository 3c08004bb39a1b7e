"""One network for several rules: its planes, its batches, its games and its runs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_selfplay import Recorder, assert_same_positions, given_out
from tiny import tiny

import gomoku_jax as gj
from gomoku_jax.checkpoint import (
    CheckpointError,
    init_progress,
    init_training_state,
    restore_checkpoint,
    save_checkpoint,
)
from gomoku_jax.config import RULES, GameConfig, NetworkConfig, ReplayConfig, from_dict, to_dict
from gomoku_jax.encode import legal_action_masks, observe, states_from_positions
from gomoku_jax.game import Gomoku
from gomoku_jax.iteration import run_iteration
from gomoku_jax.metrics import read_metrics
from gomoku_jax.play.choose import choose
from gomoku_jax.programs import make_batch, make_programs, transform_positions
from gomoku_jax.run_agents import save_run_agent
from gomoku_jax.selfplay import Positions, SelfplayState
from gomoku_jax.train import train

# Freestyle and caro part soon here: overlines, and threes between two stones of the other side.
BOARD = GameConfig(3, 5, 3)
GAMES = (Gomoku(3, 5, 3), Gomoku(3, 5, 3, "caro"))
COUNT = 200
RULED = {"planes": "rules"}


def random_positions(rng: np.random.Generator, count: int, side: int) -> Positions:
    """Positions of all five rules, of sides of every colour, and some without a last move."""
    board = rng.choice(np.array([0, 1, -1], np.int8), (count, side, side), p=[0.6, 0.25, 0.15])
    last = rng.integers(-1, side * side, count)
    return Positions(
        board=jnp.asarray(board),
        to_play=jnp.asarray(rng.choice([1, 1, -1], count), jnp.int8),
        last_action=jnp.asarray(last, jnp.int32),
        policy_target=jnp.zeros((count, side * side)),
        policy_weight=jnp.ones(count),
        value_target=jnp.zeros(count),
        rule=jnp.asarray(rng.integers(0, len(RULES), count), jnp.int8),
    )


def plain_planes(position: Positions, i: int) -> np.ndarray:
    """The nine planes of one position in NumPy."""
    board, side = np.asarray(position.board[i]), int(position.to_play[i])
    planes = np.zeros((*board.shape, 9))
    planes[..., 0], planes[..., 1] = board == side, board == -side
    if position.last_action[i] >= 0:
        planes[..., 2].flat[int(position.last_action[i])] = 1
    planes[..., 3] = side == 1
    assert position.rule is not None
    planes[..., 4 + int(position.rule[i])] = 1
    return planes


def test_batches_tell_each_position_s_rule_and_mask_by_it():
    positions = random_positions(np.random.default_rng(3), COUNT, 9)
    main = Gomoku(9, 9, 5)
    config = tiny(
        game=GameConfig(9, 9, 5),
        network=RULED,
        selfplay={"num_games": 10},
        other_rules=("renju", "caro", "exact", "caro_overline"),
    )
    loses = dataclasses.replace(config, game=GameConfig(9, 9, 5, "renju", "loses"), other_rules=("exact",))
    games = [Gomoku(9, 9, 5, rule) for rule in RULES]

    @jax.jit
    def look(positions):
        states = states_from_positions(positions.board, positions.to_play, positions.last_action)
        batches = (
            make_batch(main, config, positions),
            make_batch(Gomoku.from_config(loses.game), loses, positions),
        )
        return batches, [(legal_action_masks(game, states), observe(game, states, "rules")) for game in games]

    (batch, lost), by_rule = jax.device_get(look(positions))
    expected = np.stack([plain_planes(positions, i) for i in range(COUNT)])
    np.testing.assert_array_equal(batch.observation, expected)
    assert batch.observation.dtype == np.float32
    empty = np.asarray(positions.board).reshape(COUNT, -1) == 0
    for number, (legal, planes) in enumerate(by_rule):
        mine = np.asarray(positions.rule) == number
        np.testing.assert_array_equal(batch.legal[mine], legal[mine])
        np.testing.assert_array_equal(planes[mine], expected[mine])
        masked = (empty & ~batch.legal)[mine].sum()
        assert masked > 20 if RULES[number] == "renju" else masked == 0
    # Where a forbidden move loses, it is legal.
    np.testing.assert_array_equal(lost.legal, empty)


def test_symmetries_keep_the_rule():
    positions = random_positions(np.random.default_rng(4), 20, 4)
    turned = jax.jit(transform_positions)(jax.random.key(0), positions)
    np.testing.assert_array_equal(turned.rule, positions.rule)
    assert not np.array_equal(turned.board, positions.board)


def test_a_network_takes_nine_planes():
    config = NetworkConfig(channels=8, num_blocks=1, value_hidden=8, planes="rules")
    params = jax.eval_shape(lambda: gj.init_network(config, GAMES[0], jax.random.key(0)))
    assert params["stem"]["kernel"].shape == (3, 3, 9, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"other_rules": ("exact",), "network": {}}, r"network.planes = 'all': 'rules' with other_rules"),
        ({"other_rules": ("freestyle",)}, r"other_rules = \('freestyle',\): .* none .* own, freestyle"),
        ({"other_rules": ("caro", "caro")}, r"other_rules = \('caro', 'caro'\): a tuple of different"),
        ({"other_rules": "caro"}, r"other_rules = 'caro': a tuple"),
        ({"other_rules": ("renju",)}, r"other_rules = \('renju',\): k = 3: renju is 5 in a row"),
        ({"other_rules": ("chess",)}, r"other_rules = \('chess',\): rule = 'chess': choose one of"),
        ({"other_rules": ("caro", "exact")}, r"selfplay.num_games = 8: a multiple of the run's 3 rules"),
    ],
)
def test_bad_rules_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**{"network": RULED, **changes})


def test_the_games_of_a_run_and_its_config_on_disk():
    config = tiny(
        game=GameConfig(9, 9, 5, "renju", "loses"), network=RULED, other_rules=("exact", "caro", "freestyle")
    )
    rest = [GameConfig(9, 9, 5, rule) for rule in ("exact", "caro", "freestyle")]
    assert config.games == (GameConfig(9, 9, 5, "renju", "loses"), *rest)
    assert from_dict(type(config), to_dict(config)) == config
    old = to_dict(tiny())
    del old["other_rules"]
    assert from_dict(type(config), old) == tiny() and tiny().games == (tiny().game,)


def shapes_of(config) -> dict[str, Any]:
    """What a checkpoint holds, by name."""
    leaves = jax.tree_util.tree_leaves_with_path(jax.eval_shape(lambda: init_training_state(config)))
    return {jax.tree_util.keystr(path): (leaf.shape, leaf.dtype) for path, leaf in leaves}


def test_only_runs_of_several_rules_keep_them():
    alone, both = tiny(game=BOARD, network=RULED), tiny(game=BOARD, network=RULED, other_rules=("caro",))
    names, more = shapes_of(alone), shapes_of(both)
    rule = {".replay.items.rule": ((alone.replay.capacity,), jnp.int8)}
    assert more == names | rule and more != names


# Self-play.

TWO = tiny(
    game=BOARD,
    network=RULED,
    other_rules=("caro",),
    search={"num_simulations": 2, "max_considered_actions": 2},
    selfplay={
        "num_games": 12,
        "moves_per_iteration": 15,
        "temperature": 3.0,
        "temperature_moves": 20,
    },
    replay={"capacity": 2000, "min_size": 2000},  # nothing is learned yet
    evaluation={"every": 0},
)


@pytest.fixture(scope="module")
def begun():
    """The programs and the first state; made in one piece, which compiles sooner."""
    state = jax.jit(lambda: init_training_state(TWO).replace(progress=None))()
    return make_programs(TWO), state.replace(progress=init_progress(TWO))


def of_rule(selfplay: SelfplayState, number: int) -> SelfplayState:
    """The games of one of two rules: every second."""
    return SelfplayState(
        states=jax.tree.map(lambda x: x[number::2], selfplay.states),
        pending=jax.tree.map(lambda x: x[:, number::2], selfplay.pending),
    )


@pytest.mark.slow
def test_every_game_obeys_its_own_rule_and_is_stored_once(begun):
    """Each game followed through by an oracle of its rule; stored positions and metrics are the oracles'."""
    programs, state = begun
    state = programs.place(jax.tree.map(lambda x: x.copy(), state))
    own = dataclasses.replace(TWO.selfplay, num_games=6)
    recorders = [Recorder(game, own, of_rule(state.selfplay, i), 1.0) for i, game in enumerate(GAMES)]
    stored = 0
    for _ in range(6):
        state, metrics = run_iteration(TWO, programs, state)
        items, size = jax.device_get(state.replay.items), int(state.replay.size[0])
        new = np.arange(len(items.rule))
        new = (stored <= new) & (new < size)
        ended = {}
        for i, (game, recorder) in enumerate(zip(GAMES, recorders, strict=True)):
            before = len(recorder.ended)
            due = recorder.follow(of_rule(state.selfplay, i), 15)
            assert_same_positions(given_out(items, new & (items.rule == RULES.index(game.rule))), due)
            stored += len(due)
            ended[game.rule] = recorder.ended[before:]
        assert stored == size
        ended[""] = [twin for twins in ended.values() for twin in twins]
        for rule, twins in ended.items():
            suffix, winners = f"_{rule}" if rule else "", [twin.winner for twin in twins]
            assert metrics[f"selfplay/games{suffix}"] == len(twins) > 0
            for name, winner in (("black_wins", 1), ("white_wins", -1), ("draws", 0)):
                share = winners.count(winner) / len(twins)
                assert metrics[f"selfplay/{name}{suffix}"] == pytest.approx(share)
            length = np.mean([len(twin.moves) for twin in twins])
            assert metrics[f"selfplay/game_length{suffix}"] == pytest.approx(length)
    assert items.rule.dtype == np.int8
    # Positions of the rules lie mixed, in order of time, so that the newest are never of one rule alone.
    assert len(set(items.rule[stored - 20 : stored].tolist())) == 2
    # Caro's games went on where freestyle's end.
    runs = [[len(oracle.winning_runs(x.board, 3, game.rule)) for game in GAMES] for x in recorders[1].ended]
    assert sum(freestyle > caro for freestyle, caro in runs) > 0


def test_games_of_all_rules_draw_their_own_numbers(begun):
    programs, state = begun
    state = jax.tree.map(lambda x: x.copy(), state)
    empty = jax.vmap(lambda _: GAMES[0].init())(jnp.arange(12))
    state = programs.place(state.replace(selfplay=state.selfplay.replace(states=empty)))
    after, _, _ = programs.selfplay(state.learner.params, state.selfplay, state.replay, jax.random.key(1))
    assert not np.asarray(after.pending.board[0]).any()  # A moves were played: the first is the oldest
    first = np.asarray(after.pending.board[1]).reshape(12, -1).argmax(-1)
    assert first[0::2].tolist() != first[1::2].tolist()


# Runs.


@pytest.fixture(scope="module")
def saved(tmp_path_factory, begun):
    """A run of two rules that was stopped before its first iteration."""
    workdir = tmp_path_factory.mktemp("rules") / "run"
    save_checkpoint(workdir, TWO, begun[1])
    save_run_agent(TWO, begun[1], workdir, "latest")
    return workdir


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({"other_rules": ()}, r"\(\)"),
        ({"other_rules": ("exact",)}, r"\('exact',\)"),
        ({"game": GameConfig(3, 5, 3, "caro"), "other_rules": ("freestyle",)}, "rule='caro'"),
    ],
)
def test_a_run_goes_on_with_its_own_rules_only(saved, changes, ours):
    assert restore_checkpoint(saved, TWO)[0] == TWO
    with pytest.raises(CheckpointError, match=r"the checkpoint in .*(caro|freestyle).*this run has.*" + ours):
        train(dataclasses.replace(TWO, **changes), saved, resume=True, quiet=True)


def test_its_agents_play_all_their_rules_and_say_so(saved):
    agent = gj.load_agent(saved)
    assert agent.game == GAMES[0] and agent.info["rules"] == ["freestyle", "caro"]
    states = jax.tree.map(lambda x: x[None], GAMES[1].init())
    action = jax.jit(agent.player(num_simulations=0, game=GAMES[1]))(jax.random.key(0), states)
    assert 0 <= int(action[0]) < 15
    asked = [
        (GAMES[0], False),
        (GAMES[1], False),
        (Gomoku(3, 5, 3, "exact"), True),
        (Gomoku(4, 5, 3, "caro"), True),
        (Gomoku(4, 5, 3), True),
    ]
    for game, is_new in asked:
        reason = choose(str(saved), game).reason
        assert "trained on 3x5, 3 in a row, freestyle, and under caro" in reason
        assert ("without having been trained on it" in reason) == is_new
    # The newest run on a board is also that of its other rules.
    assert choose(game=GAMES[1], runs=saved.parent).name == str(saved)
    assert choose(game=Gomoku(3, 5, 3, "exact"), runs=saved.parent).name != str(saved)


@pytest.mark.slow
def test_a_run_of_two_rules_learns_and_goes_on(tmp_path):
    config = dataclasses.replace(TWO, replay=ReplayConfig(capacity=2000, min_size=16), iterations=2)
    first = train(config, tmp_path, quiet=True)
    longer = dataclasses.replace(config, iterations=3)
    result = train(longer, tmp_path, resume=True, quiet=True)
    assert first.finished and result.finished
    rows = read_metrics(tmp_path)
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert all(np.isfinite(row["learn/loss"]) for row in rows)
    assert all(row["selfplay/games_freestyle"] + row["selfplay/games_caro"] > 0 for row in rows)
    items, size = jax.device_get(result.state.replay.items), int(result.state.replay.size[0])
    assert set(items.rule[:size].tolist()) == {RULES.index("freestyle"), RULES.index("caro")}
    assert gj.load_agent(tmp_path).info["rules"] == ["freestyle", "caro"]
