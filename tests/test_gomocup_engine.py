"""The Gomocup engine as managers meet it: line by line in this process, and as a process of its own."""

import os
import random
import re
import shlex
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np
import pytest
from pygomo import BoardPosition, EngineClient, Move

import gomoku_jax as gj
from gomoku_jax.agent import save_agent
from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig
from gomoku_jax.game.notation import split_moves
from gomoku_jax.play.gomocup import command
from gomoku_jax.play.gomocup.brain import Brain, Event
from gomoku_jax.play.gomocup.engine import Engine
from gomoku_jax.play.record import GameRecord

MOVE = re.compile(r"\d+,\d+")


class AbsentBrain:
    """Never ready: the engine is on its own."""

    def __init__(self, tell, agent):
        self.tell, self.jobs, self.setups = tell, [], []

    def is_ready(self, setup):
        return False

    def prepare(self, setup):
        self.setups.append(setup)

    def think(self, job):
        self.jobs.append(job)

    def cancel(self, number):
        pass

    def close(self):
        pass


class Table:
    """A manager in this process."""

    def __init__(self, make_brain: Any = AbsentBrain, agent=None, simulations=None):
        self.lines: list[str] = []
        self.engine = Engine(self.lines.append, agent, simulations, "1.0", make_brain)

    def say(self, line: str) -> bool:
        """Sends a line; the engine handles it, and may go on thinking."""
        self.engine.events.put(("line", line, time.monotonic()))
        goes_on = True
        while goes_on and not self.engine.events.empty():
            goes_on = self.engine.step()
        return goes_on

    def ask(self, *lines: str, messages: bool = False) -> list[str]:
        """Sends lines; all that is answered until nothing is thought about any more."""
        del self.lines[:]
        for line in lines:
            assert self.say(line)
        while self.engine.pending is not None:
            self.engine.step()
        return [line for line in self.lines if messages or not line.startswith("MESSAGE")]


@pytest.fixture
def table():
    table = Table()
    assert table.ask("START 15", "INFO timeout_turn 60") == ["OK"]
    return table


def test_start_begin_turn(table):
    assert table.ask("BEGIN") == ["7,7"]
    (move,) = table.ask("TURN 8,8")
    assert MOVE.fullmatch(move)
    assert table.ask("BEGIN")[0].startswith("ERROR")
    assert table.ask("RESTART") == ["OK"]
    (move,) = table.ask("turn 7,7")
    assert MOVE.fullmatch(move) and move != "7,7"


def test_sizes():
    table = Table()
    table.ask("INFO timeout_turn 60")
    for size in (5, 20, 26):
        assert table.ask(f"START {size}") == ["OK"]
    for size in ("4", "27", "0", "-1", "x", "", "5.5", "1e1", "15 15"):
        (answer,) = table.ask(f"START {size}")
        assert answer.startswith("ERROR")
    assert table.ask("TURN 1,1")[0].startswith("ERROR")  # a refused START leaves no board
    assert table.ask("RECTSTART 4,4")[0].startswith("ERROR")
    assert table.ask("RECTSTART 20,5") == ["OK"]
    assert table.ask("TURN 5,15")[0].startswith("ERROR")
    assert MOVE.fullmatch(table.ask("TURN 15,3")[0])


def test_the_board_comes_in_any_order_and_the_counts_say_who_is_to_move(table):
    # Black, ours, has four in a row; y counts from the top: row 3 from the top is row 12.
    assert table.ask(
        "BOARD", "5,3,1", "4,3,1", "9,9,2", "8,8,2", "7,3,1", "2,9,2", "6,3,1", "0,0,2", "DONE"
    ) in (
        ["3,3"],
        ["8,3"],
    )
    assert table.engine.board is not None and table.engine.board.winner == 1
    assert table.ask("TURN 12,12") == ["ERROR the game is over"]
    # White, ours, has to block: black has one stone more.
    assert table.ask(
        "BOARD", "4,3,2", "3,3,1", "5,3,2", "9,9,1", "7,3,2", "0,0,1", "6,3,2", "14,0,1", "1,5,2", "DONE"
    ) == ["8,3"]
    board = table.engine.board
    assert board.cells[board.cell(11 * 15 + 8)] == -1
    # The opponent's last line is the last move.
    table.ask("YXBOARD", "1,1,2", "2,2,1", "3,3,2", "4,4,1", "DONE")
    assert table.engine.board.action(table.engine.board.moves[-1][0]) == 11 * 15 + 3
    assert not table.lines


@pytest.mark.parametrize(
    "lines",
    [
        ["1,1,1"],
        ["1,1,1", "2,2,1", "3,3,2"],
        ["1,1,2", "2,2,2"],
        ["1,1,2", "1,1,1"],
        ["15,1,2"],
        ["1,-1,2"],
        ["1,1,7"],
        ["1,1"],
        ["1;1;2"],
        ["junk"],
    ],
)
def test_boards_that_cannot_be_leave_the_position_as_it_was(table, lines):
    table.ask("BEGIN")
    (answer,) = table.ask("BOARD", *lines, "DONE")
    assert answer.startswith("ERROR")
    assert len(table.engine.board.moves) == 1
    assert MOVE.fullmatch(table.ask("TURN 1,1")[0])


def test_a_board_without_done_is_given_up(table):
    assert [line[:5] for line in table.ask("BOARD", "1,1,2", "START 15")] == ["ERROR", "OK"]
    assert table.ask("BEGIN") == ["7,7"]


def test_field_3_is_of_rules_that_are_not_played(table):
    (answer,) = table.ask("BOARD", "1,1,2", "2,2,1", "7,7,3", "8,8,2", "DONE")
    assert answer.startswith("ERROR '7,7,3': the field is 1 (own) or 2 (opponent)")


def test_field_3_under_renju_marks_a_forbidden_point(table):
    """It is no stone; what is forbidden follows from the stones."""
    table.ask("INFO rule 4", "INFO timeout_turn 0", "START 15")
    stones = [
        "7,7,1",
        "7,6,2",
        "8,8,1",
        "6,8,2",
        "7,5,1",
        "8,9,2",
        "8,4,1",
        "11,3,2",
    ]  # as on renju's g9 below
    (answer,) = table.ask("BOARD", *stones, "6,6,3", "DONE")
    assert MOVE.fullmatch(answer) and len(table.engine.board.moves) == 9


@pytest.mark.parametrize(("code", "rule"), [(4, "renju"), (8, "caro_overline"), (9, "caro")])
def test_the_rules_of_other_tournaments(table, code, rule):
    assert table.ask(f"INFO rule {code}", "INFO timeout_turn 0", "START 15") == ["OK"]
    assert table.engine.board.rule == rule
    # Black's five from e8 to i8 would stand between White's stones on d8 and j8; y counts from the top.
    stones = ["4,7,1", "3,7,2", "5,7,1", "9,7,2", "6,7,1", "0,14,2", "7,7,1", "2,13,2"]
    (answer,) = table.ask("BOARD", *stones, "DONE")
    assert (answer == "8,7") == (rule == "renju")


def test_about_is_answered_in_mid_thought(table):
    table.say("INFO timeout_turn 60000")
    table.say("BEGIN")
    assert table.engine.pending is not None
    table.say("ABOUT")
    assert table.lines[-1].startswith('name="') and table.engine.pending is not None
    table.say("STOP")
    assert table.lines[-1] == "7,7"


def test_one_stall_is_forgotten(table):
    table.say("INFO timeout_turn 60000")
    table.say("BEGIN")
    table.engine.pending.deadline -= 3600  # as after the machine's sleep
    table.engine.step()
    assert table.lines[-1] == "7,7" and table.engine._lateness <= 0.25
    for _ in range(20):
        table.say("RESTART")
        table.say("BEGIN")
        table.say("STOP")
    assert table.engine._lateness < 0.01


def test_take_back_and_play(table):
    assert table.ask("PLAY 7,7") == ["7,7"]
    assert table.ask("PLAY 7,7")[0].startswith("ERROR")
    (move,) = table.ask("TURN 8,8")
    assert table.ask("TAKEBACK 8,8")[0].startswith("ERROR")  # not of the side that moved last
    assert table.ask("TAKEBACK 14,14")[0].startswith("ERROR")
    assert table.ask(f"TAKEBACK {move}") == ["OK"]
    assert table.ask("TAKEBACK 8,8") == ["OK"]
    assert table.ask("TURN 8,8") == [move]


def test_a_win_can_be_taken_back(table):
    table.ask("YXBOARD", *(f"{x},3,1" for x in range(4)), *(f"{x},5,2" for x in range(3)), "9,9,2", "DONE")
    assert table.ask("PLAY 4,3") == ["4,3"]
    assert table.ask("TURN 9,3") == ["ERROR the game is over"]
    assert table.ask("TAKEBACK 4,3") == ["OK"]
    assert table.ask("PLAY 9,3") == ["9,3"]


def test_the_last_point_and_the_full_board():
    table = Table()
    # A 5x3 board with one empty point and no five.
    stones = [f"{i % 5},{i // 5},{1 + i % 2}" for i in range(14)]
    assert table.ask("RECTSTART 5,3", "BOARD", *stones, "DONE") == ["OK", "4,2"]
    assert table.ask("BEGIN")[0].startswith("ERROR")
    assert table.ask("TURN 0,0") == ["ERROR the game is over"]
    assert table.ask("TAKEBACK 4,2") == ["OK"]
    # One stone more of the opponent, so that its stone fills the board.
    assert table.ask("TURN 4,2") == ["ERROR the board is full"]


@pytest.mark.parametrize("code", [2, 3, 5, 12, 16, -1])
def test_other_rules_are_refused(table, code):
    table.say(f"INFO rule {code}")
    assert not table.lines[1:]
    assert table.ask("BEGIN")[0].startswith(f"ERROR rule {code}")
    assert table.ask("TURN 7,7")[0].startswith("ERROR rule")
    assert table.ask("BOARD", "DONE")[0].startswith("ERROR rule")
    assert table.ask("SWAP2BOARD", "DONE")[0].startswith("ERROR rule")
    assert table.ask("START 15")[0].startswith("ERROR rule")
    assert table.ask("INFO rule 1", "START 15") == ["OK"]
    assert table.engine.board.rule == "exact"


@pytest.mark.parametrize(
    "line", ["INFO", "INFO x", "INFO rule", "INFO rule x", "INFO timeout_turn 1e9", "INFO folder /x y"]
)
def test_info_is_never_answered(table, line):
    assert table.ask(line) == []
    assert table.ask("BEGIN") == ["7,7"]


def test_blank_lines_case_spaces_and_unknown_commands(table):
    assert table.ask("", "   ", "\t") == []
    assert table.ask("  about  ")[0].startswith('name="gomoku_jax", version="1.0"')
    assert table.ask("FOO 1 2")[0].startswith("UNKNOWN")
    assert table.ask("7,7")[0].startswith("UNKNOWN")
    assert table.ask("STOP") == []
    assert not table.say("End")


def test_swap2_without_a_search(table):
    (answer,) = table.ask("SWAP2BOARD", "DONE")
    stones = answer.split(" ")
    assert len(set(stones)) == 3 and all(MOVE.fullmatch(stone) for stone in stones)
    (answer,) = table.ask("SWAP2BOARD", *stones, "DONE")
    assert answer == "SWAP"
    assert table.ask("SWAP2BOARD", *stones, "7,7", "DONE")[0].startswith("ERROR")
    assert table.ask("SWAP2BOARD", *stones, "7,7", "8,8", "DONE") == ["SWAP"]
    assert table.ask("SWAP2BOARD", "7,7", "7,7", "8,8", "DONE")[0].startswith("ERROR")
    for size in (5, 20):
        assert len(set(table.ask(f"START {size}", "SWAP2BOARD", "DONE")[1].split(" "))) == 3


def test_a_time_left_that_is_over_is_answered_at_once(table):
    table.ask("INFO timeout_turn 600000", "INFO timeout_match 1000", "INFO time_left -5")
    table.say("TURN 7,7")
    assert table.engine.pending is None and MOVE.fullmatch(table.lines[-1])


def test_stop_answers_and_lines_wait_for_the_answer(table):
    table.ask("INFO timeout_turn 600000")
    del table.lines[:]
    table.say("TURN 7,7")
    assert table.engine.pending is not None
    table.say("INFO timeout_turn 50")
    table.say("TURN 0,0")
    table.say("YXSTOP")
    while table.engine.pending is not None:
        table.engine.step()
    assert len(table.lines) == 2 and all(MOVE.fullmatch(line) for line in table.lines)
    assert len(table.engine.board.moves) == 4
    table.ask("INFO timeout_turn 600000")
    table.say("TURN 14,14")
    assert not table.say("END")


def test_memory_sizes_the_tree(table):
    for megabytes, room in ((0, 8192), (83, 4096), (1, 64)):
        table.ask(f"INFO max_memory {megabytes * 1_000_000}")
        assert table.engine._brain.setups[-1].room == room
        assert MOVE.fullmatch(table.ask("RESTART", "BEGIN")[1])


def test_a_brain_that_fails_is_told_and_play_goes_on(table):
    table.ask("INFO timeout_turn 600000")
    del table.lines[:]
    table.say("TURN 7,7")
    table.engine._brain.tell(Event("failed", None, "no agent\nhere"))
    table.engine.step()
    assert table.lines[0] == "MESSAGE no agent here" and MOVE.fullmatch(table.lines[1])


def malformed(draw: random.Random) -> str:
    """A line that is no command, or one with parts that cannot be."""
    words = [
        "START",
        "TURN",
        "BOARD",
        "DONE",
        "INFO",
        "RECTSTART",
        "TAKEBACK",
        "PLAY",
        "SWAP2BOARD",
        "BEGIN",
        "ABOUT",
    ]
    parts = [
        "1,1",
        "99,99",
        "-1,2",
        "7",
        ",",
        "1,1,1,1",
        "x,y",
        "9" * 400,
        "\x00",
        "é",
        "OK",
        "1;2",
        "rule 4",
        "rule 0",
        "0x5",
    ]
    kind = draw.randrange(3)
    if kind == 0:
        return (
            "".join(chr(draw.randrange(1, 0x250)) for _ in range(draw.randrange(60)))
            .replace("\n", "")
            .replace("\r", "")
        )
    line = draw.choice(words) + " " + " ".join(draw.choice(parts) for _ in range(draw.randrange(4)))
    if kind == 1:
        position = draw.randrange(len(line))
        line = line[:position] + draw.choice("#,; -+.") + line[position + 1 :]
    return line


def test_a_thousand_malformed_lines_and_correct_play_after(table):
    draw = random.Random(7)
    table.ask("INFO timeout_turn 0")
    for _ in range(1000):
        line = malformed(draw)
        if line.strip().upper() != "END":
            table.ask(line)
    assert table.ask("INFO rule 0", "DONE", "START 15")[-1] == "OK"
    assert table.ask(
        "BOARD", *(f"{3 + i},3,1" for i in range(4)), *(f"{3 + 2 * i},9,2" for i in range(4)), "DONE"
    ) in (
        ["2,3"],
        ["7,3"],
    )
    record = GameRecord(gj.Gomoku(15, 15, 5))
    assert table.ask("RESTART") == ["OK"]
    draw = random.Random(1)
    while not record.over:
        action = record.play(draw.choice(record.legal_actions))
        if record.over:
            break
        (move,) = table.ask(f"TURN {action % 15},{14 - action // 15}")
        x, y = map(int, move.split(","))
        record.play((14 - y) * 15 + x)
    assert record.winner == -1  # against random moves


# With an agent.


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """An untrained agent."""
    folder = tmp_path_factory.mktemp("agent")
    game, network = GameConfig(6, 6, 4), NetworkConfig(channels=8, num_blocks=1, value_hidden=8)
    params = gj.init_network(network, gj.Gomoku.from_config(game), jax.random.key(0))
    save_agent(folder, game, network, SearchConfig(num_simulations=8), params)
    return str(folder)


@pytest.fixture(scope="module")
def thinking(agent):
    """A table with a brain that is ready."""
    table = Table(Brain, agent, simulations=64)
    assert table.ask("START 7", "INFO timeout_turn 60000") == ["OK"]
    assert table.engine.board is not None
    while not table.engine._brain.is_ready(table.engine._setup(table.engine.board)):
        time.sleep(0.05)
    return table


def test_thinks_and_tells(thinking):
    lines = thinking.ask("RESTART", "TURN 3,3", messages=True)
    found = re.fullmatch(
        r"MESSAGE depth (\d+)-\d+ ev (-?\d+) n 64 n/ms \d+ tm \d+ pv ((?:[a-g][1-7] ?)+)", lines[-2]
    )
    assert found is not None and len(found[3].split()) == int(found[1])
    x, y = map(int, lines[-1].split(","))
    assert found[3].split()[0] == f"{'abcdefg'[x]}{7 - y}"  # the line begins with the move, rows from below


def test_search_stops_for_stop_and_the_answer_is_legal(thinking):
    thinking.ask("RESTART")
    thinking.say("TURN 3,3")
    thinking.say("STOP")
    while thinking.engine.pending is not None:
        thinking.engine.step()
    assert MOVE.fullmatch(thinking.lines[-1]) and thinking.lines[-1] != "3,3"


def test_exact_tactics_bind_the_search(thinking):
    """An untrained network stops an open three, and plays wins and blocks at once."""
    for _ in range(3):
        board = ["BOARD", "2,3,2", "3,3,2", "4,3,2", "0,0,1", "3,6,1", "DONE"]
        assert thinking.ask(*board)[0] in ("1,3", "5,3")
    assert thinking.ask(
        "BOARD", *(f"{x},3,1" for x in (1, 2, 3, 4)), *(f"{x},5,2" for x in (0, 2, 3, 6)), "DONE"
    ) in (
        ["0,3"],
        ["5,3"],
    )


def test_swap2_with_a_search(thinking):
    (answer,) = thinking.ask("SWAP2BOARD", "DONE")
    stones = answer.split(" ")
    assert len(set(stones)) == 3
    (answer,) = thinking.ask("SWAP2BOARD", *stones, "DONE")
    assert answer == "SWAP" or all(MOVE.fullmatch(part) for part in answer.split(" "))
    (answer,) = thinking.ask("SWAP2BOARD", "0,0", "6,0", "0,6", "6,6", "3,3", "DONE")
    assert answer == "SWAP" or MOVE.fullmatch(answer)


def test_the_position_searched_is_the_one_told(thinking):
    """Planes, colours and the last move, as the rules make them from moves."""
    from gomoku_jax.play.gomocup.brain import Position, _state

    record = GameRecord(gj.Gomoku(7, 7, 5), split_moves("d4e5c3a1g7"))
    thinking.ask("RESTART")
    for action in record.moves[:-1]:
        thinking.ask(f"PLAY {action % 7},{6 - action // 7}")
    board = thinking.engine.board
    board.play(board.cell(record.moves[-1]))
    state = _state(thinking.engine._setup(board), Position.of(board))
    game = record.game
    np.testing.assert_array_equal(game.observe(state), game.observe(record.state))
    assert int(state.to_play) == record.to_play and int(state.move_count) == 5


# As a process.

WITHOUT_JAX = (
    "import sys; sys.modules['jax'] = None; sys.modules['numpy'] = None; "
    "from gomoku_jax.play.cli import main; sys.exit(main(['gomocup']))"
)


def start(code: str | None = None, *options: str, **keywords) -> subprocess.Popen:
    argv = (
        [sys.executable, "-c", code]
        if code
        else [sys.executable, "-m", "gomoku_jax.play.cli", "gomocup", *options]
    )
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1, **keywords)


def test_answers_without_jax_and_numpy():
    """Importing them fails: ABOUT, START and a first move come all the same."""
    with start(WITHOUT_JAX) as process:
        out, _ = process.communicate(
            "ABOUT\r\nSTART 15\r\n\r\nINFO timeout_turn 0\r\nTURN 7,7\r\n", timeout=60
        )
        assert process.returncode == 0
    lines = out.splitlines()
    assert lines[0].startswith("name=") and lines[1] == "OK"


def test_moves_without_jax():
    with start(WITHOUT_JAX) as process:
        assert process.stdin is not None and process.stdout is not None
        print("START 15\r\nINFO timeout_turn 0\r\nTURN 7,7\r", file=process.stdin)
        answers = [process.stdout.readline().strip() for _ in range(2)]
        while answers[-1].startswith("MESSAGE"):
            answers.append(process.stdout.readline().strip())
        assert answers[0] == "OK" and MOVE.fullmatch(answers[-1])
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize("how", ["END", "closed"])
def test_ends_in_the_middle_of_thinking(how, agent):
    with start(None, "--agent", agent) as process:
        assert process.stdin is not None and process.stdout is not None
        print("START 15\nINFO timeout_turn 600000\nTURN 7,7", file=process.stdin)
        assert process.stdout.readline() == "OK\n"
        if how == "END":
            print("END", file=process.stdin)
        else:
            process.stdin.close()
        assert process.wait(30) == 0


def test_options_are_checked(capsys):
    for argv, word in (
        (["--agent", "nobody"], "nobody"),
        (["--simulations", "0"], "32768"),
        (["--platform", "abacus"], "abacus"),
    ):
        assert command.main(argv) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and word in error


def test_pygomo_plays_a_game(agent, tmp_path):
    """An independent client of the protocol."""
    script = tmp_path / "engine"
    argv = [sys.executable, "-m", "gomoku_jax.play.cli", "gomocup", "--agent", agent, "--simulations", "16"]
    environment = f"JAX_COMPILATION_CACHE_DIR={shlex.quote(os.environ['JAX_COMPILATION_CACHE_DIR'])}"
    script.write_text(f"#!/bin/sh\nexec env {environment} {shlex.join(argv)}\n")
    script.chmod(0o755)
    told = []
    with EngineClient(str(script)) as engine:
        process = engine._transport._process  # pyright: ignore[reportOptionalMemberAccess]
        assert "gomoku_jax" in (engine.about() or "")
        assert engine.start(7)
        engine.configure(timeout_turn=60_000, rule=0)
        record = GameRecord(gj.Gomoku(7, 7, 5))

        def play(result):
            assert result is not None
            record.play(result.move.row * 7 + result.move.col)
            told.extend(result.all_info)

        play(engine.begin(timeout=60))
        for _ in range(4):
            action = record.play(record.legal_actions[0])
            play(engine.turn((action % 7, action // 7), timeout=60))
            if record.over:
                break
        position = BoardPosition()
        position.add_move(Move("d4"), BoardPosition.OPPONENT)
        result = engine.board(position, timeout=60)
        assert result is not None and (result.move.col, result.move.row) != (3, 3)
        assert engine.takeback(result.move)
    assert process is not None
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()  # which the client leaves open
    assert any(info.nodes == 16 and info.pv for info in told)
