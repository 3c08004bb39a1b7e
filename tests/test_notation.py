"""Names of points and moves, errors in words, and the pictures."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gomoku_jax as gj
from gomoku_jax.game import (
    ascii_board,
    format_action,
    format_moves,
    parse_action,
    parse_moves,
    play_move,
    svg,
    to_sgf,
)

BIG = gj.Gomoku(15, 15, 5)
FLAT = gj.Gomoku(3, 5, 3)
sides = st.integers(3, 26)


@hypothesis.given(sides, sides)
def test_every_point_has_its_own_name(height, width):
    game = gj.Gomoku(height, width, 3)
    names = [format_action(game, action) for action in range(game.num_actions)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert names == [f"{letters[a % width]}{a // width + 1}" for a in range(game.num_actions)]
    assert [parse_action(game, name) for name in names] == list(range(game.num_actions))
    assert [parse_action(game, name.upper()) for name in names] == list(range(game.num_actions))


@hypothesis.given(st.data(), sides, sides)
def test_move_strings_round_trip(data, height, width):
    game = gj.Gomoku(height, width, 3)
    actions = data.draw(st.lists(st.integers(0, game.num_actions - 1), max_size=40))
    names = [format_action(game, action) for action in actions]
    assert format_moves(game, actions) == "".join(names)
    between = data.draw(st.sampled_from(["", " ", ",", ", ", "\n", " , \t"]))
    assert parse_moves(game, between.join(names)) == actions
    assert parse_moves(game, between.join(names).upper()) == actions


def test_known_points():
    assert format_action(BIG, 112) == "h8" and parse_action(BIG, "h8") == 112
    assert format_action(BIG, 0) == "a1" and format_action(BIG, 224) == "o15"
    assert format_action(BIG, 8) == "i1" and parse_action(BIG, "j1") == 9  # `i` is not skipped
    assert parse_moves(BIG, "h8i9j10") == [112, 128, 144]
    assert parse_moves(BIG, "a1a11b1") == [0, 150, 1]
    assert parse_moves(BIG, "") == [] and format_moves(BIG, []) == ""
    assert parse_action(FLAT, " e3 ") == 14 and format_action(gj.Gomoku(26, 26, 5), 675) == "z26"


@pytest.mark.parametrize(
    "point", ["", "h", "8", "8h", "h0", "h08", "h16", "p1", "a-1", "hh8", "h8i9", "h 8", "é1", "h\u0663"]
)
def test_words_that_are_no_points(point):
    with pytest.raises(ValueError, match=re.escape(repr(point))):
        parse_action(BIG, point)


@pytest.mark.parametrize(
    "moves, named", [("h8i", "'i'"), ("h8;i9", "';i9'"), ("8h", "'8h'"), ("h8p1", "'p1'"), ("a1b100", "'0'")]
)
def test_move_strings_that_are_none(moves, named):
    for error, read in ((ValueError, parse_moves), (gj.IllegalMoveError, gj.replay_moves)):
        with pytest.raises(error, match=re.escape(named)):
            read(BIG, moves)


@pytest.mark.parametrize("action", [-1, 225, 10**6])
def test_actions_without_a_name(action):
    with pytest.raises(ValueError, match=f"{action} is not on the 15x15 board"):
        format_action(BIG, action)


# --- Moves on the host ------------------------------------------------------------------------------------


def test_replay_takes_names_and_actions():
    states = [
        gj.replay_moves(FLAT, moves) for moves in ("a1b2c3", [0, 6, 12], ["a1", "b2", 12], (0, "B2", "c3"))
    ]
    for state in states:
        expected = np.zeros((3, 5))
        expected[0, 0], expected[1, 1], expected[2, 2] = 1, -1, 1
        np.testing.assert_array_equal(state.board, expected)
        assert (int(state.to_play), int(state.last_action), int(state.move_count)) == (-1, 12, 3)
    assert int(gj.replay_moves(FLAT, []).last_action) == -1
    assert int(gj.replay_moves(FLAT, np.array([3, 4])).move_count) == 2


@pytest.mark.parametrize(
    "moves, message",
    [
        ([0, 6, 0], "move 3, 0: a1 is taken"),
        ("a1b2b2", "move 3, 'b2': b2 is taken"),
        ("a1a1f9", "move 2, 'a1': a1 is taken"),
        (["a1", "b2", "B2"], "move 3, 'B2': b2 is taken"),
        ([0, 15], "move 2, 15: not on the board, actions are 0 to 14"),
        ([-1], "move 1, -1: not on the board, actions are 0 to 14"),
        (["a1", "f1"], "move 2, 'f1': 'f1' is not on the board of 3 rows and 5 columns"),
        (["a4"], "move 1, 'a4': 'a4' is not on the board of 3 rows and 5 columns"),
        ([0, 1.5], "move 2, 1.5: neither an action nor a point's name"),
        ([None], "move 1, None: neither an action nor a point's name"),
        (["a1", "pass"], "move 2, 'pass': 'pass' is not a point"),
        ("a1a2b1b2c1c2", "move 6, 'c2': the game has ended"),
    ],
)
def test_illegal_moves_are_named_with_the_reason(moves: Any, message):
    with pytest.raises(gj.IllegalMoveError, match=re.escape(message)):
        gj.replay_moves(FLAT, moves)


def test_play_move_says_why_not():
    state = gj.replay_moves(FLAT, "a1")
    assert int(play_move(FLAT, state, "c2").board[1, 2]) == -1
    for move, message in (
        ("a1", "move 'a1': a1 is taken"),
        (0, "move 0: a1 is taken"),
        (99, "move 99: not on"),
    ):
        with pytest.raises(gj.IllegalMoveError, match=re.escape(message)):
            play_move(FLAT, state, move)
    assert issubclass(gj.IllegalMoveError, ValueError)


# --- Pictures ---------------------------------------------------------------------------------------------


def test_ascii_board():
    expected = """\
 3  .  .  .  . (X)
 2  .  O  .  .  .
 1  X  .  .  .  .
    a  b  c  d  e"""
    assert ascii_board(gj.replay_moves(FLAT, "a1b2e3")) == expected
    empty = ascii_board(gj.Gomoku(10, 3, 3).init()).split("\n")
    assert empty[0] == "10  .  .  ." and empty[-2:] == [" 1  .  .  .", "    a  b  c"]
    with pytest.raises(ValueError, match=re.escape("(2, 3, 5)")):
        ascii_board(batch_of([FLAT.init(), FLAT.init()]))


def batch_of(states: list[gj.State]) -> gj.State:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def parts_of(picture: str, tag: str) -> list[ET.Element]:
    root = ET.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return list(root.iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


def stones_of(picture: str) -> list[tuple[float, float, bool]]:
    """Where the stones are, (x, y, black), without the dot on the last move."""
    circles = [circle.attrib for circle in parts_of(picture, "circle")]
    largest = max((float(c["r"]) for c in circles), default=0)
    fills = [c for c in circles if float(c["r"]) == largest]
    return [(float(c["cx"]), float(c["cy"]), int(c["fill"][1:], 16) < 0x808080) for c in fills]


def test_svg_shows_each_stone_in_its_place():
    state = gj.replay_moves(FLAT, "a1b2e3")
    stones = sorted(stones_of(svg(state)))
    assert [black for _, _, black in stones] == [True, False, True]
    (ax, ay, _), (bx, by, _), (ex, ey, _) = stones
    assert ay > by > ey  # row 1 is at the bottom
    assert bx - ax == ay - by and ex - ax == 4 * (bx - ax) and ay - ey == 2 * (ay - by)
    assert len(parts_of(svg(state), "circle")) == 4  # and a dot on the last move
    words = [text.text for text in parts_of(svg(state), "text")]
    assert sorted(words, key=str) == ["1", "2", "3", *"abcde"]
    assert stones_of(svg(FLAT.init())) == []


def test_svg_numbers_and_rings():
    game = gj.Gomoku(3, 5, 3)
    moves = [0, 5, 1, 6, 2]
    state = gj.replay_moves(game, moves)
    picture = svg(state, moves=moves, highlight=np.asarray(game.winning_line(state)))
    assert svg(state, moves=np.array(moves), highlight=np.asarray(game.winning_line(state))) == picture  # type: ignore
    assert len(stones_of(picture)) == 5
    words = [text.text for text in parts_of(picture, "text")]
    assert sorted(words, key=str) == sorted([*"12345", *"123", *"abcde"])
    strokes = [circle.attrib["stroke"] for circle in parts_of(picture, "circle")]
    assert sorted(strokes.count(stroke) for stroke in set(strokes)) == [2, 3]


@hypothesis.given(st.integers(0, 20), st.data())
@hypothesis.settings(max_examples=15)
def test_notebooks_draw_batches(count, data):
    boards = [
        data.draw(st.lists(st.sampled_from([0, 1, -1]), min_size=15, max_size=15)) for _ in range(count)
    ]
    board = np.array(boards, np.int8).reshape(count, 3, 5)
    ones = np.ones(count, np.int8)
    states = gj.State(board, ones, ones * -1, (board != 0).sum((1, 2)), ones < 0, ones * 0)  # type: ignore
    picture = states._repr_svg_()
    stones = stones_of(picture)
    assert len(stones) == (board[:16] != 0).sum()
    assert sum(black for _, _, black in stones) == (board[:16] == 1).sum()
    groups = parts_of(picture, "g")
    places = {group.attrib["transform"] for group in groups}
    assert len(groups) == len(places) == min(count, 16)


def test_notebooks_draw_one_state():
    state = gj.replay_moves(BIG, "h8i9j10")
    assert len(stones_of(state._repr_svg_())) == 3
    nested = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (2, 3, *leaf.shape)), state)
    assert len(stones_of(nested._repr_svg_())) == 18


# --- SGF --------------------------------------------------------------------------------------------------


def test_sgf_of_a_square_board():
    assert to_sgf(BIG, parse_moves(BIG, "h8i9a1o15"), "Ann", "Bob", "B+") == (
        "(;FF[4]GM[4]CA[UTF-8]AP[gomoku_jax]SZ[15]RU[freestyle, 5 in a row]PB[Ann]PW[Bob]RE[B+]\n"
        ";B[hh];W[ig];B[ao];W[oa])\n"
    )


def test_sgf_of_a_rectangle():
    game = gj.Gomoku(3, 5, 4, "exact")
    assert to_sgf(game, parse_moves(game, "a1e3c2"), num_setup=2) == (
        "(;FF[4]GM[4]CA[UTF-8]AP[gomoku_jax]SZ[5:3]RU[exact, 4 in a row]"
        "C[The first 2 stones are a random opening.]\n"
        ";B[ac];W[ea];B[cb])\n"
    )


def test_sgf_has_no_points_off_the_board():
    with pytest.raises(ValueError, match="action 15 is not on the 3x5 board"):
        to_sgf(FLAT, [0, 15])


def test_sgf_escapes_names():
    text = to_sgf(FLAT, [], r"a]b\c", "[x]")
    assert r"PB[a\]b\\c]PW[[x\]]" in text and text.endswith("\n)\n")
