"""Renju's forbidden points beside those of the `renju` package, an independent referee in plain Python. Try:

    python experiments/check_renju.py --positions 2000
    python experiments/check_renju.py --positions 100000 --json rows.jsonl

Half of the positions are stones strewn over windows of all sizes and densities, the other half come from
random games. The whole set of forbidden points of each is compared. The referee takes some 30 ms for a
position, so 100,000 take the better part of an hour on one core; --processes shares them out. Needs the
extra `test`.
"""

import dataclasses
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from matches import check_outputs
from processes import map_over
from rows import append_row, command_line

from gomoku_jax.game import BLACK, WHITE, Gomoku, random_opening, renju
from gomoku_jax.metrics import provenance

CHUNK = 500  # positions a task of a process


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    positions: int = 2000
    """How many."""
    side: int = 15
    """Points a side of the board."""
    seed: int = 0
    """Of the positions."""
    processes: int = os.cpu_count() or 1
    """Of the referee."""
    json: pathlib.Path | None = None
    """Append the result to this file as a JSON line, with versions, commit and hardware."""


def strewn(side: int, count: int, seed: int) -> np.ndarray:
    """int8 [count, side, side]: stones in windows of all sizes, mostly Black's, so that much is forbidden."""
    rng = np.random.default_rng(seed)
    boards = np.zeros((count, side, side), np.int8)
    for board in boards:
        rows, cols = rng.integers(5, side + 1, 2)
        top, left = rng.integers(0, side - rows + 1), rng.integers(0, side - cols + 1)
        window = np.where(rng.random((rows, cols)) < rng.uniform(0.4, 0.9), BLACK, WHITE)
        window[rng.random((rows, cols)) < rng.uniform(0.3, 0.95)] = 0
        board[top : top + rows, left : left + cols] = window
    return boards


def from_games(side: int, count: int, seed: int) -> np.ndarray:
    """int8 [count, side, side]: positions of random games of all lengths, under freestyle's rules."""
    game = Gomoku(side, side, 5)
    most = side * side - 1

    def one(key: jax.Array) -> jax.Array:
        stones = jax.random.randint(jax.random.fold_in(key, most), (), 2, most)
        return random_opening(game, key, stones, most).board

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count)))


def referee(boards: np.ndarray) -> np.ndarray:
    """bool [N, A]: what the package forbids."""
    from renju.check_forbid import get_foul_type

    masks = np.zeros((len(boards), boards[0].size), bool)
    for board, mask in zip(boards, masks, strict=True):
        grid = np.where(board == WHITE, 2, board).tolist()
        for action in np.flatnonzero(board.reshape(-1) == 0):
            mask[action] = get_foul_type(grid, *divmod(int(action), board.shape[1])) != 0
    return masks


def check(arguments: Arguments) -> dict:
    """Compares, and gives the row."""
    half = arguments.positions // 2
    boards = np.concatenate(
        [
            strewn(arguments.side, arguments.positions - half, arguments.seed),
            from_games(arguments.side, half, arguments.seed),
        ]
    )
    forbidden = jax.jit(jax.vmap(renju.forbidden_points))
    chunks = [boards[i : i + CHUNK] for i in range(0, len(boards), CHUNK)]
    ours = np.concatenate([np.asarray(forbidden(jnp.asarray(chunk))) for chunk in chunks])
    started, equal, done, points = time.monotonic(), 0, 0, 0
    for chunk, theirs in zip(chunks, map_over(referee, chunks, arguments.processes), strict=True):
        same = (ours[done : done + len(chunk)] == theirs).all(-1)
        for index in np.flatnonzero(~same):
            print(f"position {done + index}: different\n{boards[done + index]}")
        equal, done, points = equal + int(same.sum()), done + len(chunk), points + int(theirs.sum())
        print(f"{done} positions, {equal} equal, {points} forbidden points", flush=True)
    return {
        "check": "renju",
        "positions": done,
        "equal": equal,
        "forbidden_points": points,
        "side": arguments.side,
        "seed": arguments.seed,
        "seconds": time.monotonic() - started,
        "processes": arguments.processes,
    }


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 1 where a position differs."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        for name, least in (("positions", 1), ("side", 5), ("processes", 1)):
            if getattr(arguments, name) < least:
                raise ValueError(f"--{name} {getattr(arguments, name)}: at least {least}")
        if arguments.side > 26:
            raise ValueError(f"--side {arguments.side}: at most 26")
        check_outputs(arguments.json)
        row = check(arguments)
        if arguments.json is not None:
            command = command_line("check_renju.py", sys.argv[1:] if argv is None else argv)
            append_row(arguments.json, row | provenance() | {"command": command})
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if row["equal"] == row["positions"] else 1


if __name__ == "__main__":
    sys.exit(main())
