"""Fours, fives and wins by continuous fours, against a search of all moves in plain Python."""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from plain_vcf import (
    DIRECTIONS,
    empty_cells,
    four_wins,
    has_vcf,
    is_legal,
    on_board,
    replies,
    run_through,
    stone_wins,
    winning_cells,
)
from test_scripts import script, status_and_error

import gomoku_jax as gj
from gomoku_jax import tactics
from gomoku_jax.agent import AgentError, parse_player
from gomoku_jax.config import RULES, Rule
from gomoku_jax.encode import states_from_positions
from gomoku_jax.game import Gomoku, State, format_action
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search import search_with
from gomoku_jax.search.tactical import helped
from gomoku_jax.search.types import MASKED_LOGIT
from gomoku_jax.tactics import NONE, UNKNOWN, WON, solve_vcf
from gomoku_jax.tactics.bits import from_bits, stones_of, stopping_points

PUZZLES = [
    json.loads(line)
    for line in (pathlib.Path(__file__).parent / "vcf_puzzles.jsonl").read_text().splitlines()
]


def states_of(boards: np.ndarray, colors: np.ndarray) -> State:
    return states_from_positions(
        jnp.asarray(boards, jnp.int8), jnp.asarray(colors, jnp.int8), jnp.full(len(boards), -1, jnp.int32)
    )


def positions(game: Gomoku, count: int, stones: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Boards without a line and without a win in one for the side to move, and whose move it is."""
    rng = np.random.default_rng(seed)
    boards, colors = [], []
    while len(boards) < count:
        color = 1 if len(boards) % 2 == 0 else -1
        board = rng.choice(
            np.array([0, color, -color], np.int8), game.shape, p=[1 - stones, 0.58 * stones, 0.42 * stones]
        )
        if oracle.winning_runs(board, game.k, "freestyle"):
            continue
        if not winning_cells(board.astype(int).tolist(), game.k, game.rule, color):
            boards.append(board)
            colors.append(color)
    return np.stack(boards), np.asarray(colors)


def assert_wins(game: Gomoku, board: list[list[int]], color: int, line: list[int]) -> int:
    """The line is legal fours, each answered as it must be, up to a five or a four that nobody stops.

    Returns the plies up to the five.
    """
    *moves, (row, col) = [divmod(action, game.width) for action in line]
    for number, (r, c) in enumerate(moves):
        assert board[r][c] == 0
        if number % 2 == 0:
            assert is_legal(board, (r, c), game.rule, color)
            board[r][c] = color
            assert winning_cells(board, game.k, game.rule, color)
            assert not winning_cells(board, game.k, game.rule, -color)
        else:
            assert (r, c) in replies(board, game.k, game.rule, color)
            board[r][c] = -color
    assert board[row][col] == 0 and is_legal(board, (row, col), game.rule, color)
    board[row][col] = color
    if stone_wins(board, (row, col), game.k, game.rule):
        return len(line)
    assert winning_cells(board, game.k, game.rule, color)
    assert not winning_cells(board, game.k, game.rule, -color)
    assert not replies(board, game.k, game.rule, color)
    return len(line) + 2


def open_four(board: list[list[int]], cell: tuple[int, int], k: int, rule: str, color: int) -> bool:
    """Whether a stone on the cell stands in k - 1 unbroken stones whose both ends make a five, by trying."""
    row, col = cell
    board[row][col] = color
    found = False
    for step in DIRECTIONS:
        length, ends = run_through(board, cell, step)
        if length == k - 1 and all(on_board(board, r, c) and board[r][c] == 0 for r, c in ends):
            found |= all(wins_along(board, end, step, k, rule, color) for end in ends)
    board[row][col] = 0
    return found


def wins_along(board, end: tuple[int, int], step: tuple[int, int], k: int, rule: str, color: int) -> bool:
    """Whether a stone on an empty cell wins along one line, the rest of the board left out."""
    alone = [[0] * len(cells) for cells in board]
    for sign in (1, -1):
        r, c = end
        while on_board(board, r, c):
            alone[r][c] = board[r][c]
            r, c = r + sign * step[0], c + sign * step[1]
    alone[end[0]][end[1]] = color
    return stone_wins(alone, end, k, rule)


@pytest.mark.parametrize("rule", RULES)
def test_points_are_those_of_trying_them(rule: Rule):
    """Fives, fours, open fours and blocks, on boards where the side to move has no five yet."""
    game = Gomoku(7, 6, 5 if rule == "renju" else 4, rule)
    boards, colors = positions(game, 40, 0.5, seed=9)
    states = states_of(boards, colors)

    @jax.jit
    @jax.vmap
    def look(state):
        own, other = state.to_play, -state.to_play
        return (
            tactics.fives(game, state, own),
            tactics.fives(game, state, other),
            tactics.fours(game, state, own),
            tactics.open_fours(game, state, own),
            tactics.blocks(game, state),
            *stopping_points(game, *stones_of(state.board, other), other),
        )

    fives, theirs, fours, open_fours, blocks, stops, some = (np.asarray(part) for part in look(states))
    np.testing.assert_array_equal(some, theirs.any(-1))
    stops = np.asarray(from_bits(jnp.asarray(stops), game.width)).reshape(len(boards), -1)
    if rule != "renju":  # which forbids some
        np.testing.assert_array_equal(stops, blocks)
    np.testing.assert_array_equal(stops & blocks, blocks)
    assert not fives.any() and fours.any() and open_fours.any()

    def mask(cells) -> np.ndarray:
        found = np.zeros(game.num_actions, bool)
        found[[row * game.width + col for row, col in cells]] = True
        return found

    for i, (board, color) in enumerate(zip(boards, colors, strict=True)):
        plain, color = board.astype(int).tolist(), int(color)
        threats = winning_cells(plain, game.k, rule, -color)
        np.testing.assert_array_equal(theirs[i], mask(threats))
        made = []
        for row, col in empty_cells(plain):
            plain[row][col] = color
            if winning_cells(plain, game.k, rule, color):
                made.append((row, col))
            plain[row][col] = 0
        np.testing.assert_array_equal(fours[i], mask(made))
        opened = [cell for cell in empty_cells(plain) if open_four(plain, cell, game.k, rule, color)]
        np.testing.assert_array_equal(open_fours[i], mask(opened))
        stops = replies(plain, game.k, rule, -color) if threats else []
        np.testing.assert_array_equal(blocks[i], mask(stops))


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=[pytest.mark.slow] * (rule not in ("freestyle", "renju"))) for rule in RULES],
)
def test_wins_are_those_of_a_search_of_all_moves(rule: Rule):
    """Up to three fours and a five; each claimed line is played out, and its first move proved again."""
    game = Gomoku(7, 8, 5, rule) if rule == "renju" else Gomoku(6, 7, 4, rule)
    boards, colors = positions(game, 80, 0.5 if rule == "renju" else 0.33, seed=3)
    found = jax.device_get(solve_vcf(game, states_of(boards, colors), 7, 2000, 16))
    expected = [
        has_vcf(board.astype(int).tolist(), game.k, rule, int(color), 3)
        for board, color in zip(boards, colors, strict=True)
    ]
    np.testing.assert_array_equal(found.result, np.where(expected, WON, NONE))
    assert 10 < sum(expected) < 70
    for i in np.flatnonzero(expected):
        line = [int(a) for a in found.line[i] if a >= 0]
        assert found.action[i] == line[0]
        plain = boards[i].astype(int).tolist()
        assert four_wins(plain, divmod(line[0], game.width), game.k, rule, int(colors[i]), 3)
        assert assert_wins(game, plain, int(colors[i]), line) == found.plies[i]
    assert (np.asarray(found.line)[~np.asarray(expected)] == -1).all()
    assert (np.asarray(found.plies)[~np.asarray(expected)] == 0).all()
    short = jax.device_get(solve_vcf(game, states_of(boards, colors), 7, 2000, 16, within=3))
    expected = [
        has_vcf(board.astype(int).tolist(), game.k, rule, int(color), 1)
        for board, color in zip(boards, colors, strict=True)
    ]
    np.testing.assert_array_equal(short.result, np.where(expected, WON, NONE))
    assert (short.plies[expected] == 3).all() and any(expected)


def test_published_puzzles():
    """Those that have such a win, up to 147 plies long, and those that need a three on the way."""
    game = Gomoku(15, 15, 5, "renju")
    boards = np.stack([board_of(puzzle["rows"]) for puzzle in PUZZLES])
    colors = np.array([1 if puzzle["attacker"] == "black" else -1 for puzzle in PUZZLES])
    found = jax.device_get(solve_vcf(game, states_of(boards, colors), 151, 20_000, 4))
    assert found.result.tolist() == [WON if puzzle["has_vcf"] else NONE for puzzle in PUZZLES]
    for i in np.flatnonzero(found.result == WON):
        line = [int(a) for a in found.line[i] if a >= 0]
        assert_wins(game, boards[i].astype(int).tolist(), int(colors[i]), line)
    counter = [puzzle["id"] for puzzle in PUZZLES].index("quintet_test_vcf_counter_0")
    assert format_action(game, int(found.action[counter])) == "i8"


def board_of(rows: str) -> np.ndarray:
    colours = {".": 0, "X": 1, "O": -1}
    return np.array([[colours[c] for c in row] for row in reversed(rows.split("/"))], np.int8)


def test_bounds():
    """A win is found from its length on, and nodes that run out are said."""
    game = Gomoku(15, 15, 5)
    # Two threes of Black's, each closed at one end, that meet on h8: a four, and a double four.
    state = gj.replay_moves(game, "e8d8f8h4g8a15h5a13h6a11h7c15a1")
    batch = jax.tree.map(lambda leaf: leaf[None], state.replace(to_play=jnp.int8(1)))
    for depth, result in ((1, NONE), (3, WON)):
        assert int(solve_vcf(game, batch, depth).result[0]) == result
    found = solve_vcf(game, batch, 3, max_nodes=1)
    assert found.line[0].tolist() == [112, -1, -1] and int(found.action[0]) == 112  # h8
    renju = Gomoku(15, 15, 5, "renju")  # which forbids h8
    assert int(solve_vcf(renju, batch, 3).result[0]) == NONE
    assert int(solve_vcf(renju, batch, 3, max_nodes=1).result[0]) == UNKNOWN
    over = jax.tree.map(lambda leaf: leaf[None], gj.replay_moves(game, "a1a2b1b2c1c2d1d2e1"))
    assert int(solve_vcf(game, over, 3).result[0]) == NONE
    for bad in ({"max_depth": 2}, {"max_depth": 0}, {"max_nodes": 0}, {"num_lanes": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            solve_vcf(game, batch, **bad)
    for within in (0, 2, 5):
        with pytest.raises(ValueError, match=rf"within = {within}: .* max_depth = 3"):
            solve_vcf(game, batch, 3, within=within)


@pytest.mark.slow
def test_lanes_and_their_number_change_nothing():
    game = Gomoku(6, 7, 4)
    boards, colors = positions(game, 60, 0.33, seed=5)
    one = jax.device_get(solve_vcf(game, states_of(boards, colors), 7, 2000, 1))
    many = jax.device_get(solve_vcf(game, states_of(boards, colors), 7, 2000, 60))
    for name in ("result", "action", "line"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))
    assert (one.result == WON).any() and (one.result == NONE).any()


@pytest.mark.parametrize(
    ("algorithm", "backend"), [("gumbel", "fast"), pytest.param("puct", "mctx", marks=pytest.mark.slow)]
)
def test_a_search_plays_and_is_told_what_is_proved(algorithm, backend):
    """The first four of a win, else a stop to the other side's win, whatever the network thinks.

    A move visited once is worth what the position behind it is: lost, where the other side wins by fours.
    """
    game = Gomoku(6, 7, 4)
    boards, colors = positions(game, 80, 0.24, seed=7)
    states = states_of(boards, colors)

    def flat(params, states):
        batch = states.to_play.shape[0]
        return NetworkOutput(jnp.zeros((batch, game.num_actions)), jnp.full(batch, -0.5))

    config = gj.SearchConfig(
        algorithm, num_simulations=6, backend=backend, root_vcf=5, tree_vcf=5, ply_discount=0.9
    ).greedy()
    output = jax.jit(lambda: search_with(game, flat, None, jax.random.key(0), states, config))()
    found = jax.device_get(solve_vcf(game, states, 5))
    blocks = np.asarray(jax.vmap(game.blocking_actions)(states, -states.to_play))
    kinds = set()
    for i in range(len(boards)):
        action, weights = int(output.action[i]), np.asarray(output.action_weights[i])
        if found.result[i] == WON:
            assert action == found.action[i] and weights[action] == 1
            # As the win is worth, not a mean with what the network says below it.
            assert output.root_value[i] == pytest.approx(0.9 ** (found.plies[i] - 1))
            kinds.add("won")
        elif blocks[i].any():
            assert blocks[i][action] and weights[~blocks[i]].sum() == 0
            assert np.asarray(output.visit_counts)[i][~blocks[i]].sum() == 0
            kinds.add("blocks")
        else:
            kinds.add("quiet")
    assert kinds == {"won", "blocks", "quiet"}

    kinds = set()
    once = (np.asarray(output.visit_counts) == 1) & (found.result != WON)[:, None]
    for i, action in list(zip(*np.nonzero(once), strict=True))[::2]:
        board, color = boards[i].astype(int).tolist(), int(colors[i])
        row, col = divmod(int(action), game.width)
        board[row][col] = color
        least = next((n for n in range(3) if has_vcf(board, game.k, game.rule, -color, n)), None)
        # The shortest of several wins need not be the first that is found.
        values = [-0.5] if least is None else [0.9 ** (2 * fours) for fours in range(least, 3)]
        assert any(output.q_values[i, action] == pytest.approx(-0.9 * value) for value in values)
        kinds.add(least)
    assert kinds >= {0, 1}
    assert None in kinds or algorithm == "puct"  # which comes back to what is not lost


def test_bad_depths_are_refused():
    for bad in (2, -1):
        with pytest.raises(ValueError, match=rf"search.root_vcf = {bad}"):
            gj.SearchConfig(root_vcf=bad)
        with pytest.raises(ValueError, match=rf"search.tree_vcf = {bad}"):
            gj.SearchConfig(tree_vcf=bad)
    with pytest.raises(ValueError, match=r"0 with search\.reuse_tree"):
        gj.SearchConfig(root_vcf=5, reuse_tree=True)


def test_evaluated_positions_are_worth_what_is_proved():
    """Wins of up to two fours and a five; elsewhere, and in ended games, what the other helper says."""
    game = Gomoku(6, 7, 4)
    boards, colors = positions(game, 60, 0.33, seed=7)
    over = gj.replay_moves(game, "a1a2b1b2c1c2d1")
    states = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), states_of(boards, colors), over)

    def flat(params, states):
        batch = states.to_play.shape[0]
        return NetworkOutput(jnp.zeros((batch, game.num_actions)), jnp.full(batch, -0.5))

    config = gj.SearchConfig(tactical_helper=True, tree_vcf=5, ply_discount=0.9)
    plain = dataclasses.replace(config, tree_vcf=0)
    output, before = (jax.jit(helped(game, flat, c))(None, states) for c in (config, plain))
    allowed = np.asarray(output.policy_logits > MASKED_LOGIT / 2)
    won = np.zeros(61, bool)
    for i, (board, color) in enumerate(zip(boards, colors, strict=True)):
        rows, color = board.astype(int).tolist(), int(color)
        won[i] = has_vcf(rows, game.k, game.rule, color, 2)
        if won[i]:
            (action,) = np.flatnonzero(allowed[i])
            assert four_wins(rows, divmod(int(action), 7), game.k, game.rule, color, 2)
            least = 3 if four_wins(rows, divmod(int(action), 7), game.k, game.rule, color, 1) else 5
            assert output.value[i] in (pytest.approx(0.9 ** (least - 1)), pytest.approx(0.9**4))
    np.testing.assert_array_equal(output.value[~won], before.value[~won])
    np.testing.assert_array_equal(output.policy_logits[~won], before.policy_logits[~won])
    assert 10 < won.sum() < 50


def test_a_player_wins_by_fours_and_else_wins_and_blocks_at_once():
    game = Gomoku(6, 7, 4)
    boards, colors = positions(game, 48, 0.33, seed=7)
    states = states_of(boards, colors)
    actions = np.asarray(jax.jit(gj.vcf_player(game, 5))(jax.random.key(1), states))
    plain = np.asarray(jax.jit(gj.tactical_player(game))(jax.random.key(1), states))
    found = jax.device_get(solve_vcf(game, states, 5, 500))
    np.testing.assert_array_equal(actions, np.where(found.result == WON, found.action, plain))
    assert (actions != plain).any()
    with pytest.raises(ValueError, match="max_depth = 4"):
        gj.vcf_player(game, 4)
    assert parse_player("vcf:5").name == "vcf:5"
    for bad in ("vcf", "vcf:", "vcf:4", "vcf:x"):
        with pytest.raises(AgentError, match=bad):
            parse_player(bad)


def test_the_script_that_compares_with_the_solver_of_record(capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    argv = [
        "--positions",
        "12",
        "--board",
        "7x7x4",
        "--agent",
        "6x6x4",
        "--stones",
        "6",
        "14",
        "--depth",
        "5",
    ]
    assert script("check_vcf").main([*argv, "--processes", "1", "--json", str(rows)]) == 0
    row = json.loads(rows.read_text())
    assert row["false_wins"] == 0 and row["positions"] == 12
    assert row["found"] == row["with_win"] == row["claimed"] > 0
    for bad in (["--positions", "0"], ["--record-nodes", "0"], ["--stones", "9", "8"], ["--rule", "renju"]):
        code, text = status_and_error(capsys, "check_vcf", [*argv, *bad])
        assert code == 2 and ("renju is 5" in text or " ".join(bad) in text)
    assert status_and_error(capsys, "check_vcf", ["--depth", "4"])[0] == 2
