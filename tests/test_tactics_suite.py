"""Tactical puzzles: their answers against a search of all moves, places, symmetries, and who solves them."""

import functools
import importlib.util
import json
import pathlib
import shutil
import sys

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from gomoku_jax.agent import save_agent
from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig
from gomoku_jax.game import Gomoku
from gomoku_jax.network import init_network
from gomoku_jax.players import tactical_player
from gomoku_jax.suites import solve_rates, tactics_suite
from gomoku_jax.suites.forced import ForcedWins
from gomoku_jax.suites.motifs import PLACES
from gomoku_jax.suites.puzzles import KINDS

GAMES = (Gomoku(6, 6, 4), Gomoku(7, 7, 5), Gomoku(6, 7, 5, "exact"))


class AllMoves(oracle.Solver):
    """Wins with so many stones by trying every move and every reply."""

    def words(self, board, color: int) -> tuple[int, int]:
        flat = np.asarray(board).reshape(-1)
        own, other = (sum(1 << int(a) for a in np.flatnonzero(flat == c)) for c in (color, -color))
        return own, other

    @functools.cache  # noqa: B019 (as long as the test)
    def wins(self, own: int, other: int, moves: int) -> bool:
        empty = self.full & ~(own | other)
        if self._winning_points(own, empty):
            return True
        return moves > 1 and any(self.holds(own | bit, other, moves - 1) for bit in bits(empty))

    def holds(self, own: int, other: int, moves: int) -> bool:
        """Does `own` win with so many stones, the other side to move?"""
        empty = self.full & ~(own | other)
        if not empty or self._winning_points(other, empty):
            return False
        # What refuted one move often refutes the next: tried first, all are tried in the end.
        replies = sorted(bits(empty), key=lambda bit: -self.refuted.get(bit, 0))
        for reply in replies:
            if not self.wins(own, other | reply, moves):
                self.refuted[reply] = self.refuted.get(reply, 0) + 1
                return False
        return True

    refuted: dict[int, int]

    def winning_moves(self, board, color: int, moves: int) -> set[int]:
        """First moves that win with so many stones, this one included."""
        self.refuted = {}
        own, other = self.words(board, color)
        empty = self.full & ~(own | other)
        now = self._winning_points(own, empty)
        return {
            bit.bit_length() - 1
            for bit in bits(empty)
            if bit & now or (moves > 1 and self.holds(own | bit, other, moves - 1))
        }

    def defences(self, board, color: int, moves: int) -> set[int]:
        """Moves of `color` after which the other side does not win with so many stones."""
        self.refuted = {}
        own, other = self.words(board, color)
        empty = self.full & ~(own | other)
        return {bit.bit_length() - 1 for bit in bits(empty) if not self.wins(other, own | bit, moves)}


def bits(word: int) -> list[int]:
    found = []
    while word:
        found.append(word & -word)
        word &= word - 1
    return found


def answers(search: AllMoves, kind: str, board, color: int) -> set[int]:
    """What solves a puzzle, by trying everything."""
    if kind == "block":
        return search.defences(board, color, 1)
    if kind == "stop open four":
        return search.defences(board, color, 3)
    moves = {"win": 1, "open four": 2, "double four": 2, "four and three": 3}[kind]
    return search.winning_moves(board, color, moves)


@pytest.fixture(scope="module", params=GAMES, ids=str)
def suite(request):
    return tactics_suite(request.param, 2)


def test_positions_are_running_games_with_the_right_side_to_move(suite):
    game = suite.game
    assert set(suite.to_play.tolist()) == {1, -1}
    for board, to_play, last, solutions in zip(
        suite.board, suite.to_play, suite.last_action, suite.solutions, strict=True
    ):
        assert (board == 1).sum() - (board == -1).sum() == (0 if to_play == 1 else 1)
        assert board.reshape(-1)[last] == -to_play
        assert solutions.any() and not board.reshape(-1)[solutions].any()
    for board in suite.board[suite.symmetry == 0]:
        assert not oracle.winners(board, game.k, "freestyle")


def test_every_puzzle_comes_in_all_symmetries_and_both_colours(suite):
    height, width = suite.game.shape
    rotations = (0, 1, 2, 3) if height == width else (0, 2)

    def images(plane):
        return [f(np.rot90(plane, turn)) for turn in rotations for f in (np.asarray, np.fliplr)]

    for number in np.unique(suite.puzzle):
        rows = np.flatnonzero(suite.puzzle == number)
        assert len(set(suite.to_play[rows].tolist())) == 1
        met = {(suite.board[i].tobytes(), suite.solutions[i].reshape(height, width).tobytes()) for i in rows}
        first = rows[0]
        assert len(met) == len(rows)
        assert met == {
            (board.tobytes(), solutions.tobytes())
            for board, solutions in zip(
                images(suite.board[first]),
                images(suite.solutions[first].reshape(height, width)),
                strict=True,
            )
        }
    counts = {
        (kind, place, color): len(np.unique(suite.puzzle[rows]))
        for kind in KINDS
        for place in PLACES
        for color in (1, -1)
        if (rows := (suite.kind == kind) & (suite.place == place) & (suite.to_play == color)).any()
    }
    assert all(counts[kind, place, 1] == counts[kind, place, -1] for kind, place, _ in counts)


def test_answers_are_those_of_a_search_of_all_moves(suite):
    game = suite.game
    search = AllMoves(game.height, game.width, game.k, game.rule)
    rng = np.random.default_rng(1)
    firsts = np.flatnonzero(np.append(True, suite.puzzle[1:] != suite.puzzle[:-1]))
    for kind in KINDS:
        # Searches of three stones take their time: two puzzles a kind, more of the short ones.
        rows = [i for i in firsts if suite.kind[i] == kind]
        assert rows
        some = rng.permutation(rows)[: 8 if kind in ("win", "block") else 2]
        for first in some:
            i = rng.choice(np.flatnonzero(suite.puzzle == suite.puzzle[first]))
            expected = set(np.flatnonzero(suite.solutions[i]).tolist())
            assert answers(search, kind, suite.board[i], int(suite.to_play[i])) == expected, (kind, i)


def test_no_other_move_wins_a_little_later():
    suite = tactics_suite(Gomoku(6, 6, 4), 2)
    search = AllMoves(6, 6, 4, "freestyle")
    for kind in ("win", "open four", "double four"):
        for color in (1, -1):
            i = np.flatnonzero((suite.kind == kind) & (suite.to_play == color))[-1]
            expected = set(np.flatnonzero(suite.solutions[i]).tolist())
            assert search.winning_moves(suite.board[i], color, 3) == expected


@pytest.mark.parametrize("game", [Gomoku(5, 5, 4), Gomoku(4, 5, 3), Gomoku(5, 6, 4, "exact")], ids=str)
def test_forced_wins_on_random_positions(game):
    search = AllMoves(game.height, game.width, game.k, game.rule)
    rng, seen = np.random.default_rng(3), set()
    for stones in range(3, 15):
        for _ in range(4):
            board = np.zeros(game.num_actions, np.int8)
            points = rng.permutation(game.num_actions)[:stones]
            board[points] = [1 if i % 2 == 0 else -1 for i in range(stones)]
            if oracle.winners(board.reshape(game.shape), game.k, "freestyle"):
                continue
            forced = ForcedWins(game, [(int(a), int(board[a])) for a in points])
            before = (list(forced.cells), forced.winning_points(1), forced.four_moves(-1))
            for moves in (1, 2, 3):
                expected = search.winning_moves(board, 1, moves)
                assert forced.winning_moves(1, moves) == expected
                assert forced.wins(1, moves) == bool(expected)
                seen.add((moves, bool(expected)))
            if forced.wins_by_fours(1, 3):
                assert forced.wins(1, 3)
            assert before == (list(forced.cells), forced.winning_points(1), forced.four_moves(-1))
    outcomes = (True, False) if game.k > 3 else (True,)  # with three in a row somebody always wins soon
    assert {(n, some) for n in (1, 2, 3) for some in outcomes} <= seen


def test_all_kinds_and_places_on_a_large_board():
    suite = tactics_suite(Gomoku(15, 15, 5), 2)
    assert len(suite) == len(KINDS) * len(PLACES) * 2 * 2 * 8
    assert set(zip(suite.kind.tolist(), suite.place.tolist(), strict=True)) == {
        (kind, place) for kind in KINDS for place in PLACES
    }
    # Where a puzzle of one line is answered: on the border only if it lies there.
    border = np.ones((15, 15), bool)
    border[1:-1, 1:-1] = False
    on_border = np.asarray(suite.solutions[:, border.reshape(-1)].any(-1))
    for kind in ("win", "block", "open four"):
        assert not on_border[np.isin(suite.kind, kind) & np.isin(suite.place, "centre")].any()
    stones_on_border = np.asarray(np.not_equal(suite.board, 0)[:, border].any(-1))
    lines = np.isin(suite.kind, ("win", "block"))
    assert (on_border | stones_on_border)[lines & np.isin(suite.place, ("edge", "corner"))].all()


def test_the_same_at_every_call_and_no_puzzle_where_none_fits():
    game = Gomoku(6, 6, 5)
    again = tactics_suite.__wrapped__(game, 1)
    for name in ("board", "solutions", "kind", "last_action"):
        np.testing.assert_array_equal(getattr(tactics_suite(game, 1), name), getattr(again, name))
    with pytest.raises(ValueError, match="read-only"):
        again.board[0, 0, 0] = 1
    assert set(tactics_suite(Gomoku(3, 3, 3), 1).kind.tolist()) <= {"win", "block", "open four"}
    with pytest.raises(ValueError, match="patterns_per_group = 0"):
        tactics_suite(game, 0)


def knowing_player(suite, right):
    """Plays a solution in the puzzles where `right` is True and another stone elsewhere."""
    boards, solutions = jnp.asarray(suite.board), jnp.asarray(suite.solutions)
    moves = jnp.argmax(jnp.asarray(right)[:, None] == solutions, axis=-1)

    def play(key, states):
        del key
        same = (states.board[:, None] == boards[None]).all((-2, -1))
        return moves[jnp.argmax(same, axis=-1)].astype(jnp.int32)

    return play


def test_solve_rates_count_by_kind_and_place():
    suite = tactics_suite(Gomoku(6, 6, 4), 2)
    right = np.isin(suite.place, "centre") | np.isin(suite.kind, "win")
    result = solve_rates(knowing_player(suite, right), suite, jax.random.key(0), batch_size=100)
    np.testing.assert_array_equal(result.solved, right)
    for kind in KINDS:
        for place in PLACES:
            rate = result.rate(kind, place)
            if rate is None:
                assert not ((suite.kind == kind) & (suite.place == place)).any()
            else:
                assert rate.rate == float(place == "centre" or kind == "win")
    everything = result.rate()
    assert everything is not None
    assert (everything.solved, everything.positions) == (int(right.sum()), len(suite))
    assert everything.puzzles == suite.puzzle.max() + 1
    # Wilson's interval in closed form at a rate of 1: n / (n + z^2), with puzzles, not images, for n.
    centre = result.rate(place="centre")
    assert centre is not None and centre.interval[1] == 1.0
    assert centre.interval[0] == pytest.approx(centre.puzzles / (centre.puzzles + 1.96**2))
    assert [(r.kind, r.place) for r in result.rates()].count((None, None)) == 1


def test_one_ply_of_looking_ahead_solves_exactly_wins_and_blocks():
    suite = tactics_suite(Gomoku(8, 8, 5), 2)
    result = solve_rates(tactical_player(suite.game), suite, jax.random.key(0))
    short = np.isin(suite.kind, ("win", "block"))
    assert result.solved[short].all()
    assert result.solved[~short].mean() < 0.3  # chance


def script():
    path = pathlib.Path(__file__).resolve().parent.parent / "experiments" / "tactics.py"
    spec = importlib.util.spec_from_file_location("script_tactics", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_script_tells_places_side_by_side_and_writes_rows(tmp_path, capsys):
    config, network = GameConfig(6, 6, 4), NetworkConfig("conv", conv_channels=(4,), value_hidden=4)
    params = init_network(network, Gomoku(6, 6, 4), jax.random.key(0))
    run = tmp_path / "mine"
    for iteration in (10, 20):
        folder = run / "agents" / f"iteration_{iteration:06d}"
        save_agent(folder, config, network, SearchConfig(), params, {"iteration": iteration, "seconds": 1.5})
    assert script().matches.snapshots(f"{run}@8") == [f"{run}/agents/iteration_0000{n}@8" for n in (10, 20)]
    shutil.rmtree(run / "agents" / "iteration_000010")
    rows = tmp_path / "rows.jsonl"
    argv = [str(run), "tactical", "--snapshots", "--simulations", "0", "--patterns", "1", "--show", "1"]
    assert script().main([*argv, "--json", str(rows)]) == 0
    out = capsys.readouterr().out
    assert "mine/iteration_000020@0" in out
    assert "centre" in out and "corner" in out and "All kinds" in out and "; right: " in out
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["player"] for row in found] == ["mine/iteration_000020@0", "tactical"]
    assert found[0]["agent"] == {"iteration": 20, "seconds": 1.5}
    assert str(tmp_path) not in rows.read_text()
    assert found[0]["command"].startswith("tactics.py mine tactical") and "rows.jsonl" in found[0]["command"]
    short = {r["kind"]: r["rate"] for r in found[1]["rates"] if r["place"] is None}
    assert short["win"] == short["block"] == 1.0 and short["open four"] < 1
    # With the helper the search of a network that knows nothing wins and blocks too.
    argv = [str(run), "--snapshots", "--simulations", "0", "8", "--patterns", "1", "--tactical-helper"]
    assert script().main([*argv, "--json", str(rows)]) == 0
    alone, helped = [json.loads(line) for line in rows.read_text().splitlines()][2:]
    assert alone["player"] == found[0]["player"] and not alone["tactical_helper"]
    assert helped["player"] == "mine/iteration_000020@8 with helper" and helped["tactical_helper"]
    short = {r["kind"]: r["rate"] for r in helped["rates"] if r["place"] is None}
    assert short["win"] == short["block"] == 1.0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no player"),
        (["nobody"], "nobody"),
        (["random", "--board", "9x9"], "board '9x9': write ROWSxCOLUMNSxK"),
        (["random", "--board", "2x9x5"], "height = 2"),
        (["6x6x4", "--simulations", "-1"], "--simulations -1"),
        (["random", "--batch", "0"], "--batch 0"),
        (["random", "--json", "no/such.jsonl"], "no/such.jsonl: not a file in a folder that exists"),
        (["random", "--patterns", "0"], "patterns_per_group = 0"),
    ],
)
def test_script_refuses(argv, message, capsys):
    assert script().main(argv) == 2
    assert message in capsys.readouterr().err
