"""The engine without a search: its board beside the rules in JAX, its moves, its clock, what it reads."""

import random

import jax
import numpy as np
import pytest

import gomoku_jax as gj
from gomoku_jax.config import RULES
from gomoku_jax.game import renju
from gomoku_jax.game.notation import split_moves
from gomoku_jax.play.gomocup import clock, protocol
from gomoku_jax.play.gomocup.board import Board
from gomoku_jax.play.gomocup.brain import room_for
from gomoku_jax.play.gomocup.engine import evaluation
from gomoku_jax.play.gomocup.fallback import advise, fallback_cell
from gomoku_jax.play.match import play_host_match
from gomoku_jax.play.opponents import Limit, make_opponent
from gomoku_jax.play.record import GameRecord


def board_of(moves: str, width: int = 15, height: int = 15, rule: str = "freestyle") -> Board:
    """A position from a move string."""
    board = Board(width, height, rule)
    for name in split_moves(moves):
        board.play(cell_of(board, name))
    return board


def cell_of(board: Board, name: str) -> int:
    return board.cell((int(name[1:]) - 1) * board.width + ord(name[0]) - ord("a"))


def name_of(board: Board, cell: int) -> str:
    row, col = divmod(board.action(cell), board.width)
    return f"{chr(ord('a') + col)}{row + 1}"


def names(board: Board, cells) -> set[str]:
    return {name_of(board, cell) for cell in cells}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("width", "height"), [(5, 5), (7, 5), (5, 8)])
def test_the_board_is_that_of_the_rules(rule, width, height):
    game = gj.Gomoku(height, width, 5, rule)
    draw = random.Random(3)
    ends = []
    for _ in range(5):
        board, record = Board(width, height, rule), GameRecord(game)
        while not record.over:
            assert [board.action(cell) for cell in board.legal] == record.legal_actions
            assert board.to_play == record.to_play and board.winner == 0 and not board.over
            action = draw.choice(record.legal_actions)
            wins = board.wins_at(board.cell(action), board.to_play)
            record.play(action)
            board.play(board.cell(action))
            assert wins == (record.winner != 0)
        assert board.over and board.winner == record.winner
        assert board.action(board.cell(action)) == action
        ends.append(record.winner)
    assert {1, -1} & set(ends)


def test_a_stone_taken_off_takes_the_win_with_it():
    board = board_of("a1a2b1b2c1c2d1d2e1")
    assert board.winner == 1
    board.remove(cell_of(board, "e1"))
    assert board.winner == 0 and board.to_play == 1 and not board.over


@pytest.mark.parametrize("rule", ["freestyle", "exact"])
def test_wins_at_once_else_blocks(rule):
    board = board_of("h8h9i8i9j8j9k8k9", rule=rule)  # black has four, so has white
    advice = advise(board)
    assert advice.kind == "win" and names(board, advice.cells) == {"g8", "l8"}
    board = board_of("g8h8a1i8a15j8o1k8", rule=rule)  # white's four is closed on one side
    advice = advise(board)
    assert advice.kind == "block" and names(board, advice.cells) == {"l8"}
    assert name_of(board, fallback_cell(board)) == "l8"


def test_six_is_no_win_under_exact():
    moves = "h8a1i8a3j8a5l8a7m8c9"
    assert advise(board_of(moves)).kind == "win"
    advice = advise(board_of(moves, rule="exact"))
    assert advice.kind != "win"  # k8 would make six


def test_opens_a_three_to_a_four_and_stops_one():
    board = board_of("h8a1i8c15j8o2")
    advice = advise(board)
    assert advice.kind == "open four" and {"g8", "k8"} <= names(board, advice.cells)
    board = board_of("c4a1d4c7e4", 7, 7)
    advice = advise(board)
    # Every defence, by playing all black answers out: none may leave two ways to make five.
    expected = set()
    for cell in board.empty:
        board.play(cell)
        harmless = True
        for answer in board.empty:
            board.cells[answer] = 1
            fives = [five for five in board.empty if board.wins_at(five, 1)]
            harmless &= len(fives) < 2
            board.cells[answer] = 0
        board.remove(cell)
        if harmless:
            expected.add(name_of(board, cell))
    assert advice.kind == "defend" and names(board, advice.defences) == expected == {"b4", "f4"}


@pytest.mark.parametrize(
    ("name", "rule", "side", "position", "must_play"),
    [
        ("freestyle", "freestyle", 20, "h8h9i8i9j8j9k8k9", {"g8", "l8"}),
        ("freestyle15", "freestyle", 15, "h8h9i8i9j8j9k8k9", {"g8", "l8"}),
        ("standard", "exact", 15, "h8h9i8i9j8j9k8k9", {"g8", "l8"}),
        # White's five stones in a column would be six with h13, so black's open three has to be stopped.
        ("standard_specific", "exact", 15, "h8h9i8h10g8h11j13h12g14h14i15", {"f8", "j8"}),
        ("renju", "renju", 15, "h8h9i8i9j8j9k8k9", {"g8", "l8"}),
        ("caro", "caro_overline", 15, "h8h9i8i9j8j9k8k9", {"g8", "l8"}),
        # Black's four has stones of White's at both ends of its five: White's open three has to be stopped.
        ("caro_specific", "caro_overline", 15, "h8f8g8f9i8f7j8l8", {"f5", "f6", "f10", "f11"}),
    ],
)
def test_acceptance_positions(name, rule, side, position, must_play):
    board = board_of(position, side, side, rule)
    assert name_of(board, fallback_cell(board)) in must_play
    assert names(board, advise(board).cells) == must_play


def test_a_move_that_is_forbidden_is_not_played():
    board = board_of("h8h9i7i9h10i6i11i12", rule="renju")  # g9 would be a double-three
    assert "g9" not in names(board, board.legal)
    for _ in range(20):
        cell = fallback_cell(board)
        assert cell in board.legal
        board.play(cell)
    # White's four can be stopped on g7 only, a double-three: Black is lost, and still answers.
    board = board_of("h8g6f6g5f7g4h7g3g2a1", rule="renju")
    cell = fallback_cell(board)
    assert advise(board).kind == "" and cell in board.legal and name_of(board, cell) != "g7"


def test_what_is_forbidden_is_no_threat():
    """Black threatens a double-four, which it may not make; the same stones of White's are a threat."""
    stones = "e5a1f5a15g6o1g7g9"  # g5 makes four with e5, f5 and h5, and with g6, g7 and g8
    board = board_of(stones + "h5c1g8", rule="renju")
    assert board.is_forbidden(cell_of(board, "g5"), 1) and advise(board).kind != "defend"
    free = board_of(stones + "h5c1g8")
    assert advise(free).kind == "defend" and cell_of(free, "g5") in advise(free).defences


def test_fouls_are_those_of_the_rules():
    """Boards full of threes and fours, against the forbidden points of `gomoku_jax.game.renju`."""
    draw = np.random.default_rng(4)
    boards = draw.choice(np.array([0, 0, 1, 1, -1], np.int8), (150, 9, 11), p=[0.25, 0.25, 0.2, 0.2, 0.1])
    expected = np.asarray(jax.jit(jax.vmap(renju.forbidden_points))(boards))
    for stones, points in zip(boards, expected, strict=True):
        board = Board(11, 9, "renju")
        for action in np.flatnonzero(stones):
            board.cells[board.cell(int(action))] = int(stones.reshape(-1)[action])
        before = list(board.cells)
        found = [board.action(cell) for cell in board.empty if board.is_forbidden(cell, 1)]
        assert found == np.flatnonzero(points).tolist() and board.cells == before
        assert not any(board.is_forbidden(cell, -1) for cell in board.empty)
    assert expected.sum() > 300


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("width", "height"), [(5, 3), (7, 6), (20, 20)])
def test_plays_every_game_to_its_end(width, height, rule):
    board = Board(width, height, rule)
    while not board.over:
        cell = fallback_cell(board)
        assert cell in board.legal
        board.play(cell)
    assert board.winner or not board.legal
    first = board.moves[0][0]
    row, col = divmod(board.action(first), width)
    assert abs(row - (height - 1) / 2) <= 0.5 and abs(col - (width - 1) / 2) <= 0.5


@pytest.mark.slow
def test_plays_better_than_the_tactical_player():
    game = gj.Gomoku(9, 9, 5)

    class Fallback:
        name = "fallback"
        opener = None

        def new_game(self):
            pass

        def choose(self, record):
            board = Board(9, 9)
            for action in record.moves:
                board.play(board.cell(action))
            return board.action(fallback_cell(board))

        def close(self):
            pass

    limit = Limit()
    other = make_opponent("tactical", game, limit)
    result = play_host_match(Fallback(), other, game, 10, opening_stones=2)
    assert result.wins >= 8 and not result.forfeits


# The clock.


def test_the_time_for_a_move_is_below_the_limit():
    for turn in (1, 20, 50, 100, 500, 1000, 5000, 30_000, 1_000_000):
        time = clock.budget(clock.Limits(turn=turn), 0, 225)
        assert 0 <= time.soft <= time.hard <= max(0, turn / 1000 - 0.05)
    assert clock.budget(clock.Limits(turn=5000), 0, 225).soft > 4
    assert clock.budget(clock.Limits(turn=0), 0, 225).hard <= 0.05


def test_no_limit_of_the_match():
    unlimited = clock.budget(clock.Limits(turn=5000), 0, 225)
    assert clock.budget(clock.Limits(turn=5000, match=0), 0, 225) == unlimited
    assert clock.budget(clock.Limits(turn=5000, match=0, left=-5), 0, 225) == unlimited
    assert clock.budget(clock.Limits(turn=5000, match=0, left=2_147_483_647), 0, 225) == unlimited


@pytest.mark.parametrize("left", [0, -1, -(10**9), 1, 49])
def test_plays_at_once_when_the_match_is_out_of_time(left):
    assert clock.budget(clock.Limits(turn=5000, match=180_000, left=left), 20, 180).hard == 0
    assert clock.budget(clock.Limits(turn=5000, left=left), 20, 180).hard == 0


@pytest.mark.parametrize("match", [1000, 20_000, 180_000])
@pytest.mark.parametrize("told", [True, False])
def test_a_whole_game_fits_into_the_match(match, told):
    """112 moves of our own, each as long as it may be: the sum stays below the match."""
    used = 0.0
    for number in range(112):
        left = round(match - 1000 * used) if told else None
        limits = clock.Limits(turn=30_000, match=match, left=left)
        time = clock.budget(limits, number, 225 - 2 * number, 0.0 if told else used)
        used += time.hard
    assert 0.5 * match / 1000 < used < match / 1000


# The protocol.


def test_reads_commands():
    assert protocol.split("  turn  7,8 ") == ("TURN", "7,8")
    assert protocol.parse_point("7,8") == protocol.parse_point(" 7 , 8 ") == (7, 8)
    assert protocol.parse_stone("1,2,3") == (1, 2, 3) and protocol.parse_stone("1,2") == (1, 2, None)
    assert protocol.parse_start("20") == protocol.Size(20, 20)
    assert protocol.parse_rectstart("20,15") == protocol.Size(width=20, height=15)
    rules = [protocol.rule_name(code) for code in (0, 1, 4, 8, 9)]
    assert rules == ["freestyle", "exact", "renju", "caro_overline", "caro"]
    assert protocol.parse_number("-5") == -5 and protocol.parse_number("5 s") is None


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (protocol.parse_start, "4"),
        (protocol.parse_start, "27"),
        (protocol.parse_start, "-15"),
        (protocol.parse_start, ""),
        (protocol.parse_start, "15,15"),
        (protocol.parse_start, "٣٠"),
        (protocol.parse_start, "9" * 5000),
        (protocol.parse_rectstart, "15"),
        (protocol.parse_rectstart, "4,4"),
        (protocol.parse_rectstart, "2,9"),
        (protocol.parse_point, "h8"),
        (protocol.parse_point, "7"),
        (protocol.parse_point, "7,8,1"),
    ],
)
def test_refuses_with_the_value(read, text):
    with pytest.raises(protocol.CommandError):
        read(text)


@pytest.mark.parametrize(
    ("code", "word"),
    [(5, "renju"), (12, "caro"), (2, "continuous"), (3, "exactly five, continuous"), (16, "16"), (-1, "-1")],
)
def test_refuses_other_rules(code, word):
    with pytest.raises(protocol.CommandError, match=word):
        protocol.rule_name(code)


def test_the_tree_fits_into_memory():
    assert room_for(225, 0) == room_for(225, 2**31) == 8192
    for megabytes in (83, 70, 350):
        room = room_for(400, megabytes * 10**6)
        assert 512 <= room <= 8192 and room * 400 * 16 < megabytes * 10**6 / 4
    assert room_for(400, 1) == 64
    assert room_for(225, 0, wanted=100) == 128 and room_for(225, 0, wanted=32768) == 32768


def test_evaluations_are_finite_and_ordered():
    values = [evaluation(value) for value in (-1, -0.99, -0.5, 0, 0.5, 0.99, 1)]
    assert values == sorted(values) and values[3] == 0 and values[0] == -values[-1] == -4000
    assert evaluation(2 * 0.7310586 - 1) == 400
