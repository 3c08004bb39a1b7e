"""Renju against an independent referee, the `renju` package of PyPI, and published positions."""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from renju.check_forbid import get_foul_type
from test_scripts import script, status_and_error

from gomoku_jax.encode import states_from_positions
from gomoku_jax.game import BLACK, WHITE, Gomoku, IllegalMoveError, replay_moves
from gomoku_jax.game import renju as rules

GAME = Gomoku(15, 15, 5, "renju")
LOSING = Gomoku(15, 15, 5, "renju", "loses")
FOULS = (None, "double-three", "double-four", "overline")  # as the referee numbers them

forbidden_of = jax.jit(jax.vmap(rules.forbidden_points))
foul_of = jax.jit(jax.vmap(rules.foul))


@functools.partial(jax.jit, static_argnums=0)
def step_all(game, states, actions):
    return jax.vmap(game.step)(states, actions)


@functools.partial(jax.jit, static_argnums=0)
def legal_of(game, states):
    return jax.vmap(game.legal_action_mask)(states)


def board_of(rows: str) -> np.ndarray:
    """int8 [H, W] from rows with the top one first, X black and O white."""
    colours = {".": 0, "X": 1, "O": -1}
    return np.array([[colours[c] for c in row] for row in reversed(rows.split("/"))], np.int8)


def running(boards, colour: int):
    boards = jnp.asarray(boards, jnp.int8)
    count = len(boards)
    return states_from_positions(boards, jnp.full(count, colour, jnp.int8), jnp.full(count, -1, jnp.int32))


def referee(board: np.ndarray, action: int) -> int:
    """The package's verdict on a black stone on an empty point; it knows square boards only."""
    size = max(board.shape)
    grid = np.full((size, size), 2)  # white stones are all that the edge of a board is to Black
    grid[: board.shape[0], : board.shape[1]] = np.where(board == WHITE, 2, board)
    return get_foul_type(grid.tolist(), *divmod(action, board.shape[1]))


def forbidden_by_referee(board: np.ndarray) -> np.ndarray:
    empty = np.flatnonzero(board.reshape(-1) == 0)
    mask = np.zeros(board.size, bool)
    mask[empty] = [referee(board, int(a)) != 0 for a in empty]
    return mask


def random_boards(height: int, width: int, count: int, seed: int) -> np.ndarray:
    """Stones strewn over windows of all sizes and densities, mostly Black's, so that much is forbidden."""
    rng = np.random.default_rng(seed)
    boards = np.zeros((count, height, width), np.int8)
    for board in boards:
        rows, cols = rng.integers(min(5, height), height + 1), rng.integers(min(5, width), width + 1)
        top, left = rng.integers(0, height - rows + 1), rng.integers(0, width - cols + 1)
        window = np.where(rng.random((rows, cols)) < rng.uniform(0.4, 0.9), BLACK, WHITE)
        window[rng.random((rows, cols)) < rng.uniform(0.3, 0.95)] = 0
        board[top : top + rows, left : left + cols] = window
    return boards


# --- Forbidden points -------------------------------------------------------------------------------------

POINTS = [
    json.loads(line)
    for line in (pathlib.Path(__file__).parent / "renju_points.jsonl").read_text().splitlines()
]


def test_published_points():
    """Agreed cases of renju.net, quintet and others, recursion up to four deep among them."""
    boards = np.stack([board_of(case["rows"]) for case in POINTS])
    actions = np.array(
        [int(case["point"][1:]) * 15 - 15 + ord(case["point"][0]) - ord("a") for case in POINTS]
    )
    fouls = np.asarray(foul_of(boards, actions))
    masks = np.asarray(forbidden_of(boards))
    wrong = [
        case["id"]
        for case, foul, mask, action in zip(POINTS, fouls, masks, actions, strict=True)
        if FOULS[foul] != case["foul"] or mask[action] != (case["foul"] is not None)
    ]
    assert wrong == [] and len({case["foul"] for case in POINTS}) == 4


@pytest.mark.parametrize("height, width, count", [(15, 15, 60), (9, 9, 60), (5, 12, 60), (26, 7, 20)])
def test_forbidden_points_are_the_referees(height, width, count):
    boards = random_boards(height, width, count, seed=height)
    expected = np.stack([forbidden_by_referee(board) for board in boards])
    np.testing.assert_array_equal(forbidden_of(boards), expected)
    assert expected.any(-1).sum() > count / 6


@pytest.mark.slow
def test_forbidden_points_of_many_boards_are_the_referees():
    boards = random_boards(15, 15, 1000, seed=1)
    np.testing.assert_array_equal(
        forbidden_of(boards), np.stack([forbidden_by_referee(board) for board in boards])
    )


def test_fouls_and_questions_agree_with_the_mask():
    """The one-point question, the question about some points, and whether any point is left."""
    boards = random_boards(15, 15, 300, seed=2)
    flat = boards.reshape(len(boards), -1)
    masks = np.asarray(forbidden_of(boards))
    rng = np.random.default_rng(0)
    picks = np.stack([rng.choice(np.flatnonzero(row == 0), 4) for row in flat], 1)  # [4, N]
    forbidden = [np.flatnonzero(row) for row in masks]
    picks[0] = [row[0] if len(row) else pick for row, pick in zip(forbidden, picks[0], strict=True)]
    for actions in picks:
        fouls = np.asarray(foul_of(boards, actions))
        np.testing.assert_array_equal(fouls != 0, masks[np.arange(len(boards)), actions])
        for board, action, foul in zip(boards[:40], actions, fouls, strict=False):
            said = referee(
                board, int(action)
            )  # of an overline that is a double-three as well, it says the latter
            assert foul == said or (foul, said) == (3, 1)
    where = rng.random(flat.shape) < 0.5
    some = jax.jit(jax.vmap(rules.forbidden_points))(boards, where)
    np.testing.assert_array_equal(some, masks & where)
    # All empty points but the forbidden ones filled with white stones, which may set some of those free.
    filled = np.where(masks | (flat != 0), flat, WHITE).astype(np.int8).reshape(boards.shape)
    left = np.asarray(jax.jit(jax.vmap(rules.any_legal_point))(filled))
    legal = (filled.reshape(flat.shape) == 0) & ~np.asarray(forbidden_of(filled))
    np.testing.assert_array_equal(left, legal.any(-1))
    assert 0 < left.sum() < len(left)
    assert not np.asarray(jax.jit(jax.vmap(rules.any_legal_point))(boards, np.zeros(len(boards), bool))).any()


def test_a_five_is_always_legal():
    """Five one way with an overline, a double-four or a double-three the others."""
    board = np.zeros((15, 15), np.int8)
    board[7, 3:7] = BLACK  # d8 to g8: h8 makes five
    overline, fours, threes = board.copy(), board.copy(), board.copy()
    for step in (-3, -2, -1, 1, 2):
        overline[7 + step, 7] = BLACK
    for step in (1, 2, 3):
        fours[7 + step, 7] = fours[7 + step, 7 + step] = BLACK
    for step in (1, 2):
        threes[7 + step, 7] = threes[7 + step, 7 + step] = BLACK
    boards = np.stack([overline, fours, threes])
    states = running(boards, BLACK)
    assert legal_of(GAME, states)[:, 112].all()
    assert (step_all(GAME, states, np.full(3, 112)).winner == BLACK).all()
    boards[:, 7, 3] = 0  # without it there is no five, and the same move is foul
    fouls = [FOULS[foul] for foul in foul_of(boards, np.full(3, 112))]
    assert fouls == ["overline", "double-four", "double-three"]
    assert not legal_of(GAME, running(boards, BLACK))[:, 112].any()


def test_the_script_that_compares_with_the_referee(capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    argv = ["--positions", "6", "--side", "7", "--processes", "1", "--json", str(rows)]
    assert script("check_renju").main(argv) == 0
    row = json.loads(rows.read_text())
    assert (row["positions"], row["equal"], row["side"]) == (6, 6, 7)
    for bad in (["--positions", "0"], ["--side", "4"], ["--side", "27"], ["--processes", "0"]):
        code, text = status_and_error(capsys, "check_renju", bad)
        assert code == 2 and " ".join(bad) in text


# --- Games ------------------------------------------------------------------------------------------------


def test_white_may_play_anything_and_wins_with_more_than_five():
    boards = random_boards(15, 15, 50, seed=3)
    np.testing.assert_array_equal(legal_of(GAME, running(boards, WHITE)), boards.reshape(50, -1) == 0)
    white_six = "a1a2c1b2e1d2g1e2i1f2k1c2"  # from renju-python's tests
    assert replay_moves(GAME, white_six).winner == WHITE


def test_an_overline_of_blacks():
    """Masked, or lost: three and two joined make six (Zebra_Gomoku issue 1)."""
    before = "b1a12c1c12d1e12f1g12g1i12"
    state = replay_moves(GAME, before)
    with pytest.raises(IllegalMoveError, match="'e1': e1 is forbidden, an overline"):
        replay_moves(GAME, before + "e1")
    assert not GAME.legal_action_mask(state)[4] and not GAME.is_legal(state, 4)
    same = GAME.step(state, 4)
    assert same.move_count == state.move_count and not same.terminated
    assert LOSING.is_legal(replay_moves(LOSING, before), 4)
    lost = replay_moves(LOSING, before + "e1")
    assert lost.terminated and lost.winner == WHITE and lost.board[0, 4] == BLACK
    assert not LOSING.winning_line(lost).any()


def test_the_only_block_is_forbidden():
    """gomoku-calculator issue 8: g7 would stop White's four, and is a double-three."""
    state = replay_moves(GAME, "h8g6f6g5f7g4h7g3g2a1")
    assert not GAME.legal_action_mask(state)[6 * 15 + 6]
    legal = np.flatnonzero(GAME.legal_action_mask(state))
    assert not np.asarray(GAME.winning_actions(state, BLACK)).any()
    after = step_all(GAME, jax.tree.map(lambda x: jnp.repeat(x[None], len(legal), 0), state), legal)
    assert (step_all(GAME, after, np.full(len(legal), 6 * 15 + 6)).winner == WHITE).all()


def test_black_without_a_legal_point_has_lost():
    """A full board but for two points: White takes one, and the other makes six of Black's."""
    board = np.tile(np.array([[1, -1, -1, 1, 1, -1, -1]], np.int8), (7, 1))
    board[1::2] *= -1
    board[3] = [1, 1, 1, 0, 1, 1, -1]
    board[0, 0] = 0
    for game, over in ((Gomoku(7, 7, 5, "renju"), True), (Gomoku(7, 7, 5, "renju", "loses"), False)):
        state = jax.tree.map(lambda x: x[0], running(board[None], WHITE))
        after = game.step(state, 0)
        assert bool(after.terminated) is over and after.winner == (WHITE if over else 0)
        assert not game.winning_line(after).any()
        if over:
            assert not game.legal_action_mask(after).any()
        else:
            assert game.step(after, 24).winner == WHITE
    # With White on the last point instead there is nothing left to play: a draw.
    full = Gomoku(7, 7, 5, "renju")
    board[0, 0] = -1
    state = jax.tree.map(lambda x: x[0], running(board[None], WHITE))
    drawn = full.step(state, 24)
    assert drawn.terminated and drawn.winner == 0


@pytest.mark.parametrize("game", [GAME, LOSING], ids=["masked", "loses"])
def test_random_games_end_as_the_referee_says(game):
    """Games in a corner, where much is forbidden, replayed move by move by the package's rules."""
    count, moves = 24, 90
    rng = np.random.default_rng(5)
    orders = [rng.permutation([r * 15 + c for r in range(9) for c in range(10)]) for _ in range(count)]
    states = jax.vmap(lambda _: game.init())(jnp.arange(count))
    ends = set()
    for turn in range(moves):
        actions = np.array([order[turn] for order in orders])
        before = jax.device_get(states)
        states = step_all(game, states, actions)
        after = jax.device_get(states)
        for i, action in enumerate(actions):
            board, colour = before.board[i], before.to_play[i]
            if before.terminated[i] or board.reshape(-1)[action] != 0:
                continue
            kind = referee(board, int(action)) if colour == BLACK else 0
            if kind and game is GAME:
                assert after.move_count[i] == before.move_count[i]
                continue
            placed = board.copy()
            placed.reshape(-1)[action] = colour
            np.testing.assert_array_equal(after.board[i], placed)
            lengths = [len_of_run(placed, action, step) for step in ((0, 1), (1, 0), (1, 1), (1, -1))]
            won = 5 in lengths or (colour == WHITE and max(lengths) >= 5)
            winner = WHITE if kind else colour if won else 0
            assert (after.winner[i], after.terminated[i]) == (winner, winner != 0)
            ends.add((int(winner), bool(kind)))
    assert {(1, False), (-1, False)} <= ends and ((-1, True) in ends) == (game is LOSING)


def len_of_run(board: np.ndarray, action: int, step: tuple[int, int]) -> int:
    row, col = divmod(action, board.shape[1])
    length = 1
    for sign in (1, -1):
        r, c = row + sign * step[0], col + sign * step[1]
        while 0 <= r < board.shape[0] and 0 <= c < board.shape[1] and board[r, c] == board[row, col]:
            length += 1
            r, c = r + sign * step[0], c + sign * step[1]
    return length


@pytest.mark.parametrize("k", [3, 4, 6])
def test_renju_is_five_in_a_row(k):
    with pytest.raises(ValueError, match=f"k = {k}: renju is 5 in a row"):
        Gomoku(15, 15, k, "renju")


def test_only_renju_forbids():
    with pytest.raises(ValueError, match="forbidden = 'loses': no move is forbidden under exact"):
        Gomoku(15, 15, 5, "exact", "loses")
    with pytest.raises(ValueError, match="forbidden = 'win'"):
        Gomoku(15, 15, 5, "renju", "win")  # type: ignore[arg-type]
