"""The web board as a browser meets it: a server of its own process, WebSockets, moves and overlay updates."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.common import Benchmark, show
from gomoku_jax.config import to_dict
from gomoku_jax.game import Gomoku, parse_board

_STARTUP_SECONDS = 120
_MAX_SIMULATIONS = 32768


@dataclasses.dataclass(frozen=True)
class Web(Benchmark):
    """Seconds of a move, overlay updates a second, and many clients at once."""

    agent: str = "6x6x4"
    """What `gomoku-jax web --agent` takes; it must play both boards."""
    board: str = "6x6x4"
    """Of the moves and the many clients, ROWSxCOLUMNSxK."""
    long_board: str = "15x15x5"
    """Of the longer search, whose updates are counted."""
    simulations: int = 200
    """A move."""
    moves: int = 20
    """That many moves are timed; the median counts."""
    seconds: float = 5.0
    """Of the longer search."""
    clients: int = 50
    """At once, one move each."""


@contextlib.contextmanager
def _server(agent: str, clients: int) -> Iterator[str]:
    """A server; gives the URL of its WebSocket. Raises OSError where it does not start."""
    options = ["--port", "0", "--agent", agent, "--max-simulations", str(_MAX_SIMULATIONS)]
    options += ["--max-clients", str(max(64, clients))]
    process = subprocess.Popen(
        [sys.executable, "-m", "gomoku_jax.play.cli", "web", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Open http"):
                yield line.split()[1].replace("http", "ws", 1) + "/ws"
                return
        raise OSError(f"the server did not start; it ended with status {process.wait()}")
    finally:
        process.terminate()
        process.wait(_STARTUP_SECONDS)


async def _search(
    tab: ClientConnection, agent: str, game: Gomoku, moves: Sequence[int], **limits: Any
) -> tuple[list[dict], list[float]]:
    """The frames of a search and when they came, in seconds since it was asked for."""
    request = {"type": "search", "id": 1, "agent": agent, "game": to_dict(game), "moves": list(moves)}
    started = time.perf_counter()
    await tab.send(json.dumps({"simulations": None, "seconds": None} | request | limits))
    frames, times = [], []
    while not frames or not frames[-1]["done"]:
        frame = json.loads(await tab.recv())
        if frame["type"] == "error":
            raise ValueError(frame["message"])
        frames.append(frame)
        times.append(time.perf_counter() - started)
    return frames, times


async def _measure(url: str, arguments: Web, game: Gomoku, long_game: Gomoku) -> list[dict]:
    async with contextlib.AsyncExitStack() as stack:

        async def new_tab() -> ClientConnection:
            tab = await stack.enter_async_context(connect(url, max_queue=1024))
            json.loads(await tab.recv())
            return tab

        tab = await new_tab()
        for board in (game, long_game):  # compiles
            await _search(tab, arguments.agent, board, [], simulations=1)
        seconds = []
        for first in range(arguments.moves):
            moves = [first % game.num_actions]
            _, times = await _search(tab, arguments.agent, game, moves, simulations=arguments.simulations)
            seconds.append(times[-1])
        frames, times = await _search(tab, arguments.agent, long_game, [], seconds=arguments.seconds)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        tabs = [await new_tab() for _ in range(arguments.clients)]
        started = time.perf_counter()
        found = await asyncio.gather(
            *(
                _search(one, arguments.agent, game, [i % game.num_actions], simulations=arguments.simulations)
                for i, one in enumerate(tabs)
            )
        )
        everybody = time.perf_counter() - started
    facts = {"benchmark": "web", "agent": arguments.agent}
    return [
        facts
        | {
            "measured": "move",
            "game": str(game),
            "simulations": arguments.simulations,
            "moves": arguments.moves,
            "seconds_median": statistics.median(seconds),
            "seconds_most": max(seconds),
        },
        facts
        | {
            "measured": "updates",
            "game": str(long_game),
            "simulations": frames[-1]["simulations"],
            "seconds": times[-1],
            "updates": len(frames) - 1,  # the last repeats the one before
            "updates_per_second": (len(frames) - 1) / times[-1],
            "longest_gap_seconds": max(gaps),
        },
        facts
        | {
            "measured": "clients",
            "game": str(game),
            "simulations": arguments.simulations,
            "clients": arguments.clients,
            "seconds_until_all_moved": everybody,
            "first_update_seconds_most": max(times[0] for _, times in found),
            "move_seconds_median": statistics.median(times[-1] for _, times in found),
        },
    ]


def run(arguments: Web) -> list[dict]:
    """One row each: a move, the updates of a longer search, many clients."""
    game, long_game = parse_board(arguments.board), parse_board(arguments.long_board)
    for name in ("simulations", "moves", "clients", "seconds"):
        if getattr(arguments, name) <= 0:
            raise ValueError(f"--{name} {getattr(arguments, name)}: more than 0")
    with _server(arguments.agent, arguments.clients) as url:
        move, updates, clients = rows = asyncio.run(_measure(url, arguments, game, long_game))
    show(
        f"web board, agent {arguments.agent}",
        ("measured", "board", "result"),
        [
            (
                f"a move of {move['simulations']} simulations, after warm-up",
                str(game),
                f"{move['seconds_median']:.3f} s median, {move['seconds_most']:.3f} s at most",
            ),
            (
                f"overlay updates in a search of {updates['seconds']:.1f} s",
                str(long_game),
                f"{updates['updates_per_second']:.1f} a second, "
                f"{updates['longest_gap_seconds']:.2f} s at most between two",
            ),
            (
                f"{clients['clients']} clients, a move of {clients['simulations']} simulations each",
                str(game),
                f"all done in {clients['seconds_until_all_moved']:.2f} s, "
                f"first update after {clients['first_update_seconds_most']:.2f} s at most",
            ),
        ],
    )
    return rows
