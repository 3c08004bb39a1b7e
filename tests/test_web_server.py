"""The web board's server, talked to over real sockets by another library's client."""

import asyncio
import contextlib
import gc
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import oracle
import pytest
import uvicorn
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import gomoku_jax as gj
from gomoku_jax.agent import AGENT_FOLDER, save_agent
from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig
from gomoku_jax.openings import DECISIVE
from gomoku_jax.play.choose import Choice
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.thinking import Thinker
from gomoku_jax.play.web import command
from gomoku_jax.play.web.guard import Guard
from gomoku_jax.play.web.messages import MAX_FRAME, MessageError, decode
from gomoku_jax.play.web.server import Settings, create_app

GAME = gj.Gomoku(3, 4, 3)
BOARD = {"height": 3, "width": 4, "k": 3, "rule": "freestyle"}
PRO = {"height": 6, "width": 6, "k": 4, "rule": "freestyle", "opening": "pro"}
WON = [0, 4, 1, 5, 2]  # black has the bottom row's first three points
MAX_SIMULATIONS = 2048
HANG = 120  # seconds after which a test is stuck


@pytest.fixture(scope="module")
def agent() -> gj.Agent:
    network = NetworkConfig(channels=8, num_blocks=1, value_hidden=8)
    params = gj.init_network(network, GAME, jax.random.key(0))
    return gj.Agent(GAME, network, params, SearchConfig("gumbel", 8), {})


@pytest.fixture(scope="module")
def server(agent, tmp_path_factory):
    """A server on a free port, with an agent "tiny" and a run whose conv network plays 5x5 only."""
    runs = tmp_path_factory.mktemp("runs")
    conv, board = NetworkConfig("conv", conv_channels=(4, 4, 4), value_hidden=8), GameConfig(5, 5, 4)
    shapes = jax.eval_shape(lambda: gj.init_network(conv, gj.Gomoku.from_config(board), jax.random.key(0)))
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    save_agent(runs / "conv" / AGENT_FOLDER / "best", board, conv, SearchConfig("gumbel", 8), params)
    settings = Settings(max_simulations=MAX_SIMULATIONS, max_clients=60, runs=runs)
    app = create_app(Choice(agent, GAME, "tiny", "because it is small"), settings)
    with serving(app) as port:
        yield Server(app, port, str(runs / "conv"))


@contextlib.contextmanager
def serving(app):
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(command.make_config(app, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(HANG)
        listening.close()
        assert not thread.is_alive() and not app.state.workers.busy(HANG)


class Server:
    def __init__(self, app, port, conv):
        self.app, self.port, self.conv = app, port, conv
        self.searches, self.connections = app.state.searches, app.state.connections
        self.url = f"ws://127.0.0.1:{port}/ws"


class Tab:
    """A client that asks one thing after the other."""

    def __init__(self, server):
        self._stack = contextlib.ExitStack()
        self.socket = self._stack.enter_context(connect(server.url, open_timeout=HANG))
        self.welcome = self.read()
        self._id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def read(self):
        return json.loads(self.socket.recv(timeout=HANG))

    def send(self, type, **fields):
        self._id += 1
        self.socket.send(json.dumps({"type": type, "id": self._id} | fields))
        return self._id

    def ask(self, type, **fields):
        """A request with one answer."""
        id = self.send(type, **fields)
        answer = self.read()
        assert answer["id"] == id, answer
        return answer

    def search(self, moves=(), simulations=None, seconds=None, agent="tiny", game=BOARD):
        limits = {"simulations": simulations, "seconds": seconds}
        return self.send("search", agent=agent, game=game, moves=list(moves), **limits)

    def frames(self, id):
        """The frames of a search up to its last, or its error."""
        found = []
        while not found or not (found[-1].get("done") or found[-1]["type"] == "error"):
            frame = self.read()
            assert frame["id"] == id, frame
            found.append(frame)
        return found


def wait_for(condition):
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, "this never happens"
        time.sleep(0.01)


@pytest.fixture
def tab(server):
    with Tab(server) as tab:
        yield tab


def nothing_is_left(server):
    """No connection, no search, no tree."""
    return not server.connections and server.searches.running == 0 and len(server.searches.trees) == 0


# What each request is answered.


def test_welcome(server, tab):
    welcome = tab.welcome
    assert (welcome["type"], welcome["version"]) == ("welcome", gj.__version__)
    assert welcome["defaults"] == {"agent": "tiny", "game": BOARD, "simulations": 200}
    assert welcome["reason"] == "because it is small"
    assert welcome["limits"] == {
        "min_side": 3,
        "max_side": 26,
        "max_simulations": MAX_SIMULATIONS,
        "max_seconds": 60,
        "max_playouts": 1000,
        "max_moves": 676,
    }
    agents = {facts["name"]: facts for facts in welcome["agents"]}
    assert next(iter(agents)) == "tiny" and {"6x6x4", "tictactoe", server.conv} <= set(agents)
    assert agents["tiny"]["any_board"] and not agents[server.conv]["any_board"]
    assert agents[server.conv]["game"] == {"height": 5, "width": 5, "k": 4, "rule": "freestyle"}
    assert {facts["source"] for facts in agents.values()} == {"shipped", "run"}
    assert (
        agents["tictactoe"]["card"].startswith("#") and "trained on 3x3" in agents["tictactoe"]["description"]
    )


@pytest.mark.parametrize("rule", ["freestyle", "exact", "caro", "caro_overline"])
def test_positions_are_as_the_plain_rules_say(tab, rule):
    rng = random.Random(0)
    for _ in range(4):
        plain, order = oracle.Game(3, 4, 3, rule), rng.sample(range(12), 12)
        while True:
            answer = tab.ask("position", game=BOARD | {"rule": rule}, moves=plain.moves)
            assert (answer["winner"], answer["over"]) == (plain.winner, plain.terminated)
            assert answer["legal"] == [plain.is_legal(action) for action in range(12)]
            assert answer["to_play"] == (-1) ** len(plain.moves)
            assert answer["move_string"] == "".join(f"{'abcd'[a % 4]}{a // 4 + 1}" for a in plain.moves)
            assert answer["winning_points"] == np.flatnonzero(plain.line_mask()).tolist()
            if plain.terminated:
                break
            plain.play(order.pop())


def test_a_forbidden_point_is_not_legal(tab):
    """Three and two of Black's, which e1 would join to six."""
    renju = {"height": 5, "width": 7, "k": 5, "rule": "renju"}
    moves = [1, 14, 2, 16, 3, 18, 5, 20, 6, 28]
    answer = tab.ask("position", game=renju, moves=moves)
    assert [a for a in range(35) if not answer["legal"][a]] == sorted([*moves, 4])
    refused = tab.ask("position", game=renju, moves=[*moves, 4])
    assert refused["code"] == "illegal_move" and "e1 is forbidden, an overline" in refused["message"]


def test_winning_points_of_a_rectangle(tab):
    answer = tab.ask("position", game=BOARD, moves=WON)
    assert (answer["winning_points"], answer["winner"]) == ([0, 1, 2], 1)


def test_the_pro_opening_binds_the_first_and_the_third_stone(tab):
    pro = {"height": 4, "width": 7, "k": 4, "rule": "freestyle", "opening": "pro"}
    centre = [10, 17]  # d2 and d3: the middle column, and the two middle rows
    answer = tab.ask("position", game=pro, moves=[])
    assert [a for a in range(28) if answer["legal"][a]] == centre
    answer = tab.ask("position", game=pro, moves=[10, 11])
    assert [a for a in range(28) if answer["legal"][a]] == [a for a in range(28) if a % 7 in (0, 6)]
    assert all(tab.ask("position", game=pro, moves=[10, 11, 0])["legal"][a] for a in (1, 9, 12, 24))
    refused = tab.ask("position", game=pro, moves=[0])
    assert refused["code"] == "illegal_move" and refused["message"].startswith(
        "move 1, 0: a1: the pro opening"
    )
    refused = tab.ask("position", game=pro, moves=[10, 11, 12])
    assert "f2: the pro opening has Black's second stone at least 3 points away from d2" in refused["message"]
    free = tab.ask("position", game=BOARD | {"opening": "free"}, moves=[0])
    assert free["legal"] == [action != 0 for action in range(12)]


def test_an_agent_places_the_first_stones(server, tab):
    server.searches.random.seed(0)
    fields = {"agent": "tiny", "game": BOARD, "moves": [], "swap": "swap2", "simulations": 4}
    placed = []
    for _ in range(4):
        answer = tab.ask("opening", **fields)
        assert (answer["type"], answer["kind"], answer["value"]) == ("opened", "place", None)
        assert len(set(answer["moves"])) == 3 and set(answer["moves"]) <= set(range(12))
        placed.append(answer["moves"])
    assert len({tuple(moves) for moves in placed}) > 1  # not the same stones in all games
    server.searches.random.seed(0)
    assert [tab.ask("opening", **fields)["moves"] for _ in range(4)] == placed


def test_an_agent_chooses_by_the_value_of_white(tab, agent):
    thinker = Thinker(agent)
    fields = {"agent": "tiny", "game": BOARD}
    colours = set()
    for moves in ([5, 0, 11], [0, 5, 11], [1, 8, 2], [9, 6, 4]):
        view = thinker.network_view(GameRecord(GAME, moves).state)  # white is to move: its view
        answer = tab.ask("opening", moves=moves, swap="swap", simulations=0, **fields)
        assert answer["value"] == pytest.approx(view.value, abs=2e-5)
        assert (answer["kind"], answer["moves"]) == ("white" if view.value >= 0 else "black", [])
        may_add = tab.ask("opening", moves=moves, swap="swap2", simulations=0, **fields)
        if abs(view.value) >= DECISIVE:
            assert may_add == answer | {"id": may_add["id"]}
        else:
            assert (may_add["kind"], may_add["value"]) == ("add", answer["value"])
            assert len({*moves, *may_add["moves"]}) == 5
            five = tab.ask("opening", moves=moves + may_add["moves"], swap="swap2", simulations=0, **fields)
            assert five["kind"] in ("white", "black") and five["moves"] == []
        # With a search it is the search's value.
        last = tab.frames(tab.search(moves, simulations=64))[-1]
        searched = tab.ask("opening", moves=moves, swap="swap", simulations=64, **fields)
        assert searched["value"] == last["value"]
        colours.add(searched["kind"])
    assert colours == {"white", "black"}
    won = tab.ask("opening", moves=[1, 8, 2], swap="swap2", simulations=200, **fields)
    assert won["kind"] == "black" and won["value"] < -0.5  # three in a row from either side


def test_a_search_tells_its_progress_and_ends(tab):
    frames = tab.frames(tab.search([5, 0], simulations=MAX_SIMULATIONS))
    counts = [frame["simulations"] for frame in frames]
    assert counts[0] == 0 and counts == sorted(counts) and counts[-1] == MAX_SIMULATIONS
    assert [frame["done"] for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert frames[-1]["reason"] == "finished" and frames[-1]["to_play"] == 1
    for frame in frames:
        assert sum(frame["visits"]) == frame["simulations"] and sum(frame["prior"]) == pytest.approx(
            1, abs=1e-3
        )
        assert frame["visits"][5] == frame["visits"][0] == 0 == frame["prior"][5]
        assert [q is None for q in frame["q"]] == [visits == 0 for visits in frame["visits"]]
        assert all(-1 <= q <= 1 for q in frame["q"] if q is not None)
    last = frames[-1]
    best = last["candidates"][0]
    assert last["action"] == best["action"] == int(np.argmax(last["visits"]))
    assert best["line"][0] == best["action"] and best["visits"] == max(last["visits"])
    assert best["q"] == last["q"][best["action"]] and last["value"] > 0.5  # black wins on 3x4


def test_a_search_finds_the_win_for_either_side_and_says_whose_value_it_is(tab):
    for moves, to_play in (([0, 4, 1, 5], 1), ([8, 0, 10, 1, 4], -1)):
        last = tab.frames(tab.search(moves, simulations=100))[-1]
        assert (last["action"], last["to_play"]) == (2 if to_play == 1 else last["action"], to_play)
        record = GameRecord(GAME, [*moves, last["action"]])
        assert record.winner == to_play and last["q"][last["action"]] == 1.0


def test_a_larger_limit_goes_on_with_the_tree(tab):
    first = tab.frames(tab.search([5], simulations=60))[-1]
    again = tab.frames(tab.search([5], simulations=200))
    assert again[0]["simulations"] == 60 and again[0]["visits"] == first["visits"]
    assert again[-1]["simulations"] == 200 and again[-1]["seconds"] >= first["seconds"]
    at_once = tab.frames(tab.search([5], simulations=100))  # it has them already
    assert {frame["simulations"] for frame in at_once} == {200} and at_once[-1]["reason"] == "finished"
    assert tab.frames(tab.search([6], simulations=10))[0]["simulations"] == 0
    assert tab.frames(tab.search([5], simulations=10))[-1]["simulations"] == 10


def test_stopping_and_replacing(tab):
    id = tab.search([5])
    assert tab.read()["simulations"] == 0
    stop = tab.send("stop")
    frames = []
    while not frames or frames[-1]["type"] != "stopped":
        frames.append(tab.read())
    assert frames[-1] == {"type": "stopped", "id": stop}
    assert frames[-2]["id"] == id and frames[-2]["done"]
    assert tab.ask("stop") == {"type": "stopped", "id": stop + 1}  # nothing runs
    ids = [tab.search([action], simulations=MAX_SIMULATIONS) for action in range(6)]
    ends = {}
    while len(ends) < len(ids):
        frame = tab.read()
        if frame.get("done") or frame["type"] == "error":
            ends[frame["id"]] = frame.get("reason") or frame["code"]
    assert list(ends)[-1] == ids[-1] and ends[ids[-1]] == "finished"
    assert set(ends.values()) <= {"stopped", "finished"}


def test_seconds_end_a_search(tab):
    started = time.monotonic()
    last = tab.frames(tab.search([5, 6], seconds=0.001))[-1]
    assert last["done"] and last["reason"] == "finished" and time.monotonic() - started < HANG
    assert last["simulations"] < MAX_SIMULATIONS


def test_values_and_comparison(tab, agent):
    values = tab.ask("values", agent="tiny", game=BOARD, moves=WON)["values"]
    thinker, record = Thinker(agent), GameRecord(GAME, WON)
    for ply in range(5):
        view = thinker.network_view(record.states[ply])
        assert values[ply] == pytest.approx(view.value * (-1) ** ply, abs=2e-5)
    assert values[5] == 1.0 and len(values) == 6
    assert tab.ask("values", agent="tiny", game=BOARD, moves=[])["values"] == values[:1]
    answer = tab.ask("compare", agent="tiny", game=BOARD, moves=WON[:4], playouts=70)
    view = thinker.network_view(record.states[4])
    assert answer["to_play"] == 1 and answer["network"]["value"] == pytest.approx(view.value, abs=2e-5)
    assert answer["network"]["prior"] == pytest.approx(view.prior.tolist(), abs=2e-5)
    for side in ("network", "rollouts"):
        found = answer[side]["move_values"]
        assert [value is None for value in found] == [action in WON[:4] for action in range(12)]
        assert found[2] == 1.0
    assert answer["rollouts"]["playouts"] == 70 and answer["rollouts"]["value"] > 0


def test_rollouts_agree_with_plain_python(tab):
    rng = random.Random(0)
    results = []
    for _ in range(300):
        plain = oracle.Game(3, 4, 3, "freestyle")
        for action in (0, 4, 1, 2, *rng.sample(range(12), 12)):  # illegal ones change nothing
            plain.play(action)
        results.append(-plain.winner)  # white's view
    rollouts = tab.ask("compare", agent="tiny", game=BOARD, moves=[0, 4, 1], playouts=1000)["rollouts"]
    assert rollouts["playouts"] == 1000
    assert rollouts["move_values"][2] == pytest.approx(np.mean(results), abs=0.2)  # more than 3 deviations


def test_files_both_ways(tab):
    moves = [5, 0, 6]
    for kind, name in (("sgf", "game.sgf"), ("psq", "game.psq"), ("moves", "game.txt")):
        names = {"black": "Ann ]\\", "white": "\u9ed2"}
        file = tab.ask("export", format=kind, game=BOARD, moves=moves, **names)
        assert file["filename"] == name
        parsed = tab.ask("parse", text=file["text"], game=BOARD)
        assert (parsed["format"], parsed["game"], parsed["moves"]) == (kind, BOARD, moves)
        if kind == "sgf":
            assert (parsed["black"], parsed["white"]) == ("Ann ]\\", "\u9ed2")
    parsed = tab.ask("parse", text="h8 i9, j10", game=None)
    assert parsed["game"] == {"height": 15, "width": 15, "k": 5, "rule": "freestyle"}
    assert parsed["moves"] == [112, 128, 144]
    for text in ("(;GM[4]SZ[3:3];B[aa];W[aa])", "(;", "h99", "(" * 50000, "\ud800", "\0"):
        answer = tab.ask("parse", text=text, game=None)
        assert answer["code"] == "bad_text", answer
    assert "line 1, column" in tab.ask("parse", text="(;GM[4]SZ[15];B[hh];W[hh])", game=None)["message"]


# What is wrong is told, and nothing else happens.


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"type": "position", "game": BOARD | {"height": 27}}, "bad_game", "from 3 to 26"),
        ({"type": "position", "game": BOARD | {"height": 10**500}}, "bad_game", "from 3 to 26"),
        ({"type": "position", "game": BOARD | {"k": 5}}, "bad_game", "from 3 to 4"),
        ({"type": "position", "game": BOARD | {"rule": "pente"}}, "bad_game", "freestyle, exact, caro"),
        ({"type": "position", "game": BOARD | {"rule": "renju"}}, "bad_game", "renju is 5 in a row"),
        ({"type": "position", "game": BOARD | {"width": True}}, "bad_game", "true"),
        ({"type": "position", "game": BOARD | {"opening": "swap"}}, "bad_game", "free, pro, long_pro"),
        ({"type": "position", "game": BOARD | {"opening": 1}}, "bad_game", "opening = 1"),
        ({"type": "position", "game": BOARD | {"opening": "pro"}}, "bad_game", "4 or more in a row"),
        ({"type": "opening"}, "bad_message", "swap is missing"),
        ({"type": "opening", "swap": "swap3"}, "bad_message", "swap, swap2"),
        ({"type": "opening", "swap": "swap", "game": PRO}, "bad_game", "not together with the pro opening"),
        (
            {"type": "opening", "swap": "swap2", "moves": [0, 1]},
            "bad_message",
            "2 moves: an agent is asked after 0, 3 or 5",
        ),
        (
            {"type": "opening", "swap": "swap", "moves": [0, 1, 2, 3, 4]},
            "bad_message",
            "after 0 or 3 in swap",
        ),
        ({"type": "opening", "swap": "swap", "moves": [0, 1, 0]}, "illegal_move", "move 3, 0: a1 is taken"),
        ({"type": "opening", "swap": "swap2", "moves": WON}, "illegal_move", "must not end the game"),
        ({"type": "opening", "swap": "swap", "agent": "nobody"}, "unknown_agent", "tiny"),
        (
            {"type": "opening", "swap": "swap", "agent": "nobody", "simulations": MAX_SIMULATIONS + 1},
            "too_much",
            "to 2048",
        ),
        ({"type": "opening", "swap": "swap", "seconds": 0}, "bad_message", "more than 0"),
        ({"type": "position", "game": [3, 4]}, "bad_game", "height, width"),
        ({"type": "position", "moves": [0, 0]}, "illegal_move", "a1 is taken"),
        ({"type": "position", "moves": [*WON, 9]}, "illegal_move", "the game has ended"),
        ({"type": "position", "moves": [12]}, "illegal_move", "0 to 11"),
        ({"type": "position", "moves": [-1]}, "illegal_move", "0 to 11"),
        ({"type": "position", "moves": [1.0]}, "bad_message", "integer"),
        ({"type": "position", "moves": [True]}, "bad_message", "integer"),
        ({"type": "position", "moves": list(range(13))}, "too_much", "12 points"),
        ({"type": "position", "moves": "a1"}, "bad_message", "list of actions"),
        ({"type": "search", "moves": WON}, "illegal_move", "the game ended"),
        ({"type": "search", "moves": [3, 3]}, "illegal_move", "d1 is taken"),
        ({"type": "search", "simulations": MAX_SIMULATIONS + 1}, "too_much", f"to {MAX_SIMULATIONS}"),
        ({"type": "search", "simulations": -1}, "bad_message", "from 0"),
        ({"type": "search", "simulations": "9"}, "bad_message", "integer"),
        ({"type": "search", "seconds": 61}, "too_much", "60"),
        ({"type": "search", "seconds": 1e308 * 10}, "bad_message", "Infinity"),
        ({"type": "search", "seconds": float("nan")}, "bad_message", "NaN"),
        ({"type": "search", "seconds": 10**400}, "too_much", "60"),
        ({"type": "search", "seconds": 0}, "bad_message", "more than 0"),
        ({"type": "search", "agent": "../../secret"}, "unknown_agent", "tiny"),
        ({"type": "search", "agent": None}, "bad_message", "agent = null"),
        ({"type": "values", "agent": "6x6x5"}, "unknown_agent", "6x6x4"),
        ({"type": "compare", "playouts": 1001}, "too_much", "1000"),
        ({"type": "compare", "playouts": 0}, "bad_message", "from 1"),
        ({"type": "compare", "moves": WON}, "illegal_move", "ended"),
        ({"type": "parse", "text": 3}, "bad_message", "text"),
        ({"type": "parse", "text": "a" * 60001}, "too_much", "60000"),
        ({"type": "export", "format": "exe"}, "bad_message", "sgf, psq, moves"),
        ({"type": "export", "format": "sgf", "black": "a" * 201}, "too_much", "200"),
        ({"type": "nonsense"}, "bad_message", "one of position, search"),
        ({"type": ["position"]}, "bad_message", "one of position"),
        ({"type": "stop", "id": True}, "bad_message", "id"),
        ({"type": "stop", "id": 2**53 + 1}, "bad_message", "id"),
        ({"type": "stop", "id": -1}, "bad_message", "id"),
        ({"type": "stop", "id": None}, "bad_message", "id"),
    ],
)
def test_faults_are_told(tab, fields, code, says):
    base = {"id": 7, "game": BOARD, "moves": [], "agent": "tiny", "simulations": 3, "text": "a1"}
    tab.socket.send(json.dumps(base | fields))
    answer = tab.read()
    assert (answer["type"], answer["code"]) == ("error", code), answer
    assert says in answer["message"] and len(answer["message"]) < 400
    unknown_id = "id" in fields or says in ("NaN", "Infinity")  # those are not JSON: nothing can be read
    assert answer["id"] == (None if unknown_id else 7)
    assert tab.ask("position", game=BOARD, moves=[0])["to_play"] == -1


def test_an_agent_of_one_board_only(server, tab):
    answer = tab.ask("search", agent=server.conv, game=BOARD, moves=[], simulations=1)
    assert answer["code"] == "bad_game" and "5x5, 4 in a row" in answer["message"]


def malformed(rng):
    """A frame that is no request, text or bytes."""
    good = {"type": "position", "id": 1, "game": BOARD, "moves": [0, 1], "agent": "tiny"}
    junk = [None, True, -1, 1.5, "x", [], {}, [[]], 10**300, -(10**300), "\ud800", {"a": None}, 1e300]
    text = json.dumps(good)
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return text[: rng.randrange(len(text))]
    if kind == 2:
        return json.dumps(
            {name: value for name, value in good.items() if name != rng.choice(list(good)[:4])}
        )[:-1]
    if kind == 3:
        return json.dumps(good | {rng.choice(["type", "game"]): rng.choice(junk)})
    if kind == 4:
        return json.dumps(good | {"moves": [rng.choice(junk)] * rng.randrange(1, 40)})
    if kind == 5:
        return json.dumps(good | {"game": BOARD | {rng.choice(list(BOARD)): rng.choice(junk)}})
    if kind == 6:
        return rng.choice('[{"') * rng.randrange(1, MAX_FRAME)
    return "".join(chr(rng.randrange(1, 0xD800)) for _ in range(rng.randrange(100)))


def test_a_thousand_malformed_messages_and_play_goes_on(server, tab):
    rng = random.Random(4)
    codes = set()
    for _ in range(1000):
        frame = malformed(rng)
        tab.socket.send(frame)
        answer = tab.read()
        assert answer["type"] == "error" and answer["code"] != "internal", (frame, answer)
        codes.add(answer["code"])
    assert codes >= {"bad_message", "bad_game", "illegal_move", "too_much"}
    assert tab.ask("position", game=BOARD, moves=WON)["winner"] == 1
    assert tab.frames(tab.search([0, 4, 1, 5], simulations=50))[-1]["action"] == 2


def test_oversized_frames(server, tab):
    tab.socket.send("x" * (MAX_FRAME + 1))
    assert tab.read()["code"] == "too_much"
    assert tab.ask("stop")["type"] == "stopped"
    tab.socket.send("x" * (20 * MAX_FRAME))
    with pytest.raises(ConnectionClosed):
        tab.read()
    with Tab(server) as other:
        assert other.ask("stop")["type"] == "stopped"


def test_a_flood_is_bounded_and_others_are_served(server):
    async def flood():
        async with connect_async(server.url) as bad, connect_async(server.url) as good:
            await asyncio.gather(bad.recv(), good.recv())
            request = {"type": "position", "game": BOARD, "moves": list(range(4))}
            for id in range(2000):
                await bad.send(json.dumps(request | {"id": id}))
            await good.send(json.dumps(request | {"id": 1}))
            assert json.loads(await asyncio.wait_for(good.recv(), HANG))["type"] == "position"
            answers = [json.loads(await asyncio.wait_for(bad.recv(), HANG)) for _ in range(2000)]
            assert sorted(answer["id"] for answer in answers) == list(range(2000))
            assert {answer.get("code", "") for answer in answers} <= {"", "busy"}

    asyncio.run(flood())


def test_decode_needs_no_server():
    request = decode('{"type":"stop","id":1,"unknown":[{}]}', 10)
    assert request.id == 1
    with pytest.raises(MessageError, match="bytes"):
        decode('"' + "\u9ed2" * (MAX_FRAME // 3) + '"', 10)


# Many tabs, and tabs that go.


def test_two_tabs_search_different_positions(server):
    with Tab(server) as one, Tab(server) as two:
        first, second = one.search([0], simulations=300), two.search([0, 1], simulations=300)
        a, b = two.frames(second)[-1], one.frames(first)[-1]
        assert (a["to_play"], b["to_play"]) == (1, -1)
        assert a["visits"][1] == 0 and b["visits"][1] > 0 and sum(a["visits"]) == sum(b["visits"]) == 300


@pytest.fixture
def no_collector():
    """What reference cycles hold is not freed: large arrays must not hang on them."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_tab_closed_in_mid_search_leaves_nothing(server, no_collector):
    wait_for(lambda: nothing_is_left(server))
    threads = threading.active_count()
    for _ in range(3):
        tab = Tab(server)
        tab.search([])
        assert tab.read()["simulations"] == 0 and len(server.searches.trees) == 1
        tab.socket.socket.shutdown(socket.SHUT_RDWR)  # as when a browser dies
        tab.__exit__()
        wait_for(lambda: nothing_is_left(server))
    with Tab(server) as tab:  # one that closes as it should, with a tree that waits to be resumed
        tab.frames(tab.search([], simulations=5))
        assert len(server.searches.trees) == 1
    wait_for(lambda: nothing_is_left(server))
    wait_for(lambda: threading.active_count() <= threads)


def test_trees_that_wait_are_freed_for_others(server, monkeypatch):
    monkeypatch.setattr("gomoku_jax.play.web.searches.TREE_BYTES", MAX_SIMULATIONS * 12 * 17 * 2)
    with Tab(server) as one, Tab(server) as two, Tab(server) as three:
        for tab in (one, two, three):
            assert tab.frames(tab.search([], simulations=20))[-1]["simulations"] == 20
        gc.collect()
        assert len(server.searches.trees) == 2
        assert one.frames(one.search([], simulations=30))[0]["simulations"] == 0  # the oldest was freed
        assert three.frames(three.search([], simulations=30))[0]["simulations"] == 20


def test_fifty_tabs_at_once(server):
    wait_for(lambda: not server.connections)

    async def one(index):
        async with connect_async(server.url, open_timeout=HANG) as tab:
            assert json.loads(await tab.recv())["type"] == "welcome"
            moves = [index % 12]
            fields = {"agent": "tiny", "game": BOARD, "moves": moves, "simulations": 40}
            await tab.send(json.dumps({"type": "search", "id": 1} | fields))
            await tab.send(json.dumps({"type": "position", "id": 2, "game": BOARD, "moves": moves}))
            answers = []
            while not (any(a.get("done") for a in answers) and any(a["id"] == 2 for a in answers)):
                answers.append(json.loads(await asyncio.wait_for(tab.recv(), HANG)))
            last = next(a for a in answers if a.get("done"))
            assert last["simulations"] == 40 and last["visits"][moves[0]] == 0
            return index

    async def everyone():
        assert await asyncio.gather(*map(one, range(50))) == list(range(50))

    asyncio.run(everyone())
    wait_for(lambda: nothing_is_left(server))


def test_more_tabs_than_allowed_are_told(server):
    wait_for(lambda: not server.connections)
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(Tab(server))
        extra = stack.enter_context(Tab(server))
        assert extra.welcome["code"] == "busy" and "60 tabs" in extra.welcome["message"]
        with pytest.raises(ConnectionClosed):
            extra.read()
    wait_for(lambda: not server.connections)
    with Tab(server) as tab:
        assert tab.welcome["type"] == "welcome"


def test_the_server_answers_while_it_compiles(server):
    """Health and other tabs, during the first search of another board; stopping does not wait for it."""
    with Tab(server) as slow, Tab(server) as other:
        id = slow.search([], simulations=1, game={"height": 4, "width": 5, "k": 3, "rule": "exact"})
        assert get(server, "/api/health")[0] == 200
        assert other.ask("position", game=BOARD, moves=[])["to_play"] == 1
        stop = slow.send("stop")
        answers = [slow.read(), slow.read()]
        assert answers[0]["id"] == id and answers[1] == {"type": "stopped", "id": stop}
        assert answers[0].get("code") == "stopped" or answers[0]["done"]


@pytest.mark.slow
def test_what_was_compiled_is_dropped_after_many_boards(server, tab, monkeypatch):
    monkeypatch.setattr("gomoku_jax.play.web.workers.MAX_ONCE", 2)
    cleared = []
    real = jax.clear_caches
    monkeypatch.setattr("gomoku_jax.play.web.workers.jax.clear_caches", lambda: (cleared.append(1), real()))
    for height, width in ((3, 3), (3, 5), (3, 6)):
        game = BOARD | {"height": height, "width": width}
        answer = tab.ask("position", game=game, moves=[0, 3, 1, 4, 2])
        assert answer["winner"] == 1
    assert cleared
    assert tab.frames(tab.search([0, 4, 1, 5], simulations=50))[-1]["action"] == 2


# Strangers.


def get(server, path, host=None, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host if host is not None else f"127.0.0.1:{server.port}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        response = connection.getresponse()
        body = b"" if response.status == 101 else response.read()
        return response.status, dict(response.getheaders()), body
    finally:
        connection.close()


def handshake(server, host=None, origin=None):
    """The status that a WebSocket request gets."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13"}
    headers["Sec_WebSocket_Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    if origin is not None:
        headers["Origin"] = origin
    return get(server, "/ws", host, **headers)[0]


def test_websockets_of_other_origins_are_refused(server):
    own = f"127.0.0.1:{server.port}"
    for origin in (None, f"http://{own}", f"https://{own}"):
        assert handshake(server, origin=origin) == 101, origin
    strangers = [
        "http://evil.example",
        "null",
        "",
        f"http://{own}.evil.example",
        f"http://127.0.0.1:{server.port + 1}",
    ]
    strangers += [
        "http://127.0.0.1",
        f"http://localhost:{server.port}",
        f"ftp://{own}",
        f"http://{own}/",
        "file://",
    ]
    strangers += [f"http://evil.example@{own}", f"http://{own}, http://evil.example"]
    for origin in strangers:
        assert handshake(server, origin=origin) == 403, origin
    with pytest.raises(InvalidStatus, match="403"):
        connect(server.url, origin="https://evil.example").__enter__()  # type: ignore[arg-type]
    with connect(server.url, origin=f"http://{own}") as tab:  # type: ignore[arg-type]
        assert json.loads(tab.recv())["type"] == "welcome"


def test_requests_for_other_hosts_are_refused(server):
    port = server.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert get(server, "/api/health", host)[0] == 200, host
        assert handshake(server, host, f"http://{host.lower()}") == 101, host
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "192.168.1.7",
        "",
        "localhost.",
    ):
        assert get(server, "/api/health", host)[0] in (400, 403), host
        assert get(server, "/", host)[0] in (400, 403), host
        assert handshake(server, host, f"http://{host}") in (400, 403), host
        assert handshake(server, host) in (400, 403), host
    for host in ("a@localhost", "localhost:x", "localhost:99999", "localhost/x", "[::1", "local host"):
        assert get(server, "/api/health", host)[0] in (400, 403), host


@pytest.mark.parametrize(
    ("listens", "names", "good", "bad"),
    [
        (
            "127.0.0.1",
            ("board.example",),
            ["board.example", "Board.Example:8000"],
            ["10.0.0.1", "x.board.example"],
        ),
        ("10.0.0.1", (), ["10.0.0.1:8000", "localhost"], ["10.0.0.2", "board.example"]),
        (
            "0.0.0.0",
            (),
            ["10.0.0.1", "[fe80::1]:8000", socket.gethostname()],
            ["evil.example", "10.0.0.1.evil.example"],
        ),
    ],
)
def test_the_names_that_a_server_goes_by(listens, names, good, bad):
    async def app(scope, receive, send):
        passed.append(True)

    guard = Guard(app, listens, names)
    for host, allowed in [(host, True) for host in good] + [(host, False) for host in bad]:
        passed, sent = [], []

        async def send(message, sent=sent):
            sent.append(message)

        scope = {"type": "http", "headers": [(b"host", host.encode())], "method": "GET", "path": "/"}
        asyncio.run(guard(scope, None, send))  # type: ignore[arg-type]
        assert bool(passed) == allowed and (allowed or sent[0]["status"] == 403), host


def test_the_page_and_its_headers(server):
    status, headers, body = get(server, "/")
    assert status == 200 and body.lstrip().lower().startswith(b"<!doctype html")
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-cache"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    for path in ("/static/connection.js", "/"):
        status, headers, _ = get(server, path)
        assert status == 200
        assert get(server, path, If_None_Match=headers["etag"])[0] == 304
    assert headers["content-type"].startswith("text/html")
    assert get(server, "/static/connection.js")[1]["content-type"].startswith("text/javascript")
    assert json.loads(get(server, "/api/health")[2]) == {"ok": True}
    assert get(server, "/", method="POST")[0] == 405


def test_files_of_the_own_folder_only(server):
    for path in (
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/....//server.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/..%5cserver.py",
        "/static/%00",
        "/static/",
        "/server.py",
        "/ws",
        "/" + "a" * 5000,
        "/static/" + "a" * 5000,
    ):
        status, _, body = get(server, path)
        assert status in (400, 404, 405), path
        assert b"root:" not in body and b"Starlette" not in body


def test_links_out_of_the_folder_are_not_followed(agent, tmp_path, monkeypatch):
    folder = tmp_path / "static"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "own.txt").write_text("own")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    monkeypatch.setattr("gomoku_jax.play.web.server.STATIC_FOLDER", folder)
    app = create_app(Choice(agent, GAME, "tiny", ""), Settings(max_simulations=MAX_SIMULATIONS))
    with serving(app) as port:
        other = Server(app, port, "")
        assert get(other, "/static/own.txt")[2] == b"own"
        for path in ("/static/link.txt", "/static/up/secret.txt", "/static/../secret.txt"):
            status, _, body = get(other, path)
            assert status == 404 and b"secret" not in body


# The command.


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "99999"], "--port 99999: from 0 to 65535"),
        (["--max-simulations", "99999"], "--max-simulations 99999"),
        (["--simulations", "5000"], "--simulations 5000: from 0 to 4096"),
        (["--max-clients", "0"], "--max-clients 0"),
        (["--board", "15x15"], "ROWSxCOLUMNSxK"),
        (["--agent", "nowhere/at/all"], "nowhere/at/all"),
        (["--host", "not a host"], "--host not a host"),
        (["--host", "203.0.113.7"], "--host 203.0.113.7"),
    ],
)
def test_mistakes_on_the_command_line(capsys, arguments, says):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and says in error and error.count("\n") == 1


def test_a_port_in_use_is_told(capsys, server):
    assert command.main(["--port", str(server.port)]) == 2
    assert f"--port {server.port}" in capsys.readouterr().err


def test_the_command_serves_and_ends_on_ctrl_c_in_mid_search(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "gomoku_jax.play.cli", "web", "--port", "0", "--agent", "tictactoe"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert "agent tictactoe" in lines[0].lower() and "3x3, 3 in a row" in lines[1]
        url = lines[2].split()[1].replace("http", "ws") + "/ws"
        with connect(url, open_timeout=HANG) as tab:
            game = {"height": 3, "width": 3, "k": 3, "rule": "freestyle"}
            request = {"type": "search", "id": 1, "agent": "tictactoe", "game": game, "moves": []}
            assert json.loads(tab.recv())["defaults"]["agent"] == "tictactoe"
            tab.send(json.dumps(request))
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG) == 0
        assert "Traceback" not in process.stdout.read()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
