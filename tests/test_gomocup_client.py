"""Engines outside as players: ones that behave, and ones that crash, hang, flood, cheat and dawdle."""

import json
import shlex
import sys
import threading
import time

import pytest
from test_scripts import status_and_error

import gomoku_jax as gj
from gomoku_jax.agent import AgentError
from gomoku_jax.game import replay_moves
from gomoku_jax.play.gomocup import client
from gomoku_jax.play.gomocup.client import EnginePlayer
from gomoku_jax.play.match import play_host_match
from gomoku_jax.play.opponents import ForfeitError, FunctionPlayer, Limit, make_opponent
from gomoku_jax.play.record import GameRecord

GAME = gj.Gomoku(5, 7, 5)

# An engine that plays the first free point, rows from the top, and writes down what it is told.
HONEST = """
import sys
size, taken = None, set()
log = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
def answer(text): print(text, flush=True)
def point(text):
    x, y = text.split(",")[:2]
    taken.add((int(x), int(y)))
def move():
    x, y = next((x, y) for y in range(size[1]) for x in range(size[0]) if (x, y) not in taken)
    taken.add((x, y))
    answer("MESSAGE thinking\\nDEBUG about it\\n")
    answer(f"{x},{y}")
while line := sys.stdin.readline():
    line = line.strip()
    if log: print(line, file=log, flush=True)
    word, _, rest = line.partition(" ")
    if word == "START": size, taken = (int(rest), int(rest)), set(); answer("OK")
    elif word == "RECTSTART": size, taken = tuple(map(int, rest.split(","))), set(); answer("OK - good")
    elif word == "RESTART": taken = set(); answer("OK")
    elif word == "BEGIN": move()
    elif word == "TURN": point(rest); move()
    elif word == "BOARD":
        taken = set()
        while (line := sys.stdin.readline().strip()) != "DONE":
            if log: print(line, file=log, flush=True)
            point(line)
        move()
    elif word == "END": break
"""

BAD = {
    "crash": ("print('OK', flush=True)\nsys.stderr.write('segmentation fault\\n'); sys.exit(3)", "status 3"),
    "hang": ("print('OK', flush=True)\nwhile True: time.sleep(1)", "out of time"),
    "deaf": ("time.sleep(1000)", "out of time"),
    "flood": (
        "print('OK', flush=True)\nwhile True: print('MESSAGE more', flush=False)",
        ("out of time", "without end"),
    ),
    "stderr": ("print('OK', flush=True)\nwhile True: sys.stderr.write('x' * 1000 + '\\n')", "out of time"),
    "one line": (
        "print('OK', flush=True)\nwhile True: sys.stdout.write('x' * 1000)",
        ("where a move", "without end"),
    ),
    "junk": ("print('OK', flush=True)\nwhile sys.stdin.readline(): print('h8', flush=True)", "where a move"),
    "bytes": (
        "print('OK', flush=True)\nsys.stdout.buffer.write(b'\\xff\\0\\n'); sys.stdout.flush()\ntime.sleep(9)",
        "where a move",
    ),
    "outside": ("print('OK', flush=True)\nprint('7,0', flush=True)\ntime.sleep(9)", "not on the board"),
    "taken": ("print('OK', flush=True)\nprint('0,4', flush=True)\ntime.sleep(9)", "illegal move a1"),
    "refuses": ("print('ERROR too small', flush=True)\ntime.sleep(9)", "too small"),
    "unknown": ("print('OK', flush=True)\nprint('UNKNOWN command', flush=True)\ntime.sleep(9)", "UNKNOWN"),
    "silent": ("sys.exit(0)", "status 0"),
}


def engine(folder, source: str, *arguments: str) -> str:
    """The command line of an engine written in Python."""
    file = folder / "engine.py"
    file.write_text("import sys, time\n" + source)
    return shlex.join([sys.executable, "-S", str(file), *arguments])


@pytest.fixture
def quick(monkeypatch):
    """A START that is not answered is given up soon."""
    monkeypatch.setattr(client, "START_SECONDS", 1.0)


@pytest.mark.parametrize("pipes", ["", ", stdin=-3, stdout=-3"], ids=["all pipes", "stderr"])
def test_a_child_that_outlives_its_engine_holds_nobody_up(pipes, tmp_path):
    child = f"subprocess.Popen(['sleep', '50'], start_new_session=True{pipes})"
    source = f"import subprocess\nprint('OK', flush=True)\n{child}\ntime.sleep(50)"
    player = EnginePlayer(engine(tmp_path, source), GAME, seconds=0.3, grace=0.2)
    started = time.monotonic()
    with pytest.raises(ForfeitError, match="out of time"):
        player.choose(GameRecord(GAME, ["a1"]))
    player.close()
    assert time.monotonic() - started < 30, "it waited for the child"


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_engine_forfeits(kind, tmp_path, quick):
    source, reasons = BAD[kind]
    threads = threading.active_count()
    if kind in ("hang", "stderr", "flood", "deaf"):  # the limit is what they run into
        player = EnginePlayer(engine(tmp_path, source), GAME, seconds=0.2, grace=0.2)
    else:
        player = EnginePlayer(engine(tmp_path, source), GAME, seconds=20.0)
    record = GameRecord(GAME, ["a1"])
    player.new_game()
    started = time.monotonic()
    with pytest.raises(ForfeitError) as error:
        player.choose(record)
    assert time.monotonic() - started < 20
    reasons = (reasons,) if isinstance(reasons, str) else reasons
    assert any(reason in str(error.value) for reason in reasons), error.value
    if kind == "crash":
        assert "segmentation fault" in str(error.value)
    assert player._process is None  # killed and reaped
    player.close()
    assert threading.active_count() <= threads


def test_an_engine_that_is_late_forfeits_that_game_only(tmp_path):
    source = HONEST.replace(
        '    taken.add((x, y))\n    answer("M',
        '    time.sleep(len(taken))\n    taken.add((x, y))\n    answer("M',
    )
    player = EnginePlayer(engine(tmp_path, source), GAME, seconds=0.5, grace=0.3)
    other = FunctionPlayer(gj.random_player(GAME), "random")
    result = play_host_match(player, other, GAME, 2)
    player.close()
    assert [forfeit.reason.endswith("out of time") for forfeit in result.forfeits] == [True, True]
    assert result.losses == 2 and result.games[0][0] == 28  # its first move, a5, was in time


def test_the_engine_is_told_the_game(tmp_path):
    log = tmp_path / "log"
    player = EnginePlayer(engine(tmp_path, HONEST, str(log)), GAME, seconds=20)
    record = GameRecord(GAME)
    player.new_game()
    assert record.play(player.choose(record)) == 28  # 0,0 is the upper left corner, a5
    record.play("b2")
    record.play(player.choose(record))
    record.undo(2)
    record.play("c1")
    record.play(player.choose(record))  # not where it had been: BOARD
    player.new_game()
    record = GameRecord(GAME, ["g1"])
    player.choose(record)
    player.new_game()
    player.choose(GameRecord(GAME, ["g1", "g2"]))
    player.close()
    lines = [line for line in log.read_text().splitlines() if not line.startswith("INFO")]
    assert lines == [
        "RECTSTART 7,5", "BEGIN", "TURN 1,3", "BOARD", "0,0,1", "2,4,2",
        "RESTART", "TURN 6,4",
        "RESTART", "BOARD", "6,4,1", "6,3,2", "END",
    ]  # fmt: skip
    told = log.read_text()
    assert "INFO timeout_turn 20000\n" in told and "INFO rule 0\n" in told


def test_a_process_that_ends_after_a_game_is_replaced(tmp_path):
    source = HONEST.replace(
        'elif word == "RESTART"', 'elif word == "RESTART": sys.exit(0)\n    elif word == "NEVER"'
    )
    player = EnginePlayer(engine(tmp_path, source), GAME, seconds=20)
    for _ in range(2):
        player.new_game()
        assert player.choose(GameRecord(GAME)) == 28
    player.close()


def test_paths_and_boards_are_checked_at_once(tmp_path):
    file = tmp_path / "not_executable"
    file.write_text("x")
    for path in (str(file), str(tmp_path / "none"), "", "'"):
        with pytest.raises(AgentError):
            EnginePlayer(path, GAME)
    for game in (gj.Gomoku(6, 6, 4), gj.Gomoku(9, 9, 6)):
        with pytest.raises(ValueError, match="five"):
            make_opponent(f"gomocup:{sys.executable}", game, Limit())
    with pytest.raises(ValueError, match="seconds"):
        EnginePlayer(sys.executable, GAME, seconds=0)
    spaces = tmp_path / "a folder" / "engine"
    spaces.parent.mkdir()
    spaces.write_text("#!/bin/sh\n")
    spaces.chmod(0o755)
    assert client.find_engine(str(spaces)) == [str(spaces)]


def test_matches_swap_colours_and_count(tmp_path):
    player = make_opponent("gomocup:" + engine(tmp_path, HONEST), GAME, Limit(seconds=20))
    other = FunctionPlayer(gj.random_player(GAME), "random", seed=1)
    told = []
    result = play_host_match(
        player, other, GAME, 5, seed=3, opening_stones=2, on_game=lambda *facts: told.append(facts)
    )
    player.close()
    assert result.wins + result.draws + result.losses == result.num_games == 5 == len(told)
    assert not result.forfeits
    assert result.a_is_black == [True, False, True, False, True]
    assert sum(result.as_black) == 3 and sum(result.as_white) == 2
    assert result.games[0][:2] == result.games[1][:2] and result.games[2][:2] == result.games[3][:2]
    for moves, winner in zip(result.games, result.winners, strict=True):
        state = replay_moves(GAME, moves)
        assert bool(state.terminated) and int(state.winner) == winner
    for black, winner, (number, record, forfeit) in zip(result.a_is_black, result.winners, told, strict=True):
        assert record.moves == result.games[number] and forfeit is None
        assert black in (True, False) and winner == record.winner
    # The arena's openings, from the same seed.
    arena = gj.play_match(gj.random_player(GAME), gj.random_player(GAME), GAME, 5, seed=3, opening_stones=2)
    assert [moves[:2] for moves in arena.games] == [moves[:2] for moves in result.games]


@pytest.mark.parametrize("arguments", [{"num_games": 0}, {"opening_stones": 35}, {"opening_stones": -1}])
def test_matches_that_cannot_be(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        play_host_match(None, None, GAME, **arguments)  # pyright: ignore[reportArgumentType]


def test_evaluate_plays_engines_and_reports_forfeits(tmp_path, capsys):
    rows, games = tmp_path / "rows.jsonl", tmp_path / "games"
    spec = "gomocup:" + engine(tmp_path, "print('OK', flush=True)\nsys.exit(9)")
    argv = [
        "random",
        spec,
        "--board",
        "5x7x5",
        "--games",
        "2",
        "--seconds",
        "5",
        "--json",
        str(rows),
        "--sgf",
        str(games),
    ]
    code, out = status_and_error(capsys, "evaluate", argv)
    assert code == 0 and "forfeits" in out and "status 9" in out and "2 wins" in out
    row = json.loads(rows.read_text())
    assert row["wins"] == 2 and len(row["forfeits"]) == 2 and row["seconds_per_move"] == 5
    assert "RE[B+F]" in (games / "game_0000.sgf").read_text()
    for argv, word in (
        (["random", "gomocup:/no/such/engine"], "/no/such/engine"),
        (["random", "tactical", "--seconds", "1"], "--seconds"),
        (["random", spec, "--board", "6x6x4"], "five"),
    ):
        code, text = status_and_error(capsys, "evaluate", argv)
        assert code == 2 and word in text and "Traceback" not in text
