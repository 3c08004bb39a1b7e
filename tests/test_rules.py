"""The rules against an independent oracle, closed forms and published counts."""

import collections
import functools
import itertools
import math
from typing import Any, NamedTuple

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from gomoku_jax.config import GameConfig, Rule
from gomoku_jax.encode import legal_action_masks, observe, states_from_positions
from gomoku_jax.game import (
    Gomoku,
    State,
    playout_winner,
    random_actions,
    random_opening,
    random_order,
    replay_moves,
)
from gomoku_jax.game.rules import unbroken
from gomoku_jax.game.tables import line_end_table, line_table

RULES: tuple[Rule, ...] = ("freestyle", "exact")
BOARDS = [(3, 3, 3), (4, 5, 3), (7, 4, 4), (3, 8, 5), (15, 15, 5)]
CARO: tuple[Rule, ...] = ("caro", "caro_overline")
GAMES = [Gomoku(*board, rule) for board in BOARDS for rule in RULES]
GAMES += [Gomoku(*board, rule) for board in [(4, 5, 3), (7, 4, 4), (15, 15, 5)] for rule in CARO]


def oracle_game(game: Gomoku) -> oracle.Game:
    return oracle.Game(game.height, game.width, game.k, game.rule)


def take(states: State, index: Any) -> State:
    """Some states of a batch, as NumPy."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], states)


def running_states(boards: np.ndarray, to_play: np.ndarray) -> State:
    """Running games set up from boards [N, H, W]; `last_action` is never read by the step."""
    return states_from_positions(
        jnp.asarray(boards, jnp.int8),
        jnp.asarray(to_play, jnp.int8),
        jnp.full(len(boards), -1, jnp.int32),
    )


@functools.partial(jax.jit, static_argnums=0)
def step_all(game: Gomoku, states: State, actions: jax.Array) -> State:
    return jax.vmap(game.step)(states, actions)


# --- Random games, step by step ---------------------------------------------------------------------------


class Seen(NamedTuple):
    """What a game shows after each step, [T, ...]."""

    state: State
    legal: jax.Array
    probe_legal: jax.Array
    line: jax.Array
    planes: jax.Array


@functools.partial(jax.jit, static_argnums=0)
def play(game: Gomoku, actions: jax.Array, probes: jax.Array) -> Seen:
    def body(state, action):
        state = game.step(state, action)
        seen = Seen(
            state,
            game.legal_action_mask(state),
            jax.vmap(lambda probe: game.is_legal(state, probe))(probes),
            game.winning_line(state),
            game.observe(state),
        )
        return state, seen

    return jax.lax.scan(body, game.init(), actions)[1]


@st.composite
def games_and_actions(draw) -> tuple[Gomoku, list[int]]:
    """A game and all its points in some order, with illegal actions strewn in."""
    game = draw(st.sampled_from(GAMES))
    points = game.num_actions
    if points <= 42:
        actions = list(draw(st.permutations(range(points))))
    else:  # inside a window, where lines and overlines are frequent
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        height, width = rng.integers(1, game.height + 1), rng.integers(5, game.width + 1)
        top, left = rng.integers(0, game.height - height + 1), rng.integers(0, game.width - width + 1)
        cells = itertools.product(range(top, top + height), range(left, left + width))
        window = rng.permutation([row * game.width + col for row, col in cells])
        rest = np.setdiff1d(np.arange(points), window)
        actions = [int(a) for a in np.concatenate([window, rng.permutation(rest)])]
    bad = st.tuples(st.integers(0, points), st.integers(-3, points + 3))
    for place, action in draw(st.lists(bad, max_size=6)):
        actions.insert(place, action)
    return game, actions


@hypothesis.given(games_and_actions())
@hypothesis.settings(max_examples=100)
def test_random_games_match_the_oracle(case):
    game, actions = case
    points = game.num_actions
    padded = np.full(points + 8, -1, np.int32)  # one length per board; the tail is illegal steps
    padded[: len(actions)] = actions
    probes = np.array([-(2**31), -points, -1, *range(points), points, points + 1, 2**31 - 1], np.int32)
    seen = jax.device_get(play(game, padded, probes))
    mirror = oracle_game(game)
    for t, action in enumerate(padded):
        mirror.play(int(action))
        state = take(seen.state, t)
        np.testing.assert_array_equal(state.board, mirror.board)
        shown = state.to_play, state.last_action, state.move_count, state.terminated, state.winner
        assert shown == (
            mirror.to_play,
            mirror.last_action,
            len(mirror.moves),
            mirror.terminated,
            mirror.winner,
        )
        np.testing.assert_array_equal(seen.legal[t], [mirror.is_legal(a) for a in range(points)])
        np.testing.assert_array_equal(seen.probe_legal[t], [mirror.is_legal(int(a)) for a in probes])
        np.testing.assert_array_equal(seen.line[t], mirror.line_mask())
        last = np.zeros(points)
        last[mirror.moves[-1:]] = 1
        board = np.array(mirror.board)
        planes = [board == mirror.to_play, board == -mirror.to_play, last.reshape(game.shape)]
        planes.append(np.full(game.shape, mirror.to_play == 1))
        np.testing.assert_array_equal(seen.planes[t], np.stack(planes, -1))


@pytest.mark.parametrize("rule", RULES)
def test_illegal_and_late_actions_change_nothing(rule):
    game = Gomoku(3, 5, 3, rule)
    running = replay_moves(game, [0, 7, 14])
    won = replay_moves(game, [0, 5, 1, 6, 2])
    drawn = replay_moves(Gomoku(3, 3, 3, rule), [0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert won.terminated and won.winner == 1 and drawn.terminated and drawn.winner == 0
    illegal = [0, 7, 14, -1, -15, 15, 16, 10**6, -(10**6), 2**31 - 1, -(2**31)]
    everything = list(range(-4, 20))
    step = jax.jit(lambda g, s, a: g.step(s, a), static_argnums=0)
    is_legal = jax.jit(game.is_legal)
    for state, actions in ((running, illegal), (won, everything)):
        for action in actions:
            chex.assert_trees_all_equal(step(game, state, action), state)
            assert not is_legal(state, action)
    for action in range(-2, 11):
        chex.assert_trees_all_equal(step(Gomoku(3, 3, 3, rule), drawn, action), drawn)
    assert not game.legal_action_mask(won).any()
    assert not np.array_equal(step(game, running, 1).board, running.board)


# --- Lines ------------------------------------------------------------------------------------------------

LINE_BOARDS = [(15, 15, 5), (6, 7, 4), (3, 8, 5), (8, 3, 5), (9, 9, 3)]


def test_line_tables_match_the_closed_form_and_the_oracle():
    for height, width, k in [*LINE_BOARDS, (3, 3, 3), (26, 26, 26), (26, 3, 4)]:
        table = line_table(height, width, k)
        assert table.shape == (oracle.num_lines(height, width, k), k) and table.dtype == np.int32
        mine = {frozenset(line.tolist()) for line in table}
        lines = oracle.lines_of(height, width, k)
        assert mine == {frozenset(row * width + col for row, col in line) for line in lines}
        assert len(mine) == len(table)


def test_line_ends_lengthen_their_line():
    for height, width, k in LINE_BOARDS:
        points = height * width
        longer = collections.defaultdict(set)  # line -> points that make a line of k + 1
        for line in oracle.lines_of(height, width, k + 1):
            cells = [row * width + col for row, col in line]
            longer[frozenset(cells[:-1])].add(cells[-1])
            longer[frozenset(cells[1:])].add(cells[0])
        ends = line_end_table(height, width, k)
        for line, pair in zip(line_table(height, width, k), ends, strict=True):
            assert set(pair.tolist()) - {points} == longer[frozenset(line.tolist())]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("height, width, k", LINE_BOARDS)
def test_every_line_wins_whichever_stone_is_last(height, width, k, rule):
    game = Gomoku(height, width, k, rule)
    lines = np.array([[r * width + c for r, c in line] for line in oracle.lines_of(height, width, k)])
    assert len(lines) == oracle.num_lines(height, width, k)
    full = np.zeros((len(lines), k, height * width), np.int8)  # one copy for each last stone
    full[np.arange(len(lines))[:, None, None], np.arange(k)[None, :, None], lines[:, None, :]] = 1
    before = full.copy()
    before[np.arange(len(lines))[:, None], np.arange(k)[None, :], lines] = 0
    colour = np.repeat([1, -1], len(lines) * k).astype(np.int8)
    before = np.tile(before.reshape(-1, height, width), (2, 1, 1)) * colour[:, None, None]
    full = np.tile(full.reshape(-1, height, width), (2, 1, 1)) * colour[:, None, None]
    last = np.tile(lines.reshape(-1), 2)
    after = step_all(game, running_states(before, colour), last)
    np.testing.assert_array_equal(after.board, full)
    np.testing.assert_array_equal(after.winner, colour)
    assert np.asarray(after.terminated).all()
    shown = jax.jit(jax.vmap(game.winning_line))(after)
    np.testing.assert_array_equal(shown, full != 0)
    # Without the line's next stone, and with that stone in the other colour, the same move wins nothing.
    neighbour = np.tile(np.roll(lines, -1, axis=1).reshape(-1), 2)
    for other in (0, -1):
        broken = before.reshape(-1, height * width).copy()
        broken[np.arange(len(broken)), neighbour] *= other
        states = running_states(broken.reshape(before.shape), colour)
        assert not np.asarray(step_all(game, states, last).terminated).any()


@pytest.mark.parametrize("height, width, k", LINE_BOARDS)
def test_no_line_crosses_the_edge(height, width, k):
    """Of all evenly spaced runs of action numbers, only the lines win."""
    game = Gomoku(height, width, k)
    lines = {frozenset(r * width + c for r, c in line) for line in oracle.lines_of(height, width, k)}
    runs = [
        [start + i * stride for i in range(k)]
        for stride in (1, width - 1, width, width + 1)
        for start in range(height * width - (k - 1) * stride)
    ]
    expected = np.array([frozenset(run) in lines for run in runs])
    assert expected.sum() == len(lines) and not expected.all()
    cells = np.array(runs)
    boards = np.zeros((len(runs), height * width), np.int8)
    np.put_along_axis(boards, cells[:, :-1], 1, axis=1)
    states = running_states(boards.reshape(-1, height, width), np.ones(len(runs)))
    np.testing.assert_array_equal(step_all(game, states, cells[:, -1]).winner, expected)


def test_named_lines():
    row_end = replay_moves(Gomoku(15, 15, 5), [13, 100, 14, 102, 15, 104, 16, 106, 17])
    assert row_end.winner == 0 and not row_end.terminated
    # alpha-zero-general issue 40: an anti-diagonal that touches the first column.
    diagonal = [60, 99, 51, 97, 42, 95, 33, 93, 24]
    for rule in RULES:
        assert replay_moves(Gomoku(10, 10, 5, rule), diagonal).winner == 1


# --- Overlines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, moves, freestyle, exact, caro, caro_overline",
    [
        # piskvork_renju issue 1: six in a column, f7 to f12.
        (20, "b10e10f11g9f10h8f8g7f7i10f12q5f9", 1, 0, 0, 1),
        # GomokuZero issue 5: three and two joined make six.
        (15, "b1a12c1c12d1e12f1g12g1i12e1", 1, 0, 0, 1),
        # A white six, from renju-python's tests.
        (15, "a1a2c1b2e1d2g1e2i1f2k1c2", -1, 0, 0, -1),
        # Gomocup's caro cases: a five with the opponent's stones at both its ends, and at one.
        (15, "e8d8f8j8g8a1h8c1i8", 1, 1, 0, 0),
        (15, "e8d8f8a1g8c1h8e1i8", 1, 1, 1, 1),
        # The edge of the board does not block: a1 to e1 with a white stone on f1.
        (15, "a1f1b1a9c1c9d1e9e1", 1, 1, 1, 1),
        # Six of Black's, b1 to g1, with white stones on a1 and h1.
        (15, "b1a1c1h1d1a9f1c9g1e9e1", 1, 0, 0, 1),
    ],
)
def test_published_overlines(size, moves, freestyle, exact, caro, caro_overline):
    rules: tuple[Rule, ...] = (*RULES, *CARO)
    for rule, winner in zip(rules, (freestyle, exact, caro, caro_overline), strict=True):
        state = replay_moves(Gomoku(size, size, 5, rule), moves)
        assert (int(state.winner), bool(state.terminated)) == (winner, winner != 0)


@pytest.mark.parametrize("colour", [1, -1])
def test_six_one_way_and_five_another_is_an_exact_win(colour):
    """For every pair of directions through the same stone."""
    directions = ((0, 1), (1, 0), (1, 1), (1, -1))
    boards, expected, lit = [], [], []
    for six, five in itertools.permutations(directions, 2):
        for with_five in (True, False):
            board = np.zeros((15, 15), np.int8)
            overline = [(7 + i * six[0], 7 + i * six[1]) for i in range(-3, 3)]
            line = [(7 + i * five[0], 7 + i * five[1]) for i in range(-2, 3 if with_five else 2)]
            for cell in overline + line:
                board[cell] = colour
            board[7, 7] = 0
            boards.append(board)
            expected.append(colour if with_five else 0)
            mask = np.zeros((15, 15), bool)
            mask[tuple(np.transpose(line))] = with_five
            lit.append(mask)
    states = running_states(np.stack(boards), np.full(len(boards), colour))
    exact, freestyle = Gomoku(15, 15, 5, "exact"), Gomoku(15, 15, 5)
    after = step_all(exact, states, np.full(len(boards), 112))
    np.testing.assert_array_equal(after.winner, expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(exact.winning_line))(after), lit)
    free = step_all(freestyle, states, np.full(len(boards), 112))
    np.testing.assert_array_equal(free.winner, np.full(len(boards), colour))


def test_runs_of_every_length():
    """A run of n stones, whichever is placed last: freestyle wins from k on, exact at k only."""
    cases = [(n, start, last) for n in range(1, 10) for start in range(10 - n) for last in range(n)]
    for side in ("row", "column"):
        boards = np.zeros((len(cases), 3, 9), np.int8)
        for board, (n, start, last) in zip(boards, cases, strict=True):
            board[1, start : start + n] = 1
            board[1, start + last] = 0
        actions = np.array([9 + start + last for _, start, last in cases])
        shape = (3, 9)
        if side == "column":
            boards, shape = boards.swapaxes(1, 2), (9, 3)
            actions = np.array([(start + last) * 3 + 1 for _, start, last in cases])
        states = running_states(boards, np.ones(len(cases)))
        lengths = np.array([n for n, _, _ in cases])
        for rule, won in zip(RULES, (lengths >= 4, lengths == 4), strict=True):
            game = Gomoku(*shape, 4, rule)

            def look(state, action, game=game):
                after = game.step(state, action)
                return after, game.winning_line(after)

            after, lit = jax.jit(jax.vmap(look))(states, actions)
            np.testing.assert_array_equal(after.winner, won)
            np.testing.assert_array_equal(lit, (np.asarray(after.board) != 0) & won[:, None, None])


# --- Wins in one ------------------------------------------------------------------------------------------


def can_win(board: np.ndarray, k: int, rule: Rule, colour: int) -> set[int]:
    """The empty points where a stone of a colour makes a winning line, by scanning boards."""
    found = set()
    for action in np.flatnonzero(board.reshape(-1) == 0):
        after = board.copy()
        after.reshape(-1)[action] = colour
        cell = divmod(int(action), board.shape[1])
        runs = oracle.winning_runs(after, k, rule)
        if any(owner == colour and cell in run for owner, run in runs):
            found.add(int(action))
    return found


@pytest.mark.parametrize("rule", [*RULES, *CARO])
def test_wins_in_one_and_what_stops_them(rule):
    """Against every point tried on random boards, fives closed at one end or both among them."""
    game = Gomoku(6, 7, 4, rule)
    rng = np.random.default_rng(11)
    boards = rng.choice(np.array([0, 1, -1], np.int8), (80, 6, 7), p=[0.4, 0.35, 0.25])
    states = running_states(boards, np.ones(len(boards)))
    several = 0
    for colour in (1, -1):
        wins = jax.jit(jax.vmap(lambda state, c=colour: game.winning_actions(state, c)))(states)
        blocks = jax.jit(jax.vmap(lambda state, c=colour: game.blocking_actions(state, c)))(states)
        for board, win, block in zip(boards, np.asarray(wins), np.asarray(blocks), strict=True):
            expected = can_win(board, 4, rule, colour)
            assert set(np.flatnonzero(win).tolist()) == expected
            stopping = set()
            for action in np.flatnonzero(board.reshape(-1) == 0) if expected else ():
                after = board.copy()
                after.reshape(-1)[action] = -colour
                if not can_win(after, 4, rule, colour):
                    stopping.add(int(action))
            assert set(np.flatnonzero(block).tolist()) == stopping
            several += len(stopping) > 1
    assert (several > 0) == (rule in CARO)


def test_renjus_wins_in_one_are_those_of_two_other_rules():
    """Black wins as under exact, White as under freestyle."""
    rng = np.random.default_rng(12)
    boards = rng.choice(np.array([0, 1, -1], np.int8), (200, 9, 9), p=[0.4, 0.3, 0.3])
    states = running_states(boards, np.ones(len(boards)))
    seen = 0
    for colour, other in ((1, Gomoku(9, 9, 5, "exact")), (-1, Gomoku(9, 9, 5))):
        for name in ("winning_actions", "blocking_actions"):

            def look(game, colour=colour, name=name):
                return jax.jit(jax.vmap(lambda state: getattr(game, name)(state, colour)))(states)

            ours = look(Gomoku(9, 9, 5, "renju"))
            np.testing.assert_array_equal(ours, look(other))
            seen += np.asarray(ours).sum()
    assert seen > 100


# --- Ends of games ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_draws_and_wins_on_a_full_board(rule):
    game = Gomoku(3, 3, 3, rule)
    draw = [0, 1, 2, 4, 3, 5, 7, 6, 8]
    before, after = replay_moves(game, draw[:-1]), replay_moves(game, draw)
    assert not before.terminated and after.terminated and after.winner == 0
    assert not game.winning_line(after).any()
    win = replay_moves(game, [1, 0, 2, 4, 3, 6, 5, 7, 8])
    assert win.terminated and win.winner == 1 and win.move_count == 9
    np.testing.assert_array_equal(game.winning_line(win), [[0, 0, 1]] * 3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [4, 5])
def test_a_6x6_draw_ends_with_the_last_stone(rule, k):
    # HTML5-Gomoku issue 2: no run is longer than three.
    moves = "a1b1c1d1e1f1a2b2c2d2e2f2a3b3c3d3e3f3b4a4d4c4f4e4b5a5d5c5f5e5b6a6d6c6f6e6"
    game = Gomoku(6, 6, k, rule)
    before, after = replay_moves(game, moves[:-2]), replay_moves(game, moves)
    assert not before.terminated and int(game.legal_action_mask(before).sum()) == 1
    assert after.terminated and after.winner == 0 and after.move_count == 36


@pytest.mark.parametrize(
    "actions, winner, plies", [([0, 20, 1, 21, 2], 1, 5), ([20, 0, 21, 1, 13, 2], -1, 6)]
)
def test_short_games_on_5x5(actions, winner, plies):
    state = replay_moves(Gomoku(5, 5, 3), actions)
    assert state.winner == winner and state.terminated and state.move_count == plies
    assert state.to_play == -winner  # the loser would be next


@pytest.mark.parametrize("height, width", [(8, 6), (6, 8), (3, 26), (26, 3), (15, 15)])
def test_each_action_lights_its_own_point(height, width):
    game = Gomoku(height, width, 3)
    actions = np.arange(height * width)
    states = jax.jit(jax.vmap(game.step, in_axes=(None, 0)))(game.init(), actions)
    expected = np.zeros((len(actions), height, width), np.int8)
    expected[actions, actions // width, actions % width] = 1
    np.testing.assert_array_equal(states.board, expected)
    look = jax.jit(observe, static_argnums=(0, 2))
    planes = look(game, states)
    np.testing.assert_array_equal(np.asarray(planes)[..., 1], expected)
    np.testing.assert_array_equal(np.asarray(planes)[..., 2], expected)
    assert not np.asarray(planes)[..., [0, 3]].any()
    np.testing.assert_array_equal(look(game, states, "stones"), np.asarray(planes)[..., :2])
    np.testing.assert_array_equal(legal_action_masks(game, states), 1 - expected.reshape(len(actions), -1))


# --- Counts and values of small games ---------------------------------------------------------------------

# (H, W, k, rule) -> games by ply as (running, won so far), from two solvers that are not ours.
PERFT = {
    (3, 3, 3, "freestyle"): [(9, 0), (72, 0), (504, 0), (3024, 0), (13680, 1440), (49392, 6768)],
    (3, 3, 3, "exact"): [(9, 0), (72, 0), (504, 0), (3024, 0), (13680, 1440), (49392, 6768)],
    (3, 4, 3, "freestyle"): [(12, 0), (132, 0), (1320, 0), (11880, 0), (88992, 6048), (583200, 45792)],
    (3, 4, 3, "exact"): [(12, 0), (132, 0), (1320, 0), (11880, 0), (88992, 6048), (583200, 45792)],
    (4, 4, 3, "freestyle"): [(16, 0), (240, 0), (3360, 0), (43680, 0), (501696, 22464), (5281776, 259344)],
    (4, 4, 3, "exact"): [(16, 0), (240, 0), (3360, 0), (43680, 0), (501696, 22464), (5281776, 259344)],
    (3, 5, 3, "freestyle"): [(15, 0), (210, 0), (2730, 0), (32760, 0), (344520, 15840), (3293496, 167544)],
    (4, 4, 4, "freestyle"): [(16, 0), (240, 0), (3360, 0), (43680, 0), (524160, 0), (5765760, 0)],
}
REACHABLE = {
    (3, 3, 3, "freestyle"): 5478,
    (3, 3, 3, "exact"): 5478,
    (3, 4, 3, "freestyle"): 111973,
    (3, 4, 3, "exact"): 113081,
}
# Plies within which the first player's win shows.
HORIZON = {(4, 4, 3, "freestyle"): 6, (4, 4, 3, "exact"): 6, (3, 5, 3, "freestyle"): 7}
# The first player's value after each first move, row 0 first.
FIRST_MOVES = {
    (3, 3, 3): [0] * 9,
    (3, 4, 3): [1, 1, 1, 1, -1, 1, 1, -1, 1, 1, 1, 1],
    (4, 4, 3): [1] * 16,
    (3, 5, 3): [1, 1, 1, 1, 1, -1, 1, 1, 1, -1, 1, 1, 1, 1, 1],
    (4, 4, 4): [0] * 16,
}
# The value of the empty board for the first player.
SOLVED = {
    (3, 3, 3, "freestyle"): 0,
    (3, 4, 3, "freestyle"): 1,
    (3, 5, 3, "freestyle"): 1,
    (4, 4, 3, "freestyle"): 1,
    (5, 3, 4, "freestyle"): 0,
    (4, 4, 4, "freestyle"): 0,
    (3, 3, 3, "exact"): 0,
    (3, 4, 3, "exact"): 1,
    (4, 4, 3, "exact"): 1,
    (5, 4, 3, "exact"): 1,
    (5, 5, 3, "exact"): 1,
    (4, 4, 4, "exact"): 0,
}


class Layer(NamedTuple):
    """The positions after so many plies, each board once."""

    terminated: np.ndarray  # [n]
    winner: np.ndarray  # [n]
    games: np.ndarray  # [n] how many games reach it
    children: np.ndarray  # int32 [n, A] index into the next layer, -1 where there is no move


@functools.partial(jax.jit, static_argnums=0)
def step_everywhere(game: Gomoku, states: State) -> tuple[State, jax.Array]:
    """All children [B, A, ...] of a batch, and which of them are moves."""
    actions = jnp.arange(game.num_actions)
    children = jax.vmap(lambda s: jax.vmap(lambda a: game.step(s, a))(actions))(states)
    return children, jax.vmap(game.legal_action_mask)(states)


@functools.cache
def expand(game: Gomoku, depth: int, chunk: int = 2048) -> list[Layer]:
    """Plays every game `depth` plies deep with the package's step; transpositions are merged."""
    powers = 3 ** np.arange(game.num_actions, dtype=np.int64)
    states: Any = jax.tree.map(lambda leaf: np.asarray(leaf)[None], game.init())
    layers, keys, games = [], np.zeros(1, np.int64), np.ones(1, np.int64)
    for _ in range(min(depth, game.num_actions)):
        n, collected = len(keys), []
        for i in range(0, n, chunk):
            index = np.minimum(np.arange(i, i + chunk), n - 1)  # one shape for every batch
            children, legal = step_everywhere(game, take(states, index))
            taken = (np.asarray(legal) & (np.arange(i, i + chunk) < n)[:, None]).nonzero()
            collected.append((take(children, taken), taken[0] + i, taken[1]))
        flat = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[c[0] for c in collected])
        parent, action = (np.concatenate([c[j] for c in collected]) for j in (1, 2))
        child_keys = (flat.board.reshape(len(parent), -1) % 3).astype(np.int64) @ powers
        next_keys, first, where = np.unique(child_keys, return_index=True, return_inverse=True)
        links = np.full((n, game.num_actions), -1, np.int32)
        links[parent, action] = where
        layers.append(Layer(states.terminated, states.winner, games, links))
        ways = np.zeros(len(next_keys), np.int64)
        np.add.at(ways, where, games[parent])
        keys, states, games = next_keys, take(flat, first), ways
    return [
        *layers,
        Layer(states.terminated, states.winner, games, np.empty((0, game.num_actions), np.int32)),
    ]


def values_of(layers: list[Layer], unknown: int) -> list[np.ndarray]:
    """The first player's value of every position, back from the ends; `unknown` beyond the horizon."""
    below, values = np.zeros(0), []
    for depth in reversed(range(len(layers))):
        layer = layers[depth]
        mine = np.where(layer.terminated, layer.winner, unknown)
        if len(below):
            side = 1 if depth % 2 == 0 else -1
            children = np.where(layer.children >= 0, side * below[layer.children], -2).max(axis=1)
            mine = np.where(layer.terminated, mine, side * children)
        values.append(mine)
        below = mine
    return values[::-1]


@pytest.mark.parametrize("board", PERFT, ids=str)
def test_perft(board):
    layers = expand(Gomoku(*board), 12 if board in REACHABLE else HORIZON.get(board, 6))
    won, rows = 0, []
    for layer in layers[1:7]:
        won += layer.games[layer.winner != 0].sum()
        assert not (layer.terminated & (layer.winner == 0)).any()  # no draw so early
        rows.append((layer.games[~layer.terminated].sum(), won))
    assert rows == PERFT[board]


@pytest.mark.parametrize("board", REACHABLE, ids=str)
def test_small_games_are_solved_right(board):
    layers = expand(Gomoku(*board), 12)
    assert sum(len(layer.games) for layer in layers) == REACHABLE[board]
    values = values_of(layers, unknown=9)
    assert values[0].tolist() == [SOLVED[board]]
    assert values[1][layers[0].children[0]].tolist() == FIRST_MOVES[board[:3]]


@pytest.mark.parametrize("rule", RULES)
def test_all_games_of_tic_tac_toe(rule):
    won = drawn = 0
    for layer in expand(Gomoku(3, 3, 3, rule), 12):
        won += layer.games[layer.winner != 0].sum()
        drawn += layer.games[layer.terminated & (layer.winner == 0)].sum()
    assert (won, drawn, won + drawn) == (209088, 46080, 255168)


@pytest.mark.parametrize("board", HORIZON, ids=str)
def test_quick_wins_are_proved(board):
    """A bound from the horizon, the unknown counted as lost, already is the value."""
    layers = expand(Gomoku(*board), HORIZON[board])
    worst, best = (values_of(layers, unknown=unknown) for unknown in (-1, 1))
    assert worst[0].tolist() == [SOLVED[board]]
    first = np.array(FIRST_MOVES[board[:3]])
    links = layers[0].children[0]
    assert (worst[1][links] <= first).all() and (first <= best[1][links]).all()


@pytest.mark.parametrize("board", SOLVED, ids=str)
def test_oracle_solves_small_games(board):
    solver = oracle.Solver(*board)
    assert solver.value() == SOLVED[board]
    if board[:3] in FIRST_MOVES:
        assert solver.first_move_values() == FIRST_MOVES[board[:3]]


def test_oracle_counts_small_games():
    for board, positions in REACHABLE.items():
        rows, met = oracle.Solver(*board).perft(12)
        assert met == positions
        assert [row[:2] for row in rows[:6]] == PERFT[board]
    assert oracle.Solver(2, 5, 3, "freestyle").perft(12)[1] == 15983
    assert oracle.Solver(2, 5, 3, "freestyle").first_move_values() == [0] * 10
    assert oracle.Solver(3, 3, 2, "freestyle").value() == 1


# --- Random play ------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=(0, 3))
def random_midgames(game: Gomoku, key: jax.Array, most: jax.Array, count: int) -> State:
    """Games after up to `most` random moves each, some of them over."""
    keys = jax.random.split(key, count)

    def one(key):
        length = jax.random.randint(jax.random.fold_in(key, 10**6), (), 0, most + 1)

        def body(i, state):
            after = game.step(state, game.random_action(jax.random.fold_in(key, i), state))
            return jax.tree.map(lambda new, old: jnp.where(i < length, new, old), after, state)

        return jax.lax.fori_loop(0, game.num_actions, body, game.init())

    return jax.vmap(one)(keys)


@functools.partial(jax.jit, static_argnums=0)
def playouts_both_ways(game: Gomoku, states: State, key: jax.Array):
    """Orders [B, A], winners read off the orders, and winners of the same moves played one by one."""
    turns = jax.vmap(random_order)(jax.random.split(key, len(states.to_play)), states)

    def sequential(state, turn):
        order = jnp.argsort(jnp.where(turn < 0, game.num_actions, turn))
        return jax.lax.fori_loop(0, game.num_actions, lambda i, s: game.step(s, order[i]), state)

    ends = jax.vmap(sequential)(states, turns)
    return turns, jax.vmap(lambda s, t: playout_winner(game, s, t))(states, turns), ends


@pytest.mark.parametrize(
    "height, width, k, count, rule",
    [*((5, 7, 3, 2000, rule) for rule in (*RULES, *CARO)), *((15, 15, 5, 48, rule) for rule in RULES)],
)
def test_playout_winner_is_the_winner_of_the_moves(height, width, k, count, rule):
    game = Gomoku(height, width, k, rule)
    states = random_midgames(game, jax.random.key(1), height * width, count)
    turns, winner, ends = playouts_both_ways(game, states, jax.random.key(2))
    assert np.asarray(ends.terminated).all()
    np.testing.assert_array_equal(winner, ends.winner)
    assert winner.dtype == jnp.int8 and set(np.unique(winner)) >= {-1, 1}
    over = np.asarray(states.terminated)
    assert 0 < over.sum() < count
    boards, to_play, turns = (np.asarray(x) for x in (states.board, states.to_play, turns))
    np.testing.assert_array_equal(turns >= 0, boards.reshape(count, -1) == 0)
    for i in np.flatnonzero(~over)[:40]:
        board, result = boards[i].copy(), 0
        for turn in range(turns[i].max() + 1):
            where = divmod(int((turns[i] == turn).argmax()), width)
            board[where] = to_play[i] if turn % 2 == 0 else -to_play[i]
            won = oracle.winners(board, k, rule)
            if won:
                (result,) = won
                break
        assert result == winner[i]


def test_playouts_of_tic_tac_toe_have_the_known_odds():
    """X 737/1260, O 121/420, draw 8/63 under uniformly random play."""
    game, count = Gomoku(3, 3, 3), 20000
    turns = jax.jit(jax.vmap(lambda key: random_order(key, game.init())))(
        jax.random.split(jax.random.key(0), count)
    )
    winner = np.asarray(jax.jit(jax.vmap(lambda turn: playout_winner(game, game.init(), turn)))(turns))
    for side, odds in ((1, 737 / 1260), (-1, 121 / 420), (0, 8 / 63)):
        assert abs((winner == side).mean() - odds) < 5 * math.sqrt(odds * (1 - odds) / count)


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def test_random_order_is_uniform():
    state = replay_moves(Gomoku(3, 4, 4), [0, 1, 2, 3, 4, 5, 7, 10])
    empty = [6, 8, 9, 11]
    keys = jax.random.split(jax.random.key(3), 12000)
    turns = np.asarray(jax.jit(jax.vmap(lambda key: random_order(key, state)))(keys))
    assert turns.dtype == np.int32
    assert (np.delete(turns, empty, axis=1) == -1).all()
    orders, counts = np.unique(turns[:, empty], axis=0, return_counts=True)
    assert orders.tolist() == [list(order) for order in itertools.permutations(range(4))]
    assert chi_square(counts) < 60  # 23 degrees of freedom


def test_random_action_is_uniform_over_legal_points():
    game = Gomoku(4, 5, 4)
    state = replay_moves(game, [0, 19, 7, 8, 12])
    keys = jax.random.split(jax.random.key(4), 15000)
    actions = jax.jit(jax.vmap(lambda key: game.random_action(key, state)))(keys)
    assert actions.dtype == jnp.int32
    counts = np.bincount(actions, minlength=20)
    legal = np.asarray(game.legal_action_mask(state))
    np.testing.assert_array_equal(counts > 0, legal)
    assert chi_square(counts[legal]) < 45  # 14 degrees of freedom


def test_random_action_at_the_edges():
    game = Gomoku(3, 3, 3)
    one_left = replay_moves(game, [0, 1, 2, 4, 3, 5, 7, 6])
    keys = jax.random.split(jax.random.key(5), 50)
    draw = jax.jit(jax.vmap(game.random_action, in_axes=(0, None)))
    assert (np.asarray(draw(keys, one_left)) == 8).all()
    won = replay_moves(game, [0, 3, 1, 4, 2])
    assert (np.asarray(draw(keys, won)) == 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_random_openings(rule):
    game = Gomoku(4, 6, 4, rule)
    count = 400
    sizes = np.arange(count) % 9
    keys = jax.random.split(jax.random.key(6), count)
    states = jax.jit(jax.vmap(lambda key, n: random_opening(game, key, n, 8)))(keys, sizes)
    stones = np.asarray(states.move_count)
    check_fields(states, (count,))
    assert not np.asarray(states.terminated).any() and not np.asarray(states.winner).any()
    assert (stones <= sizes).all() and (stones == sizes)[sizes < 7].all()  # nobody wins before ply 7
    np.testing.assert_array_equal(states.to_play, 1 - 2 * (stones % 2))
    boards = np.asarray(states.board)
    np.testing.assert_array_equal((boards == 1).sum((1, 2)), (stones + 1) // 2)
    np.testing.assert_array_equal((boards == -1).sum((1, 2)), stones // 2)
    assert not any(oracle.winners(board, 4, rule) for board in boards)
    last = np.asarray(states.last_action)
    assert (last[stones == 0] == -1).all()
    placed = stones > 0
    np.testing.assert_array_equal(
        boards.reshape(count, -1)[placed, last[placed]], np.where(stones[placed] % 2, 1, -1)
    )
    first = last[sizes == 1]
    assert len(np.unique(first)) > 15  # 44 draws of 24 points


def test_random_openings_stop_before_the_end_of_the_game():
    game, sizes = Gomoku(3, 3, 3), jnp.arange(10)
    keys = jax.random.split(jax.random.key(7), 300)
    grid = jax.vmap(jax.vmap(lambda key, n: random_opening(game, key, n, 9), (None, 0)), (0, None))
    states = jax.jit(grid)(keys, sizes)
    assert not np.asarray(states.terminated).any()
    stones = np.asarray(states.move_count)
    # The stone that would win or fill the board ends the opening: no later one is tried.
    np.testing.assert_array_equal(stones, np.minimum(stones[:, -1:], sizes))
    assert set(stones[:, -1]) == {4, 5, 6, 7, 8}
    assert not any(oracle.winners(board, 3, "freestyle") for board in np.asarray(states.board)[:, -1])


# --- Picking a legal move ---------------------------------------------------------------------------------

PICK_BOARDS = [(3, 3), (3, 26), (26, 3), (5, 7), (15, 15), (26, 26)]


def strewn(height: int, width: int, count: int, seed: int = 0) -> tuple[State, list[list[int]]]:
    """Boards of all degrees of filling, from empty to full, the last three over; and their legal actions."""
    rng = np.random.default_rng(seed)
    filled = rng.random((count, height * width)) < np.linspace(0, 1, count)[:, None]
    filled[1, :-1], filled[1, -1] = True, False  # the last point alone
    filled[2, width:] = True  # whole rows without a legal point
    filled[3, :-width] = True
    colours = rng.choice(np.array([-1, 1], np.int8), filled.shape)
    states = running_states((filled * colours).reshape(count, height, width), rng.choice([-1, 1], count))
    over = np.arange(count) >= count - 3
    legal = [
        [] if end else [a for a in range(height * width) if not row[a]]
        for row, end in zip(filled.tolist(), over, strict=True)
    ]
    return states.replace(terminated=jnp.asarray(over)), legal


@pytest.mark.parametrize("height, width", PICK_BOARDS)
def test_nth_legal_action(height, width):
    points = height * width
    states, legal = strewn(height, width, 24)
    game = Gomoku(height, width, 3)
    numbers = [-(2**31), -points, -1, *range(points + 6), 2**31 - 1]
    picked = jax.jit(jax.vmap(jax.vmap(game.nth_legal_action, (None, 0)), (0, None)))(
        states, jnp.asarray(numbers, np.int32)
    )
    assert picked.dtype == jnp.int32
    expected = [[row[n] if 0 <= n < len(row) else 0 for n in numbers] for row in legal]
    np.testing.assert_array_equal(picked, expected)
    sizes = [len(row) for row in legal]
    assert max(sizes) == points and 0 in sizes and 1 in sizes and {-1, sizes[0], sizes[0] + 5} <= {*numbers}


@pytest.mark.parametrize("n", [3, np.int64(3), np.uint8(3), jnp.int8(3)])
def test_nth_legal_action_of_any_integer_type(n):
    game = Gomoku(3, 5, 3)
    picked = game.nth_legal_action(replay_moves(game, [0, 2, 4, 9]), n)
    assert picked == 6 and picked.dtype == jnp.int32 and picked.shape == ()  # 1, 3, 5, 6


@pytest.mark.parametrize("height, width", PICK_BOARDS)
def test_action_from_bits_is_the_floor_of_a_product(height, width):
    states, legal = strewn(height, width, 24)
    game = Gomoku(height, width, 3)
    rng = np.random.default_rng(1)
    bits = [0, 1, 2**16 - 1, 2**16, 2**31, 2**32 - 2**16, 2**32 - 1, *rng.integers(0, 2**32, 40).tolist()]
    # And both sides of where the pick goes from one action to the next, for the empty board and others.
    for count in {len(row) for row in legal} - {0}:
        for n in {1, count // 2, count - 1} & {*range(1, count)}:
            edge = -(-n * 2**32 // count)
            bits += [edge - 1, edge]
    picked = jax.jit(jax.vmap(jax.vmap(game.action_from_bits, (None, 0)), (0, None)))(
        states, np.asarray(bits, np.uint32)
    )
    assert picked.dtype == jnp.int32
    expected = [[row[b * len(row) // 2**32] if row else 0 for b in bits] for row in legal]
    np.testing.assert_array_equal(picked, expected)


def check_uniform(actions: np.ndarray, legal: list[int], num_actions: int) -> None:
    """Every legal action's count within five standard deviations, and no other action."""
    counts = np.bincount(actions, minlength=num_actions)
    assert counts.size == num_actions and counts.sum() == counts[legal].sum()
    share = 1 / len(legal)
    assert np.abs(counts[legal] - share * actions.size).max() <= 5 * math.sqrt(
        actions.size * share * (1 - share)
    )


def test_random_actions_are_uniform_and_independent():
    game, draws = Gomoku(4, 5, 4), 4000
    states, legal = strewn(4, 5, 8)
    keys = jax.random.split(jax.random.key(8), draws)
    actions = np.asarray(jax.jit(jax.vmap(lambda key: random_actions(game, key, states)))(keys))
    assert actions.shape == (draws, 8) and actions.dtype == np.int32
    for column, row in zip(actions.T, legal, strict=True):
        if row:
            check_uniform(column, row, 20)
        else:
            assert (column == 0).all()
    # Two rows of one board: all pairs of actions are alike.
    twice = jax.tree.map(lambda x: jnp.stack([x[2], x[2]]), states)
    pairs = np.asarray(jax.jit(jax.vmap(lambda key: random_actions(game, key, twice)))(keys))
    assert len(legal[2]) == 5
    check_uniform(pairs[:, 0] * 20 + pairs[:, 1], [a * 20 + b for a in legal[2] for b in legal[2]], 400)


def test_random_actions_follow_from_their_key():
    game = Gomoku(15, 15, 5)
    states, legal = strewn(15, 15, 40)
    draw = jax.jit(lambda key: random_actions(game, key, states))
    actions = np.asarray(draw(jax.random.key(9)))
    np.testing.assert_array_equal(draw(jax.random.key(9)), actions)
    assert (np.asarray(draw(jax.random.key(10))) != actions).any()
    assert all(action in row if row else action == 0 for action, row in zip(actions, legal, strict=True))
    state = replay_moves(game, [0, 7, 112])
    alone = jax.jit(game.random_action)
    assert alone(jax.random.key(9), state) == alone(jax.random.key(9), state)
    assert len({int(alone(jax.random.key(seed), state)) for seed in range(20)}) > 10


def equations(jaxpr: Any):
    """All equations, those of inner jaxprs too."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
        ):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from equations(getattr(inner, "jaxpr", inner))


@pytest.mark.parametrize("batch", [1, 7])
def test_random_actions_draw_one_number_a_game(batch):
    game = Gomoku(6, 5, 4)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), game.init())
    jaxpr = jax.make_jaxpr(lambda key: random_actions(game, key, states))(jax.random.key(0))
    drawn = [
        out.aval.shape
        for equation in equations(jaxpr.jaxpr)
        if equation.primitive.name.startswith(("random_bits", "threefry", "random_split", "random_fold_in"))
        for out in equation.outvars
    ]
    assert drawn == [(batch,)]


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (5, 3), (4, 2, 25), (300, 4, 2, 6)])
def test_unbroken_is_true_up_to_the_first_false(shape):
    same = np.random.default_rng(2).random(shape) < 0.7
    result = np.asarray(jax.jit(unbroken)(same))
    assert result.shape == shape and result.dtype == bool
    rows = same.reshape(-1, shape[-1]).tolist()
    expected = [[all(row[: i + 1]) for i in range(len(row))] for row in rows]
    assert result.reshape(-1, shape[-1]).tolist() == expected


# --- The contract of types --------------------------------------------------------------------------------

FIELDS = {
    "board": (jnp.int8, (4, 6)),
    "to_play": (jnp.int8, ()),
    "last_action": (jnp.int32, ()),
    "move_count": (jnp.int32, ()),
    "terminated": (jnp.bool_, ()),
    "winner": (jnp.int8, ()),
}


def check_fields(state: State, batch: tuple[int, ...] = ()) -> None:
    assert set(vars(state)) == set(FIELDS)
    for name, (dtype, shape) in FIELDS.items():
        leaf = getattr(state, name)
        assert not leaf.weak_type, name
        assert (leaf.dtype, leaf.shape) == (dtype, batch + shape), name


def test_fields_keep_their_types():
    game = Gomoku(4, 6, 4, "exact")
    state = game.init()
    check_fields(state)
    step = jax.jit(game.step)
    for action in (3, np.int64(3), np.uint8(3), jnp.int32(3), jnp.int8(3)):
        after = game.step(state, action)
        check_fields(after)
        chex.assert_trees_all_equal(after, step(state, action))
        assert after.last_action == 3 and after.board[0, 3] == 1


@pytest.mark.parametrize("rule", RULES)
def test_fields_keep_their_types_under_transformations(rule):
    game = Gomoku(4, 6, 4, rule)
    state = jax.eval_shape(game.init)
    check_fields(state)
    check_fields(jax.eval_shape(game.step, state, 3))
    batch = jax.eval_shape(jax.vmap(game.step, in_axes=(None, 0)), state, jnp.arange(5))
    check_fields(batch, (5,))
    actions = jnp.zeros((5, 7), jnp.int32)
    check_fields(
        jax.eval_shape(jax.vmap(jax.vmap(game.step, in_axes=(None, 0))), batch, actions), batch=(5, 7)
    )

    def body(state, action):
        return game.step(state, action), state

    end, path = jax.eval_shape(lambda s: jax.lax.scan(body, s, jnp.arange(7)), state)  # or the carry raises
    check_fields(end)
    check_fields(path, (7,))


def test_other_results_keep_their_types():
    game = Gomoku(4, 6, 4)
    state, key = game.init(), jax.random.key(0)
    expected = [
        (game.legal_action_mask, (state,), jnp.bool_, (24,)),
        (game.is_legal, (state, 0), jnp.bool_, ()),
        (game.winning_line, (state,), jnp.bool_, (4, 6)),
        (game.observe, (state,), jnp.float32, (4, 6, 4)),
        (lambda state: game.observe(state, "stones"), (state,), jnp.float32, (4, 6, 2)),
        (game.random_action, (key, state), jnp.int32, ()),
        (game.nth_legal_action, (state, 3), jnp.int32, ()),
        (game.action_from_bits, (state, jnp.uint32(3)), jnp.int32, ()),
        (
            lambda state: random_actions(game, key, jax.tree.map(lambda x: x[None], state)),
            (state,),
            jnp.int32,
            (1,),
        ),
        (game.winning_actions, (state, 1), jnp.bool_, (24,)),
        (game.blocking_actions, (state, 1), jnp.bool_, (24,)),
        (random_order, (key, state), jnp.int32, (24,)),
        (lambda turn: playout_winner(game, state, turn), (jnp.zeros(24, jnp.int32),), jnp.int8, ()),
    ]
    for function, arguments, dtype, shape in expected:
        value = jax.eval_shape(function, *arguments)
        assert (value.dtype, value.shape, value.weak_type) == (dtype, shape, False)


def test_equal_games_compile_once():
    traces = 0

    @functools.partial(jax.jit, static_argnums=0)
    def step(game, state, action):
        nonlocal traces
        traces += 1
        return game.step(state, action)

    for _ in range(3):
        game = Gomoku(6, 5, 4, "exact")
        step(game, step(game, game.init(), 3), 4)
    step(Gomoku.from_config(GameConfig(6, 5, 4, "exact")), Gomoku(6, 5, 4).init(), 7)
    assert traces == 1
    assert hash(Gomoku(6, 5, 4)) == hash(Gomoku(6, 5, 4)) and Gomoku(6, 5, 4) != Gomoku(6, 5, 4, "exact")
    step(Gomoku(6, 5, 4), Gomoku(6, 5, 4).init(), 3)
    assert traces == 2


@pytest.mark.parametrize("field, value", [("rule", "renj"), ("height", 2), ("height", 27), ("width", 0)])
@pytest.mark.parametrize("make", [Gomoku, GameConfig])
def test_construction_errors_name_the_value(make, field, value):
    arguments: dict[str, Any] = {"height": 6, "width": 7, "k": 4, "rule": "freestyle", field: value}
    with pytest.raises(ValueError, match=f"{field} = {value!r}"):
        make(**arguments)


@pytest.mark.parametrize("height, width, k", [(6, 6, 2), (6, 6, 0), (6, 6, -5), (6, 7, 8), (3, 3, 4)])
def test_lengths_of_lines_that_do_not_fit(height, width, k):
    with pytest.raises(ValueError, match=f"k = {k}:"):
        Gomoku(height, width, k)


@pytest.mark.parametrize("value", [6.0, "6", True, None])
def test_sides_are_whole_numbers(value: Any):
    for field in ("height", "width", "k"):
        with pytest.raises(ValueError, match=f"{field} = {value!r}:"):
            Gomoku(**{"height": 6, "width": 6, "k": 4, field: value})


def test_the_extreme_sizes_exist():
    for height, width, k in ((3, 3, 3), (26, 26, 26), (3, 26, 26), (26, 3, 3)):
        game = Gomoku(height, width, k)
        assert game.shape == (height, width) and game.num_actions == height * width
        assert str(k) in str(game) and f"{height}x{width}" in str(game)
