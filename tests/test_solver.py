"""The exact solver against a slower one in plain Python, and against published values."""

import functools
import sys

import numpy as np
import oracle
import pytest

import gomoku_jax as gj
from gomoku_jax.solver import Solver, SolverError
from gomoku_jax.symmetry import image_table

# (columns, rows, k, exact) -> value for the first player: mnk-games, Uiterwijk and van den Herik 2000, and
# https://en.wikipedia.org/wiki/M,n,k-game; the others by the solver in oracle.py.
PUBLISHED = {
    (3, 3, 3, False): 0,
    (4, 3, 3, False): 1,
    (5, 3, 3, False): 1,
    (4, 4, 3, False): 1,
    (3, 5, 4, False): 0,
    (4, 4, 4, False): 0,
    (4, 5, 4, False): 0,
    (5, 5, 4, False): 0,
    (5, 6, 4, False): 1,
    (6, 5, 4, False): 1,
    (5, 7, 4, False): 1,
    (6, 6, 4, False): 1,
    (3, 3, 3, True): 0,
    (4, 3, 3, True): 1,
    (4, 4, 3, True): 1,
    (5, 5, 3, True): 1,
    (4, 4, 4, True): 0,
    (4, 5, 4, True): 0,
    (5, 5, 4, True): 0,
    (5, 6, 4, True): 1,
}


@functools.cache
def solver(height: int, width: int, k: int, rule: str) -> Solver:
    return Solver(gj.Gomoku(height, width, k, rule), table_bits=20)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("size", PUBLISHED, ids=str)
def test_empty_boards_have_their_published_values(size):
    width, height, k, exact = size
    game = gj.Gomoku(height, width, k, "exact" if exact else "freestyle")
    assert Solver(game).value(np.zeros(game.shape), 1) == PUBLISHED[size]


def test_first_moves_on_4x3():
    values = solver(3, 4, 3, "freestyle").move_values(np.zeros((3, 4)), 1)
    assert values.reshape(3, 4).tolist() == [[1, 1, 1, 1], [-1, 1, 1, -1], [1, 1, 1, 1]]


@pytest.mark.parametrize("size", [(3, 3, 3), (3, 4, 3), (4, 4, 3), (3, 5, 4), (4, 4, 4), (6, 3, 4)], ids=str)
@pytest.mark.parametrize("rule", ["freestyle", "exact"])
def test_random_positions_equal_plain_python(size, rule):
    height, width, k = size
    points = height * width
    slow = oracle.Solver(height, width, k, rule)
    fast = solver(height, width, k, rule)
    random = np.random.default_rng(7)
    checked = 0
    while checked < 60:
        count = int(random.integers(max(0, points - 12), points))
        cells = random.permutation(points)[:count].tolist()
        board = np.zeros(points, np.int8)
        board[cells[0::2]], board[cells[1::2]] = 1, -1
        board = board.reshape(height, width)
        to_play = 1 if count % 2 == 0 else -1
        own = sum(1 << cell for cell in np.flatnonzero(board == to_play).tolist())
        other = sum(1 << cell for cell in np.flatnonzero(board == -to_play).tolist())
        if slow.won(own) or slow.won(other):
            with pytest.raises(SolverError, match="over"):
                fast.value(board, to_play)
            continue
        expected = []
        for cell in range(points):
            bit = 1 << cell
            if (own | other) & bit:
                expected.append(-2)
            else:
                expected.append(1 if slow.won(own | bit) else -slow.value(other, own | bit))
        assert fast.move_values(board, to_play).tolist() == expected, (board, to_play)
        assert fast.value(board, to_play) == max(expected)
        checked += 1


def test_values_follow_the_symmetries_and_colours():
    random = np.random.default_rng(3)
    images = image_table(6, 6)
    game = gj.Gomoku(6, 6, 4)
    seen = set()
    for _ in range(12):
        cells = random.permutation(36)[:10]
        board = np.zeros(36, np.int8)
        board[cells[0::2]], board[cells[1::2]] = 1, -1
        try:
            values = Solver(game, 16).move_values(board.reshape(6, 6), 1)
        except SolverError:
            continue
        image = images[random.integers(8)]
        turned, turned_values = np.zeros_like(board), np.zeros_like(values)
        turned[image], turned_values[image] = -board, values
        assert Solver(game, 16).move_values(turned.reshape(6, 6), -1).tolist() == turned_values.tolist()
        seen |= set(values.tolist())
    assert {-1, 1} <= seen


def test_refusals():
    with pytest.raises(ValueError, match="49 points: at most 36"):
        Solver(gj.Gomoku(7, 7, 5))
    with pytest.raises(ValueError, match="table_bits = 40"):
        Solver(gj.Gomoku(3, 3, 3), table_bits=40)
    tictactoe = solver(3, 3, 3, "freestyle")
    with pytest.raises(SolverError, match="shape"):
        tictactoe.value(np.zeros((3, 4)), 1)
    with pytest.raises(SolverError, match="to_play = 0"):
        tictactoe.value(np.zeros((3, 3)), 0)
    with pytest.raises(SolverError, match="over"):
        tictactoe.value(np.ones((3, 3)), 1)
    with pytest.raises(SolverError, match="within 5 positions"):
        Solver(gj.Gomoku(5, 5, 4)).value(np.zeros((5, 5)), 1, max_nodes=5)


def test_giving_up_leaves_no_wrong_values_behind():
    small = Solver(gj.Gomoku(4, 4, 4), table_bits=16)
    for limit in (10, 100, 1000, 5000):
        with pytest.raises(SolverError):
            small.value(np.zeros((4, 4)), 1, max_nodes=limit)
        assert small.nodes == limit
    assert small.value(np.zeros((4, 4)), 1) == 0


def test_without_numba_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gomoku_jax.solver")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ModuleNotFoundError, match=r"gomoku_jax\[solver\]"):
        import gomoku_jax.solver  # noqa: F401
