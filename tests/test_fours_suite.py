"""Positions with wins by continuous fours, and moves that keep them, against plain Python; the script."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from plain_vcf import four_wins, has_vcf, is_legal, winning_cells
from test_scripts import script, status_and_error
from test_tactics import assert_wins

import gomoku_jax as gj
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku
from gomoku_jax.suites import fours_suite, keeps_win, kept_wins
from gomoku_jax.suites.fours import LENGTHS
from gomoku_jax.symmetry import image_table

slow = pytest.mark.slow
RULES = (
    "exact",
    *(pytest.param(rule, marks=slow) for rule in ("freestyle", "caro", "caro_overline", "renju")),
)


def game_of(rule: Rule) -> Gomoku:
    return Gomoku(7, 8, 5, rule) if rule == "renju" else Gomoku(6, 7, 4, rule)


@pytest.mark.parametrize("rule", RULES)
def test_every_position_holds_the_win_that_it_claims(rule):
    suite = fours_suite(game_of(rule), 40)
    game, seen = suite.game, set()
    assert len(suite) == 40
    for length in LENGTHS:
        for color in (1, -1):
            assert ((suite.length == length) & (suite.to_play == color)).sum() == 5
    for board, color, last, length, line in zip(
        suite.board, suite.to_play.tolist(), suite.last_action, suite.length, suite.line, strict=True
    ):
        assert (board == 1).sum() - (board == -1).sum() == (0 if color == 1 else 1)
        assert board.reshape(-1)[last] == -color
        assert not oracle.winning_runs(board, game.k, "freestyle")
        images = {board.reshape(-1)[image].tobytes() for image in image_table(*game.shape)}
        assert not images & seen
        seen |= images
        plain = board.astype(int).tolist()
        fours = min((int(length) - 1) // 2, 3)
        assert has_vcf(plain, game.k, rule, color, fours) == (length < 9)
        assert not has_vcf(plain, game.k, rule, color, fours - 1)
        moves = [int(action) for action in line if action >= 0]
        if length == 9:
            assert four_wins(plain, divmod(moves[0], game.width), game.k, rule, color, 7)
        plies = assert_wins(game, plain, color, moves)
        assert plies == length or (length == 9 and 9 <= plies <= 15)


@pytest.mark.parametrize("rule", RULES)
def test_moves_that_keep_a_win_are_those_of_a_search_of_all_moves(rule):
    """All moves on a few boards, those on stones and on forbidden points too."""
    suite = fours_suite(game_of(rule), 40)
    game = suite.game
    rows = np.flatnonzero(suite.length <= 5)[:10].tolist()
    positions = [(suite.board[row].astype(int).tolist(), int(suite.to_play[row])) for row in rows]
    actions = np.arange(game.num_actions, dtype=np.int32)
    states = suite.take(np.repeat(rows, len(actions))).states()
    kept = keeps_win(game, states, np.tile(actions, len(rows))).reshape(len(rows), -1)
    for (board, color), mine in zip(positions, kept, strict=True):
        expected = np.zeros(len(actions), bool)
        for action in actions.tolist():
            row, col = divmod(action, game.width)
            if board[row][col] or not is_legal(board, (row, col), rule, color):
                continue
            now = (row, col) in winning_cells(board, game.k, rule, color)
            expected[action] = now or four_wins(board, (row, col), game.k, rule, color, 8)
        np.testing.assert_array_equal(mine, expected)
        assert 0 < expected.sum() < len(actions)


def test_a_move_that_wins_keeps_the_win_and_fours_that_lose_do_not():
    game = game_of("exact")
    # Black has three on row 1, white three on row 6, both open at one end.
    state = gj.replay_moves(game, "a1a6b1b6c1c6")
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * game.num_actions), state)
    kept = keeps_win(game, states, np.arange(game.num_actions, dtype=np.int32))
    assert np.flatnonzero(kept).tolist() == [3]  # d1
    # Two of black's, and a four of white's that is not stopped.
    state = gj.replay_moves(game, "b2a6c2b6f4c6")
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * game.num_actions), state)
    assert not keeps_win(game, states, np.arange(game.num_actions, dtype=np.int32)).any()


def test_the_share_of_wins_kept():
    suite = fours_suite(game_of("exact"), 40)
    right = suite.length <= 5
    first, boards = jnp.asarray(suite.line[:, 0]), jnp.asarray(suite.board)
    stone = jnp.asarray(np.where(right, suite.line[:, 0], suite.last_action))

    def player(key, states):
        row = (states.board[:, None] == boards[None]).all((-2, -1)).argmax(-1)
        return stone[row]

    result = kept_wins(player, suite, jax.random.key(0), 32)
    np.testing.assert_array_equal(result.kept, right)
    assert keeps_win(suite.game, suite.states(), np.asarray(first)).all()
    assert [(rate.length, rate.kept, rate.positions) for rate in result.rates()] == [
        (3, 10, 10),
        (5, 10, 10),
        (7, 0, 10),
        (9, 0, 10),
        (None, 20, 40),
    ]
    short = result.rate(3)
    assert short is not None and short.interval == (pytest.approx(10 / (10 + 1.96**2)), 1.0)
    with pytest.raises(ValueError, match="batch_size = 0"):
        kept_wins(player, suite, jax.random.key(0), 0)
    with pytest.raises(ValueError, match="num_positions = 0"):
        fours_suite(suite.game, 0)
    again = fours_suite.__wrapped__(suite.game, 40)
    np.testing.assert_array_equal(again.board, suite.board)
    with pytest.raises(ValueError, match="read-only"):
        again.board[0, 0, 0] = 1


def test_the_script_tells_wins_kept(capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    argv = ["vcf:9", "tactical", "--forced", "--positions", "40", "--board", "6x7x4", "--rule", "exact"]
    code, text = status_and_error(capsys, "tactics", [*argv, "--show", "1", "--json", str(rows)])
    assert code == 0 and "40 positions with a win by continuous fours" in text
    assert "; right: " in text and "Wins kept, 6x7" in text and "9 and more" in text
    vcf, tactical = [json.loads(line) for line in rows.read_text().splitlines()]
    assert vcf["measured"] == "forced wins" and vcf["game"]["rule"] == "exact" and vcf["positions"] == 40
    assert [rate["length"] for rate in vcf["rates"]] == [3, 5, 7, 9, None]
    assert [rate["rate"] for rate in vcf["rates"][:3]] == [1, 1, 1]
    assert tactical["rates"][-1]["rate"] < 0.5 and not tactical["tactical_helper"]
    assert tactical["root_vcf"] == tactical["tree_vcf"] == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tactical", "--forced", "--positions", "0"], "num_positions = 0"),
        (["tactical", "--rule", "caro"], "--forced knows all rules"),
        (["6x6x4", "--forced", "--root-vcf", "4"], "search.root_vcf = 4"),
    ],
)
def test_the_script_refuses(argv, message, capsys):
    assert script("tactics").main(argv) == 2
    assert message in capsys.readouterr().err
