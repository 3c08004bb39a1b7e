"""Game files: what is written reads back and satisfies sgfmill, what is damaged is told with its place."""

import io
import random
import re
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import oracle
import pytest
from sgfmill import sgf, sgf_grammar

import gomoku_jax as gj
from gomoku_jax.config import RULES
from gomoku_jax.game import format_moves, parse_moves
from gomoku_jax.play.files import (
    GameFileError,
    read_game,
    read_openings,
    read_psq,
    read_sgf,
    save_file,
    write_game,
    write_openings,
    write_psq,
    write_sgf,
)
from gomoku_jax.play.files.command import main as convert

# Few, since each compiles a step; squares, both rectangles, both rules, several k.
GAMES = (
    gj.Gomoku(3, 3, 3),
    gj.Gomoku(4, 7, 4, "exact"),
    gj.Gomoku(7, 4, 3),
    gj.Gomoku(15, 15, 5),
    gj.Gomoku(26, 26, 5, "exact"),
)
BIG = GAMES[3]
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=12)
# As text, as bytes, from Windows, with a byte order mark.
ends = st.sampled_from(
    [
        lambda text: text,
        lambda text: text.encode(),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
    ]
)
results = st.sampled_from(["", "B+", "W+R", "0", "?"])


def play_out(game: gj.Gomoku, seed: int, most: int) -> tuple[list[int], str]:
    """A legal game of at most so many moves, and how it ended, by the plain-Python rules."""
    played = oracle.Game(game.height, game.width, game.k, game.rule)
    order = random.Random(seed).sample(range(game.num_actions), game.num_actions)
    moves = []
    for action in order[:most]:
        if played.terminated:
            break
        assert played.play(action)
        moves.append(action)
    won = oracle.winners(played.board, game.k, game.rule)
    ended = {1: "B+", -1: "W+"}[won.pop()] if won else ("0" if played.terminated else "")
    return moves, ended


games = st.builds(
    lambda game, seed, most: (game, *play_out(game, seed, most)),
    st.sampled_from(GAMES),
    st.integers(0, 10**6),
    st.integers(0, 40),
)


# What is written reads back.


@hypothesis.given(games, names, names, results, st.text(st.characters(codec="utf-8"), max_size=40), ends)
@hypothesis.settings(max_examples=40)
def test_sgf_round_trip(played, black, white, result, comment, end):
    game, moves, ended = played
    setup = len(moves) // 3
    text = write_sgf(game, moves, black, white, result, setup, comment)
    file = read_game(end(text))
    assert (file.game, list(file.moves), file.format) == (game, moves, "sgf")
    assert (file.black, file.white) == (black.strip(), white.strip())
    assert file.result == (result or ended) and file.num_setup == setup
    breaks = comment.replace("\r\n", "\n").replace("\r", "\n")
    if not re.match(r"The first \d+ stones", breaks):
        assert file.comment == re.sub(r"[\t\v\f]", " ", breaks)


@hypothesis.given(games, names, names, ends)
@hypothesis.settings(max_examples=40)
def test_psq_round_trip(played, black, white, end):
    game, moves, ended = played
    hypothesis.assume(not re.match(r"\s*[-+]?\d+\s*,", black) and not re.match(r"\s*[-+]?\d+\s*,", white))
    text = write_psq(game, moves, black, white)
    file = read_game(end(text))
    assert (file.game, list(file.moves), file.result) == (game, moves, ended)
    assert (file.black, file.white, file.format) == (black.strip(), white.strip(), "psq")
    assert file.warnings == ()


@hypothesis.given(games, st.sampled_from(["", " ", ", ", "\n", "\r\n"]))
def test_move_strings_round_trip(played, between):
    game, moves, ended = played
    text = between.join(format_moves(game, [move]) for move in moves)
    file = read_game(text.upper(), game)
    assert (file.game, list(file.moves), file.result) == (game, moves, ended)
    assert write_game("txt", game, moves) == format_moves(game, moves) + "\n"


@hypothesis.given(games, names.filter(lambda name: name.strip()))
@hypothesis.settings(max_examples=25)
def test_sgfmill_reads_what_is_written(played, black):
    game, moves, _ = played
    text = write_sgf(game, moves, black, comment="two\nlines ] \\")
    tree = sgf_grammar.parse_sgf_game(text.encode())
    root, *nodes = [dict(node) for node in tree.sequence]
    assert root[b"GM" if b"GM" in root else "GM"] == [b"4"] and not tree.children
    points = []
    for i, node in enumerate(nodes):
        (color, (value,)) = next(iter(node.items()))
        assert color == "BW"[i % 2]
        column, row = value[0] - ord("a"), value[1] - ord("a")  # from the upper left
        points.append((game.height - 1 - row) * game.width + column)
    assert points == moves
    if game.height == game.width:
        read = sgf.Sgf_game.from_bytes(text.encode())
        assert read.get_size() == game.width and read.get_root().get("PB").strip() == black.strip()
        assert read.get_root().get("C") == "two\nlines ] \\"
        found = [node.get_move()[1] for node in read.get_main_sequence()[1:]]
        assert found == [divmod(move, game.width) for move in moves]


# sgfmill has no letter for the last line of a board with 26.
@hypothesis.given(games.filter(lambda played: played[0] in (GAMES[0], BIG)), names, st.booleans())
@hypothesis.settings(max_examples=25)
def test_what_sgfmill_writes_is_read(played, black, variations):
    game, moves, _ = played
    theirs = sgf.Sgf_game(size=game.width)
    theirs.get_root().set_raw("GM", b"4")
    theirs.get_root().set("PB", black)
    theirs.get_root().set("RU", f"{game.rule}, {game.k} in a row")
    theirs.get_root().set("C", "[a] comment: \\ of\nlines")
    for i, move in enumerate(moves):
        theirs.extend_main_sequence().set_move("bw"[i % 2], divmod(move, game.width))
        if variations and i:
            theirs.get_main_sequence()[i].new_child().set("C", "another way (;B[zz])")
    file = read_game(theirs.serialise())
    assert (file.game, list(file.moves), file.black) == (game, moves, black.strip())
    assert file.comment == "[a] comment: \\ of\nlines"
    assert any("variation" in warning for warning in file.warnings) == (variations and len(moves) > 1)


# SGF of other programs.


def test_the_upper_left_corner_of_sgf():
    file = read_sgf("(;GM[4]SZ[5:3]RU[x, 3 in a row];B[aa];W[ec];B[ea])")
    assert file.game.shape == (3, 5) and format_moves(file.game, file.moves) == "a3e1e3"


@pytest.mark.parametrize(
    "rule, expected",
    [
        ("Freestyle", ("freestyle", 5)),
        ("Gomoku", ("freestyle", 5)),
        ("Standard", ("exact", 5)),
        ("exact, 4 in a row", ("exact", 4)),
        ("6 in a row", ("freestyle", 6)),
        ("Renju", ("renju", 5)),
        ("Caro", ("caro", 5)),
        ("caro_overline, 4 in a row", ("caro_overline", 4)),
        ("Pente", None),
    ],
)
def test_rules_of_other_programs(rule, expected):
    file = read_sgf(f"(;GM[4]SZ[15]RU[{rule}])")
    assert (file.game.rule, file.game.k) == (expected or ("freestyle", 5))
    assert [repr(rule) in warning for warning in file.warnings] == ([] if expected else [True])


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_written_and_read(rule):
    game = gj.Gomoku(7, 7, 5, rule)
    for write, read in ((write_sgf, read_sgf), (write_psq, read_psq)):
        file = read(write(game, [0, 5, 8]))
        assert (file.game, file.moves, file.warnings) == (game, (0, 5, 8), ())


def test_a_forbidden_move_ends_a_game_of_renju():
    """The last move of such a file lost the game: it is left out, and said; anywhere else it is a fault."""
    before = "b1a12c1c12d1e12f1g12g1i12"
    losing = gj.Gomoku(15, 15, 5, "renju", "loses")
    actions = parse_moves(losing, before + "e1")
    for write, read in ((write_sgf, read_sgf), (write_psq, read_psq)):
        file = read(write(losing, actions))
        assert format_moves(file.game, file.moves) == before and file.result[:2] == "W+"
        assert file.game == gj.Gomoku(15, 15, 5, "renju")
        assert any("e1 is forbidden, an overline: Black lost by it" in text for text in file.warnings)
        with pytest.raises(GameFileError, match=r"forbidden|ended"):
            read(
                write(gj.Gomoku(15, 15, 5, "exact"), [*actions, 100])
                .replace("exact", "renju")
                .replace("Standard", "Renju")
            )


def test_what_a_file_does_not_tell_is_guessed_and_said():
    file = read_sgf("(;;B[ab])")
    assert file.game == gj.Gomoku(15, 15, 5) and [w.split(":")[0] for w in file.warnings] == [
        "the file does not tell the game (GM)",
        "the file does not tell the size (SZ)",
        "the file does not tell the rule (RU)",
    ]
    assert read_sgf("(;GM[4]SZ[3])").game == gj.Gomoku(3, 3, 3)
    own = gj.Gomoku(6, 6, 4, "exact")
    assert read_sgf("(;GM[4]SZ[6])", own).game == own and read_sgf("(;GM[4]SZ[6])", own).warnings == ()
    assert read_sgf("(;GM[4]SZ[7])", own).game == gj.Gomoku(7, 7, 5)
    assert read_sgf("(;GM[4]SZ[6]RU[freestyle, 5 in a row])", own).game == gj.Gomoku(6, 6, 5)
    assert read_psq("Piskvorky 6x6, 0:0, 0\n-1\n", own).game == own


def test_other_ways_to_write_sgf():
    old = read_sgf("junk (;GaMe[4]SiZe[15]RUles[Standard]PlayerBlack[A\\\nnn] ; Black[hh]\n;White [ ig ] )")
    assert (old.game.rule, old.black, format_moves(old.game, old.moves)) == ("exact", "Ann", "h8i9")
    named = read_sgf("(;GM[4]SZ[15]RU[five];B[h8];W[I9];B[a15])")
    assert format_moves(named.game, named.moves) == "h8i9a15" and len(named.warnings) == 1
    branches = read_sgf("(;GM[4]SZ[3]RU[gomoku](;B[aa](;W[ab])(;W[ac](;B[bb])))(;B[cc]))(;GM[1])")
    assert format_moves(branches.game, branches.moves) == "a3a2"
    assert branches.warnings == (
        "the first of 2 games is read",
        "2 variations ignored: the main line is read",
    )
    ended = read_sgf("(;GM[4]SZ[3]RU[gomoku];B[aa];W[])")
    assert ended.moves == (6,) and "a pass at the end" in ended.warnings[0]
    assert len(read_sgf("(;GM[4]SZ[20]RU[gomoku];B[tt])").moves) == 1  # a point there


def test_encodings():
    latin = "(;GM[4]SZ[3]RU[gomoku]{}PB[Jos\u00e9])"
    assert read_game(latin.format("CA[ISO-8859-1]").encode("latin-1")).black == "Jos\u00e9"
    assert read_game(latin.format("").encode("latin-1")).black == "Jos\u00e9"
    assert read_game(latin.format("").encode("utf-8")).black == "Jos\u00e9"
    assert read_game(latin.format("CA[gb18030]").encode("gb18030")).black == "Jos\u00e9"
    assert read_game(latin.format("").encode("utf-16")).black == "Jos\u00e9"
    broken = read_game(latin.format("CA[UTF-8]").encode("latin-1"))
    assert broken.black == "Jos\ufffd" and "not all bytes are UTF-8" in broken.warnings[0]
    for name in ("klingon", "rot13", "hex", "cp500", "utf-7x"):
        file = read_game(latin.format(f"CA[{name}]").encode())
        assert file.black == "Jos\u00e9" and f"unknown encoding '{name}'" in file.warnings[0]


def test_setup_stones_become_moves():
    file = read_sgf("(;GM[4]SZ[5]RU[3 in a row]AB[aa:ba]AW[ca]PL[W];W[cb];B[cc])")
    assert file.num_setup == 3 and format_moves(file.game, file.moves) == "a5c5b5c4c3"
    assert read_sgf("(;GM[4]SZ[5]RU[x]AB[aa]AW[ba];B[ca])").num_setup == 2


@pytest.mark.parametrize(
    "text, line, column, reason",
    [
        ("(;GM[1]SZ[19];B[aa])", 1, 6, "GM[1], Go: only GM[4]"),
        ("(;GM[4]SZ[15]\n;B[hh]\n;B[hi])", 3, 4, "black moves again"),
        ("(;GM[4]SZ[15];W[hh])", 1, 17, "white moves first"),
        ("(;GM[4]SZ[15];B[hh];W[hh])", 1, 23, "move 2, 'h8': h8 is taken"),
        ("(;GM[4]SZ[15];B[pa])", 1, 17, "'pa' is not on the board"),
        ("(;GM[4]SZ[15];B[h16])", 1, 17, "'h16' is not on the board"),
        ("(;GM[4]SZ[15];B[HH])", 1, 17, "'HH' is not a point"),
        ("(;GM[4]SZ[15];B[tt];W[aa])", 1, 17, "a pass"),
        ("(;GM[4]SZ[15];B[aa][bb])", 1, 21, "B has one point"),
        ("(;GM[4]SZ[3];B[aa];W[ba];B[ab];W[bb];B[ac];W[bc])", 1, 46, "the game has ended (on 3x3"),
        ("(;GM[4]SZ[27])", 1, 11, "height = 27"),
        ("(;GM[4]SZ[fifteen])", 1, 11, "SZ[fifteen]: write SZ[15]"),
        ("(;GM[4]SZ[15]RU[16 in a row])", 1, 11, "k = 16"),
        ("(;GM[4]SZ[15]AB[aa][ab])", 1, 17, "2 black and 0 white stones"),
        ("(;GM[4]SZ[15]AB[aa]PL[B])", 1, 23, "PL[b]: after 1 stones white is to move"),
        ("(;GM[4]SZ[15];B[aa];AW[bb])", 1, 24, "puts stones into a game"),
        ("(;GM[4]SZ[15];AE[bb])", 1, 18, "AE removes stones"),
        ("(;GM[4]SZ[15]\n;B[hh", 2, 3, "never closed"),
        ("(;GM[4]SZ[15];B[hh]\n", 1, 20, "the file ends in the middle"),
        ("(;GM[4]SZ[15];B[hh]))", 1, 21, "')' does not belong here"),
        ("(;GM[4]SZ[15];B(hh))", 1, 16, "'(' does not belong here"),
        ("\n (", 2, 3, "the file ends in the middle"),
        ("hello", 1, 1, "'hello' is neither a move"),
        ("h8i9\nh8", 2, 1, "move 3, 'h8': h8 is taken"),
        ("h8\n j16", 2, 2, "'j16' is not on the board"),
        ("Piskvorky 15, 0:0, 0\n", 1, 1, "the first line is not such as"),
        ("Piskvorky 30x15, 0:0, 0\n", 1, 11, "width = 30"),
        ("Piskvorky 15x10, 0:0, 0\n8,8,0\n8,11,0\n-1", 3, 1, "8,11 is not on the board of 15 columns"),
        ("Piskvorky 15x15, 0:0, 0\n8,8,0\n  8,8,0\n", 3, 3, "move 2, 'h8': h8 is taken"),
        ("Piskvorky 15x15, 0:0, 0\n8,8,0\n9,x,0\n-1", 3, 1, "'9,x,0' is not a move"),
        ("Piskvorky 15x15, 0:0, 0\n8,8,0\nA\nB\nC\n-1", 5, 1, "two names at most"),
    ],
)
def test_damaged_files_are_told_with_line_and_column(text, line, column, reason):
    with pytest.raises(GameFileError) as caught:
        read_game(text)
    error = caught.value
    assert str(error).startswith(f"line {line}, column {column}: ") and reason in str(error)
    assert (error.line, error.column) == (line, column)


# Piskvork.


@pytest.mark.parametrize("line", ["3,x,0", "x,3,0", "3,x,0\n5,5,0\n-1", "4,+,100\n-1"])
def test_a_damaged_last_move_of_a_psq_is_no_name(line):
    with pytest.raises(GameFileError, match=r"line 3, column 1: .* is not a move"):
        read_psq(f"Piskvorky 15x15, 11:11, 0\n3,3,0\n{line}\n")


def test_a_backslash_before_a_line_break_of_a_comment_is_kept():
    game = gj.Gomoku(6, 6, 4)
    for comment in ("a\\\nb", "\\\\\n\\", "]\\]\n"):
        assert read_sgf(write_sgf(game, [0, 1, 2], comment=comment)).comment == comment


def test_psq_of_a_tournament():
    text = (
        "Piskvorky 20x15, 11:11, {}\r\n1,1,0\r\n20,15,1250\r\npbrain-a.exe\r\nb\r\n{}\r\n1,Standard15_2\r\n"
    )
    file = read_psq(text.format(0, -1))
    assert file.game == gj.Gomoku(15, 20, 5, "exact")  # columns first, in the file
    assert format_moves(file.game, file.moves) == "a15t1"  # from the upper left
    assert (file.black, file.white, file.result, file.warnings) == ("pbrain-a.exe", "b", "B+", ())
    swapped = read_psq(text.format(1, 0))  # the second player began
    assert (swapped.black, swapped.white) == ("b", "pbrain-a.exe")
    file = read_psq("Piskvorky 15x15, 0:0, 0\n8, 8\n\n9,8\n")
    assert format_moves(BIG, file.moves) == "h8i8" and (file.black, file.result) == ("", "")
    assert [warning.split(":")[0] for warning in file.warnings] == [
        "the end (a line with 0 or -1) is missing",
        "the file does not tell the rule",
    ]
    odd = read_psq("Piskvorky 15x15, 0:0, 7\n-1\n3,Pente\nmore\n")
    assert len(odd.warnings) == 3


def test_a_name_that_no_psq_can_hold():
    with pytest.raises(ValueError, match="'8,8' looks like a move"):
        write_psq(BIG, [], "8,8")
    assert read_psq(write_psq(BIG, [0], "-1", "0")).black == "-1"
    with pytest.raises(ValueError, match="action 225"):
        write_psq(BIG, [225])


# Openings.


def test_openings_are_offsets_from_the_centre():
    text = "# Gomocup\r\n8,-3, 6,-4, 5,-4\r\n\r\n0,0\n-1,3 -1,5\n"
    even, odd = gj.Gomoku(20, 20, 5), BIG
    found = read_openings(text, even)
    assert [format_moves(even, opening) for opening in found.openings] == ["s13q14p14", "k10", "j7j5"]
    assert found.lines == (2, 4, 5) and found.warnings == ()
    assert read_openings("0,0, 7,7, -7,-7", odd).openings == (tuple(parse_moves(odd, "h8o1a15")),)
    assert write_openings(even, found.openings) == "8,-3, 6,-4, 5,-4\n0,0\n-1,3, -1,5\n"


@hypothesis.given(games.filter(lambda played: played[1] and not played[2]), st.integers(0, 7))
@hypothesis.settings(max_examples=30)
def test_openings_round_trip_and_report_symmetric_ones(played, turn):
    game, moves, _ = played
    found = read_openings(write_openings(game, [moves]), game)
    assert [list(opening) for opening in found.openings] == [moves]
    # The same stones turned by NumPy: positions agree up to a symmetry that keeps the shape.
    board = np.arange(game.num_actions).reshape(game.shape)
    turned = np.rot90(board, turn if game.height == game.width else 2 * turn)
    turned = turned.T if turn > 3 and game.height == game.width else turned
    image = {int(action): i for i, action in enumerate(turned.reshape(-1))}
    order = [2, 1, 0, *range(3, len(moves))] if len(moves) > 2 else range(len(moves))
    other = [image[moves[i]] for i in order]
    reported = read_openings(write_openings(game, [moves, other]), game).warnings
    assert len(reported) == 1 and reported[0].startswith("line 2: the position of line 1")
    changed = moves[:-1]
    if changed:
        assert read_openings(write_openings(game, [moves, changed]), game).warnings == ()


@pytest.mark.parametrize(
    "text, line, column, reason",
    [
        ("0,0\n8,0", 2, 1, "8,0 is not on the board"),
        ("0,0, 1,1, 0,0", 1, 11, "move 3, 'h8': h8 is taken"),
        ("0,0, 1", 1, 6, "has one offset"),
        ("0,0, h8", 1, 6, "'h8' is not an offset"),
        ("0,0;1,1", 1, 4, "a comma is missing before ';'"),
        ("0,0, 0,1, 1,0, 1,1, 2,0, 2,1, 3,0, 3,1, 4,0", 1, 41, "the opening ends the game"),
    ],
)
def test_damaged_openings(text, line, column, reason):
    with pytest.raises(GameFileError, match=re.escape(reason)) as caught:
        read_openings(text, BIG)
    assert (caught.value.line, caught.value.column) == (line, column)
    with pytest.raises(ValueError, match="without stones"):
        write_openings(BIG, [[]])


# Whatever the bytes.


def readers(data: bytes) -> None:
    for read in (read_game, read_sgf, read_psq, lambda text: read_openings(text, BIG)):
        try:
            read(data)
        except GameFileError as error:
            assert error.line >= 1 and error.column >= 1 and str(error).startswith("line ")


@hypothesis.given(st.binary(max_size=200))
@hypothesis.settings(max_examples=150)
def test_random_bytes_raise_nothing_else(data):
    readers(data)
    readers(b"(;GM[4]SZ[15]" + data)
    readers(b"Piskvorky 15x15, 11:11, 0\n8,8,0\n" + data)


SAMPLES = (
    write_sgf(BIG, parse_moves(BIG, "h8i9j10k11"), "A]", "B\\", "B+", 2, "x\ny").encode(),
    b"(;GM[4]CA[UTF-8]SZ[15:15]AB[aa:ab][cc]AW[ba:bb]PL[W];W[dd](;B[ee];W[tt])(;B[ff]C[(;)]))(;GM[4])",
    b"Piskvorky 15x15, 11:11, 1\n8,8,0\n9,8,100\nA\nB\n-1\n1,Standard\n",
    b"h8i9, j10\nk11",
)


@hypothesis.given(st.sampled_from(SAMPLES), st.data())
@hypothesis.settings(max_examples=200)
def test_mutated_files_raise_nothing_else(sample, data):
    mutated = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(mutated)))
        end = data.draw(st.integers(start, min(start + 6, len(mutated))))
        # No new sizes of boards, each of which would compile.
        piece = data.draw(
            st.sampled_from([b"", b"[", b"]", b"(", b")", b";", b"\\", b"\n", b",", b"\xff", b"tt"])
        )
        mutated[start:end] = piece
    hypothesis.assume(b"SZ" not in sample or b"SZ[15]" in mutated or b"SZ[15:15]" in mutated)
    hypothesis.assume(b"Pisk" not in sample or b"15x15," in mutated)
    readers(bytes(mutated))


def test_deep_and_long_files():
    deep = "(;GM[4]SZ[15]RU[gomoku]" + "(;" * 20_000 + ")" * 20_001
    assert read_game(deep).moves == ()
    with pytest.raises(GameFileError, match=r"4000001 characters: at most 4000000"):
        read_game("h8" * 2_000_000 + " ")
    with pytest.raises(GameFileError, match="more moves than the board"):
        read_game("a1b1c1a2b2c2a3b3c3a1", gj.Gomoku(3, 3, 3, "exact"))
    assert len(read_game("(;GM[4]SZ[15]RU[gomoku]C[" + r"\]" * 100_000 + "])").comment) == 100_000


# Files and the command.


def test_files_are_replaced_only_when_asked(tmp_path):
    path = tmp_path / "game.txt"
    save_file(path, "one")
    with pytest.raises(FileExistsError):
        save_file(path, "two")
    assert path.read_text() == "one"
    save_file(path, "two", replace=True)
    assert path.read_text() == "two" and list(tmp_path.iterdir()) == [path]


def test_convert_goes_round(tmp_path, capsys):
    paths = [tmp_path / name for name in ("a.sgf", "b.psq", "c.sgf")]
    start, middle, end = map(str, paths)
    save_file(start, write_sgf(GAMES[1], [0, 8, 1], "Ann", "Bob", "W+R", 1, "hello"))
    assert convert([start, middle]) == 0
    assert "warning:" in (told := capsys.readouterr()).err and "setup, comment" in told.err and not told.out
    assert convert([middle, end]) == 0
    file = read_game(paths[2].read_bytes())
    assert (file.game, file.moves, file.black, file.result) == (GAMES[1], (0, 8, 1), "Ann", "W+")
    assert convert([middle, end]) == 2 and "--force" in capsys.readouterr().err
    assert convert([start, end, "--force"]) == 0
    assert paths[0].read_text() == paths[2].read_text()
    capsys.readouterr()
    assert convert([start, "-", "--to", "txt"]) == 0 and capsys.readouterr().out == "a1b2b1\n"


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["-", "-"], "give the format"),
        (["-", "game.doc"], "'game.doc': its ending tells the format, one of .sgf, .psq, .txt"),
        (["missing.sgf", "game.psq"], "error: missing.sgf: No such file"),
        (["-", "game.sgf", "--board", "6x6"], "'6x6': write ROWSxCOLUMNSxK"),
        (["-", "game.sgf", "--board", "3x3x3"], "-: line 1, column 3: 'd4' is not on the board of 3 rows"),
        (["-", "no/game.sgf"], "no/game.sgf: No such file"),
    ],
)
def test_convert_refuses(arguments, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"c3d4")))
    assert convert(arguments) == 2
    output = capsys.readouterr()
    assert told in output.err and output.err.startswith("error: ") and not output.out
    assert not list(tmp_path.iterdir())
