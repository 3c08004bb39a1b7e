"""Wins by continuous fours in many positions at once."""

import dataclasses
import functools

import jax
import numpy as np

from benchmarks.common import Benchmark, medians, on_accelerator, openings, show
from gomoku_jax.config import RULES, Rule
from gomoku_jax.game import Gomoku, parse_board
from gomoku_jax.tactics import NONE, WON, check_bounds, solve_vcf


@dataclasses.dataclass(frozen=True)
class Vcf(Benchmark):
    """Positions per second that are searched for wins by continuous fours."""

    board: str = "15x15x5"
    """ROWSxCOLUMNSxK."""
    rules: tuple[Rule, ...] = RULES
    """One measurement each."""
    positions: int = 0
    """At once; by default 1,024, on accelerators 16,384."""
    stones: tuple[int, ...] = (40, 70)
    """Random stones on the board, one measurement each."""
    depth: int = 9
    """Plies of a win at most, an odd number."""
    nodes: int = 1000
    """Fours tried in a position at most."""
    lanes: tuple[int, ...] = ()
    """Positions side by side, one measurement each; by default the solver's own number."""
    repeats: int = 5
    """Measurements; the median counts."""


def run(arguments: Vcf) -> list[dict]:
    """One row for each rule, number of stones and of lanes."""
    check_bounds(arguments.depth, arguments.nodes)
    games = [parse_board(arguments.board, rule) for rule in arguments.rules]
    count = arguments.positions or (16_384 if on_accelerator() else 1024)
    rows, cells = [], []
    for game in games:
        for stones in arguments.stones:
            states = openings(Gomoku(game.height, game.width, game.k), count, stones)
            for lanes in arguments.lanes or (None,):
                solve = functools.partial(
                    solve_vcf, game, states, arguments.depth, arguments.nodes, num_lanes=lanes
                )
                seconds = medians({"vcf": solve}, arguments.repeats)["vcf"]
                found = jax.device_get(solve())
                row = {
                    "benchmark": "vcf",
                    "game": str(game),
                    "stones": stones,
                    "positions": count,
                    "lanes": lanes,
                    "depth": arguments.depth,
                    "nodes": arguments.nodes,
                    "positions_per_second": count / seconds,
                    "nodes_per_second": int(found.num_nodes.sum()) / seconds,
                    "won": int((found.result == WON).sum()),
                    "without": int((found.result == NONE).sum()),
                    "most_nodes": int(np.max(found.num_nodes)),
                }
                rows.append(row)
                cells.append(
                    (
                        game.rule,
                        str(stones),
                        "default" if lanes is None else str(lanes),
                        f"{row['positions_per_second']:,.0f}",
                        f"{row['nodes_per_second']:,.0f}",
                        f"{row['won']:,}",
                        f"{count - row['won'] - row['without']:,}",
                    )
                )
    show(
        f"Wins by continuous fours, {arguments.board}, {count:,} positions, {arguments.depth} plies",
        ("rule", "stones", "lanes", "positions/s", "fours/s", "won", "nodes ran out"),
        cells,
    )
    return rows
