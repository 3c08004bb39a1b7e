"""The terminal: games typed in by a script, what is shown and refused, how games end; the agents' list."""

import io
import re
import sys

import jax
import pytest
import rich.console

import gomoku_jax as gj
from gomoku_jax.agent import save_agent
from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig
from gomoku_jax.game import format_action
from gomoku_jax.play import agents, terminal, terminal_session
from gomoku_jax.play.files import read_game, save_file, write_sgf
from gomoku_jax.play.opponents import ForfeitError
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.terminal_display import board_text, make_console
from gomoku_jax.play.terminal_session import parse_numbers
from gomoku_jax.play.thinking import Thinker

GAME = gj.Gomoku(3, 4, 3)
TWO = ["--black", "human", "--white", "human", "--board", "3x4x3"]
WON = "a1\na2\nb1\nb2\nc1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An untrained agent of the small board, in a run's folder."""
    run = tmp_path_factory.mktemp("runs") / "mine"
    network = NetworkConfig(channels=8, num_blocks=1, value_hidden=8)
    params = gj.init_network(network, GAME, jax.random.key(0))
    info = {"iteration": 7, "evaluation": {"num_playouts": 50, "score": 0.25}}
    save_agent(run / "agents" / "best", GameConfig(3, 4, 3), network, SearchConfig("gumbel", 8), params, info)
    return run


@pytest.fixture
def play(monkeypatch, capsys, tmp_path):
    """Types lines into `gomoku-jax play`; gives the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def run(arguments: list[str], typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        status = terminal.main(arguments)
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


# What is shown.


def test_the_plain_board_marks_the_last_move_and_the_line():
    record = GameRecord(GAME, ["a1", "d3", "b2"])
    assert board_text(record, color=False).plain.split("\n") == [
        "    a b c d",
        " 3  . . . O  3",
        " 2  .(X). .  2",
        " 1  X . . .  1",
        "    a b c d",
    ]
    won = GameRecord(GAME, ["a1", "a2", "b1", "b2", "c1"])
    assert " 1 |X|X|X|.  1" in board_text(won, color=False).plain


def test_no_board_is_wider_than_a_terminal():
    text = board_text(GameRecord(gj.Gomoku(26, 26, 5), ["z26"]), color=False).plain
    lines = text.split("\n")
    assert max(map(len, lines)) <= 79 and lines[1].startswith("26 ") and lines[1].endswith("(X) 26")
    assert lines[0].split() == list("abcdefghijklmnopqrstuvwxyz") == lines[-1].split()


def test_colours_only_where_a_terminal_shows_them(monkeypatch):
    def drawn(**options) -> str:
        file = io.StringIO()
        console = rich.console.Console(file=file, color_system="truecolor", **options)
        console.print(board_text(GameRecord(GAME, ["b2"]), color=True))
        return file.getvalue()

    assert "\x1b[" in drawn(force_terminal=True) and "\u25cf" in drawn(force_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert make_console().no_color
    monkeypatch.delenv("NO_COLOR")
    assert make_console(color=False).no_color and not make_console().no_color


def test_rows_and_columns_are_counted_from_one_at_the_lower_left():
    assert [parse_numbers(GAME, text) for text in ("1,1", "3,4", "2 3", "(2, 3)")] == [0, 11, 6, 6]
    assert [parse_numbers(GAME, text) for text in ("b2", "1", "1,2,3", "-1,2", "")] == [None] * 5
    for text in ("0,1", "4,1", "1,5"):
        with pytest.raises(gj.IllegalMoveError, match="rows are 1 to 3, columns 1 to 4"):
            parse_numbers(GAME, text)


# Games.


def test_two_people_play_to_a_win(play):
    status, out, err = play([*TWO, "--save", "game.sgf"], WON)
    assert status == 0 and not err
    assert "black (human) wins after 5 moves: a1 b1 c1\nmoves: a1a2b1b2c1\n" in out
    assert "\x1b" not in out and "to go on" not in out
    file = read_game(open_bytes("game.sgf"))
    assert (file.game, file.moves, file.result) == (GAME, (0, 4, 1, 5, 2), "B+")
    # Afterwards the last move can be taken back, and the game goes on or begins again.
    status, out, _ = play(TWO, WON + "c1\nundo\nd1\nc2\nnew\nmoves\nquit\n")
    assert "the game is over: undo, new, save FILE or quit?" in out and "1 move taken back" in out
    assert "white (human) wins after 6 moves: a2 b2 c2" in out and "no moves yet" in out


def open_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_what_is_typed_wrong_is_said_and_changes_nothing(play):
    typed = ["b2", "b2", "e1", "9,9", "nonsense", "hint please", "", "  B3 ", "redo", "moves"]
    status, out, _ = play(TWO, "\n".join(typed))
    assert status == 0 and out.count("move 3: black (human, X) to move") == 1
    for said in (
        "b2 is taken",
        "'e1' is not on the board of 3 rows and 4 columns",
        "row 9, column 9 is not on the board",
        "'nonsense' is neither a move, such as h8 or 8,8, nor a command",
        "hint takes no more words",
        "nothing to play again",
        "\nb2b3\n",
        "to go on: gomoku-jax play --board 3x4x3 --black human --white human --moves b2b3",
    ):
        assert said in out
    # The command that is told goes on with the game.
    status, out, _ = play([*TWO, "--moves", "b2b3"], "moves\n")
    assert "move 3: black (human, X) to move, b3 was the last" in out and "\nb2b3\n" in out


def test_files_are_saved_and_replaced_only_after_a_yes(play, tmp_path):
    typed = (
        "b2\nsave\nsave g.sgf\nb3\nsave g.sgf\nno\nsave g.sgf\nyes\nsave g.doc\nsave no/g.sgf\nsave g.psq\n"
    )
    _, out, _ = play(TWO, typed)
    for said in ("save needs a file's name", "saved: g.sgf", "g.sgf is there", "not saved\n", "'g.doc'"):
        assert said in out
    assert out.count("saved: g.sgf") == 2 and "not saved: [Errno 2]" in out
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["g.psq", "g.sgf"]
    for name in ("g.sgf", "g.psq"):
        assert read_game(open_bytes(name)).moves == (5, 9)
    status, out, _ = play(["--load", "g.sgf", "--white", "human", "--black", "human"], "c2\nmoves\n")
    assert status == 0 and "3x4, 3 in a row" in out and "\nb2b3c2\n" in out
    status, _, err = play([*TWO, "--save", "g.sgf"])
    assert status == 2 and "the file is there" in err


def test_resigning_and_ends(play, monkeypatch):
    _, out, _ = play([*TWO, "--save", "r.sgf"], "b2\nresign\nundo\nresign\nq\n")
    assert out.count("white (human) resigns: black (human) wins after 1 moves") == 2 and "you play on" in out
    assert read_game(open_bytes("r.sgf")).result == "B+R"
    lines = iter(["b2", "b3"])

    def interrupted(prompt):
        for line in lines:
            return line
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal_session, "read_line", interrupted)
    status, out, _ = play([*TWO, "--save", "i.sgf"])
    assert status == 130 and "interrupted" in out and "saved: i.sgf" in out and "--moves b2b3" in out
    assert read_game(open_bytes("i.sgf")).moves == (5, 9)


def test_a_person_against_an_agent(play, folder):
    arguments = ["--agent", str(folder), "--simulations", "16"]
    status, out, _ = play(arguments, "hint\n2,2\nundo\nredo\nundo\nundo\nmoves\n")
    assert status == 0 and f"agent {folder}: trained on 3x4" in out
    assert "after 16 simulations, best first" in out and "Q from black's view: +1 black wins" in out
    reply = next(line for line in out.split("\n") if line.startswith("white (agent") and "plays" in line)
    assert "16 simulations in" in reply and "for white, line" in reply
    answer = reply.split(" plays ")[1].split(":")[0]
    assert out.count("2 moves taken back") == 2 and "2 moves played again" in out
    assert "nothing of yours to take back" in out and "no moves yet" in out
    assert "to go on" not in out  # with a game that has not begun
    expected = Thinker(gj.load_agent(folder)).best_action(gj.replay_moves(GAME, "b2"), 16)
    assert answer == format_action(GAME, expected)


def test_players_are_watched(play, folder):
    status, out, _ = play(["--black", f"{folder}@0", "--white", "random", "--delay", "0", "--save", "w.sgf"])
    file = read_game(open_bytes("w.sgf"))
    assert status == 0 and file.game == GAME and file.result in ("B+", "W+", "0")
    assert out.count(" plays ") == len(file.moves) and (file.black, file.white) == (f"{folder}@0", "random")
    again = play(["--black", f"{folder}@0", "--white", "random", "--delay", "0"])[1]
    moves = [text.split("\nmoves: ")[1].split()[0] for text in (out, again)]
    assert moves[0] == moves[1]  # the same seed


def test_a_forfeit_ends_the_game(play, monkeypatch):
    class Crash:
        name = "crash"
        closed = False
        opener = None

        def new_game(self):
            pass

        def choose(self, record):
            raise ForfeitError("the engine is gone")

        def close(self):
            Crash.closed = True

    monkeypatch.setattr(terminal, "make_opponent", lambda *_: Crash())
    _, out, _ = play(
        ["--black", "human", "--white", "gomocup:x", "--board", "3x4x3", "--save", "f.sgf"], "b2\n"
    )
    assert "white (crash): the engine is gone" in out and "white (crash) forfeits: black (you) wins" in out
    assert read_game(open_bytes("f.sgf")).result == "B+F" and Crash.closed


# Openings.


def test_two_people_open_by_swap2(play):
    typed = (
        "a1\nd3\nz9\nb3\nundo\nadd\nc1\nb2\nadd\nblack\na3\nmoves\nsave game.sgf\nundo\nundo\nnew\nmoves\n"
    )
    status, out, _ = play([*TWO, "--opening-rule", "swap2"], typed)
    assert status == 0
    assert "swap2: the first player (human) places black, white and black; white moves next." in out
    assert "first player, white stone> d3" in out and "'z9'" in out
    assert "undo is for the game after the opening" in out
    assert "second player, white stone> c1" in out and "second player, black stone> b2" in out
    assert "choice = 'add': choose one of white, black" in out
    assert "move 6: white (human, O) to move, b2 was the last" in out  # the first has black after all
    assert "a1d3b3c1b2a3" in out
    assert "1 move taken back" in out and "nothing of yours to take back" in out  # not into the opening
    assert out.rstrip().endswith("no stones yet")  # begun again
    file = read_game(open_bytes("game.sgf"))
    assert file.comment == "The first 5 stones are an opening by swap2; human placed first."


def test_an_agent_opens_by_swap(play, folder):
    board = ["--board", "3x4x3", "--agent", str(folder), "--simulations", "8", "--opening-rule"]
    status, out, _ = play(["--black", "human", *board, "swap"], "a1\nd3\nb3\nquit\n")
    taken = re.search(r"the second player \(agent .*mine\) takes (black|white): it values", out)
    assert status == 0 and taken is not None
    if taken[1] == "white":  # and moves
        assert "white (agent" in out.split("takes white")[1] and "plays" in out
    status, out, _ = play(["--white", "human", *board, "swap", "--seed", "3"], "black\nquit\n")
    assert "the first player (agent" in out and ") places " in out and "black: human; white: agent" in out
    assert "--black human --white agent" in out  # to go on, with the colours as they are now


def test_the_pro_opening_is_told_and_gone_on_with(play, folder):
    argv = ["--black", "human", "--white", "human", "--board", "6x6x4", "--opening-rule", "pro"]
    _, out, _ = play(argv, "a1\nc3\na1\nd4\nf1\nquit\n")
    assert "the pro opening begins in the centre, at c3 or d3 or c4 or d4" in out
    assert "the pro opening has Black's second stone at least 3 points away from c3" in out
    assert "--opening-rule pro" in out.split("to go on: ")[1] and "--moves c3a1f1" in out


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--board", "2x2x2"], "height = 2"),
        (["--board", "15"], "ROWSxCOLUMNSxK"),
        (["--black", "nobody"], "'nobody': no such player"),
        (["--agent", "nobody"], "no agent at nobody"),
        (["--simulations", "-1"], "simulations = -1"),
        (["--seconds", "0"], "seconds = 0.0"),
        (["--delay", "-1"], "--delay -1.0: from 0"),
        (["--seed", "-1"], "--seed -1"),
        (["--load", "missing.sgf"], "missing.sgf: No such file"),
        (["--load", "bad.sgf"], "bad.sgf: line 1, column 17: 'zz' is not on the board"),
        (["--load", "good.sgf", "--board", "15x15x5"], "good.sgf is a game on 3x4"),
        (["--load", "good.sgf", "--moves", "a1"], "give one of them"),
        (["--moves", "c3c3", "--board", "3x4x3"], "--moves: line 1, column 3: move 2, 'c3': c3 is taken"),
        (["--load", "good.sgf", "--opening-rule", "pro"], "--opening-rule pro: for a new game, not with"),
        (["--moves", "a1", "--opening-rule", "swap"], "--opening-rule swap: for a new game, not"),
        (["--board", "3x4x3", "--opening-rule", "pro"], "opening = 'pro': for 4 or more in a row"),
        (["--save", "g.doc"], "its ending tells the format"),
        (["--save", "no/g.sgf"], "there is no folder no"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(arguments, told, play):
    save_file("bad.sgf", "(;GM[4]SZ[15];B[zz])")
    save_file("good.sgf", write_sgf(GAME, [0]))
    status, out, err = play(arguments)
    assert status == 2 and err.startswith("error: ") and told in err and not out


@pytest.mark.parametrize(
    "black, white, expected",
    [
        (None, None, ("human", "agent")),
        ("human", None, ("human", "agent")),
        (None, "human", ("agent", "human")),
        ("agent", None, ("agent", "human")),
        (None, "mcts:9", ("human", "mcts:9")),
        ("agent", "random", ("agent", "random")),
    ],
)
def test_who_plays_where_one_side_is_given(black, white, expected):
    found = terminal.sides(terminal.Arguments(black=black, white=white))
    assert (found[1], found[-1]) == expected


# The list of agents.


def test_agents_are_listed_and_shown(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder.parent.parent)
    table = agents.list_agents(folder.parent).split("\n")
    assert table[0].split("  ")[0] == "agent" and any(row.startswith("6x6x4 ") for row in table)
    row = next(row for row in table if row.startswith(str(folder)))
    assert row.split()[1:] == ["3x4x3", "freestyle", "7", "8", "mcts:50", "0.250"]
    assert agents.main([str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "| game.width | 4 |" in shown and "| info.evaluation.score | 0.25 |" in shown
    card = folder / "agents" / "best" / "CARD.md"
    card.write_text("# mine\n\n| mcts:9 | 0 | 1-0-0 | 0.5 |\n| mcts:1000 | 0 | 9-0-1 | 0.9 [0.8, 1.0] |\n")
    assert agents.main([str(folder)]) == 0 and capsys.readouterr().out == card.read_text()
    assert "mcts:1000 0.9 [0.8, 1.0]" in agents.list_agents(folder.parent)
    card.unlink()
    assert agents.main(["nobody"]) == 2
    assert "no agent at nobody" in capsys.readouterr().err
