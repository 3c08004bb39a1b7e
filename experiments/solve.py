"""Solves small boards and makes the sets of solved positions that the package ships. Try:

    python experiments/solve.py 5x6x4
    python experiments/solve.py 6x6x4 --positions 1000 --stones 8 16 --output gomoku_jax/suites/solved

Positions are random stones on the board, colours in turn, without a winner; those whose moves are all worth
the same are left out, and so are images of a position under the board's symmetries. With --stones 0 to all
points of 3x3x3 every position that is left is in the set. Needs the extra `solver`.
"""

import dataclasses
import pathlib
import sys
import time

import numpy as np
import tyro

from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku, parse_board
from gomoku_jax.solver import Solver, SolverError
from gomoku_jax.suites.perfect_play import set_name
from gomoku_jax.symmetry import canonical_board


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    board: tyro.conf.Positional[str]
    """ROWSxCOLUMNSxK, of at most 36 points."""
    rule: Rule = "freestyle"
    """The rule."""
    positions: int = 0
    """How many to collect; 0 solves the empty board only."""
    stones: tuple[int, int] = (8, 16)
    """Fewest and most stones on the board of a position."""
    patience: int = 20_000
    """Positions tried without a new one before giving up."""
    seed: int = 0
    """Of the random stones."""
    table_bits: int = 22
    """The transposition table holds 2 ** table_bits positions, of 18 bytes."""
    output: pathlib.Path | None = None
    """Folder to write the set to, as BOARD.npz."""


def make_set(game: Gomoku, solver: Solver, arguments: Arguments) -> dict[str, np.ndarray]:
    """Collects distinct positions in which some move is better than another."""
    random = np.random.default_rng(arguments.seed)
    seen: set[bytes] = set()
    rows: list[tuple[np.ndarray, int, int, np.ndarray]] = []
    fruitless = 0
    low, high = arguments.stones
    while len(rows) < arguments.positions and fruitless < arguments.patience:
        fruitless += 1
        count = int(random.integers(low, high + 1))
        points = random.permutation(game.num_actions)[:count]
        board = np.zeros(game.num_actions, np.int8)
        board[points[0::2]], board[points[1::2]] = 1, -1
        canonical = canonical_board(board.reshape(game.shape))
        if canonical in seen:
            continue
        seen.add(canonical)
        to_play = 1 if count % 2 == 0 else -1
        try:
            values = solver.move_values(board.reshape(game.shape), to_play)
        except SolverError:  # somebody has won already
            continue
        legal = values[values >= -1]
        if legal.min() == legal.max():
            continue
        last = int(points[-1]) if count else -1
        rows.append((board.reshape(game.shape), to_play, last, values))
        fruitless = 0
    boards, to_plays, lasts, values = zip(*rows, strict=True)
    return {
        "board": np.stack(boards),
        "to_play": np.asarray(to_plays, np.int8),
        "last_action": np.asarray(lasts, np.int32),
        "values": np.stack(values),
    }


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        game = parse_board(arguments.board, arguments.rule)
        solver = Solver(game, arguments.table_bits)
        low, high = arguments.stones
        if arguments.positions > 0 and not 0 <= low <= high < game.num_actions:
            allowed = f"two numbers in order, from 0 to {game.num_actions - 1}"
            raise ValueError(f"--stones {low} {high}: {allowed}")
        if arguments.positions < 0:
            raise ValueError(f"--positions {arguments.positions}: 0 or more")
        started = time.monotonic()
        if arguments.positions == 0:
            value = solver.value(np.zeros(game.shape, np.int8), 1)
            result = {1: "the first player wins", 0: "a draw", -1: "the second player wins"}[value]
            seconds = time.monotonic() - started
            print(f"{game}: {result} ({solver.nodes} positions, {seconds:.1f} s with compilation)")
            return 0
        data = make_set(game, solver, arguments)
        best = data["values"].max(-1)
        keeps = (data["values"] == best[:, None]).sum(-1) / (data["values"] >= -1).sum(-1)
        print(
            f"{game}: {len(best)} positions, {(best == 1).sum()} won, {(best == 0).sum()} drawn for the side "
            f"to move; a random move keeps the value in {keeps.mean():.3f} of them; "
            f"{time.monotonic() - started:.1f} s"
        )
        if arguments.output is not None:
            arguments.output.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(arguments.output / f"{set_name(game)}.npz", **data)  # pyright: ignore[reportArgumentType]
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
