"""Draws strength over training time and over simulations a move. Try:

python experiments/plot_strength.py ratings.jsonl --output strength.png
python experiments/plot_strength.py ratings.jsonl --board 6x6x4
python experiments/plot_strength.py solved.jsonl --output solved.png

The file is one of experiments/rate.py, for ratings, or of evaluate.py --solved, for perfect play.
Snapshots of a run (its agents/iteration_... folders) with the same simulations are one curve on the left,
where players that do not train are levels; an agent at several numbers of simulations, and pure MCTS, are one
curve each on the right.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import matches
import matplotlib

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt
import numpy as np
import rate
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import read_rows

from gomoku_jax.agent import AgentError
from gomoku_jax.rating import PlayerRating, Ratings, fit_elo

RAW = 0.5  # where the axis of simulations has the network without search


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    results: tyro.conf.Positional[pathlib.Path]
    """The rows of experiments/rate.py, or of experiments/evaluate.py --solved."""
    output: pathlib.Path = pathlib.Path("strength.png")
    """The PNG to write."""
    board: str | None = None
    """ROWSxCOLUMNSxK, where the file has several boards."""
    anchor: str = "random"
    """Who has 0."""
    replicates: int = 1000
    """Of the bootstrap."""
    seed: int = 0
    """Of the bootstrap."""


def board_of(row: dict[str, Any]) -> str:
    """ROWSxCOLUMNSxK."""
    return "{height}x{width}x{k}".format(**row["game"])


def choose_rows(rows: list[dict[str, Any]], board: str | None) -> list[dict[str, Any]]:
    """The matches of one board, rule and kind of opening.

    Raises:
        ValueError: none, or several kinds of match.
    """
    rows = [row for row in rows if isinstance(row.get("pairs"), list) and "players" in row]
    rows = [row for row in rows if board is None or board_of(row) == board]
    if not rows:
        raise ValueError("no matches of experiments/rate.py" + (f" on {board}" if board else ""))
    kinds = {json.dumps([row["game"], row["opening_stones"], row["openings"]]): row for row in rows}
    if len(kinds) > 1:
        shown = [
            f"{board_of(row)} ({row['game']['rule']}), {row['opening_stones']} opening stones"
            + (f", {row['openings']['file']}" if row["openings"] else "")
            for row in kinds.values()
        ]
        raise ValueError(
            f"several kinds of match: {'; '.join(shown)}. Choose with --board, or split the file"
        )
    return rows


def solved_rows(rows: list[dict[str, Any]], board: str | None) -> list[dict[str, Any]]:
    """The rows of evaluate.py --solved, of one board; empty where the file has other rows.

    Raises:
        ValueError: several boards.
    """
    rows = [row for row in rows if "solved" in row and (board is None or board_of(row) == board)]
    if len(boards := sorted({board_of(row) for row in rows})) > 1:
        raise ValueError(f"solved positions of {', '.join(boards)}: choose with --board")
    return rows


Points = list[tuple[float, float, float, float]]  # place on the axis, share lost, its interval


def solved_curves(rows: list[dict[str, Any]]) -> tuple[dict[str, Points], dict[str, Points]]:
    """Shares of moves that lose value: by minutes of a run, and by simulations of its last agent."""
    by_time: dict[str, Points] = {}
    last: dict[str, tuple[float, dict[str, Any]]] = {}
    for row in rows:
        run, slash, _ = row["player"].partition("/")
        if row.get("agent", {}).get("search", {}).get("tactical_helper"):
            run += ", tactical helper"
        seconds = row.get("info", {}).get("seconds", 0.0)
        if seconds >= last.get(run, (-1.0, {}))[0]:
            last[run] = seconds, row
        for score in row["solved"] if slash and seconds else ():
            count = score["simulations"]
            key = f"{run}, " + (f"{count} simulations" if count else "no search")
            by_time.setdefault(key, []).append(_lost(seconds / 60, score))
    by_simulations = {
        run: [_lost(max(score["simulations"], RAW), score) for score in row["solved"]]
        for run, (_, row) in sorted(last.items())
        if "simulations" in row["solved"][0]
    }
    return (
        {key: sorted(points) for key, points in by_time.items() if len(points) > 1},
        {key: sorted(points) for key, points in by_simulations.items() if len(points) > 1},
    )


def _lost(place: float, score: dict[str, Any]) -> tuple[float, float, float, float]:
    low, high = score["kept"]["interval"]
    return place, 1 - score["kept"]["share"], 1 - high, 1 - low


def make_panels(
    by_time: dict[str, list], by_simulations: dict[str, list], wanted: str
) -> tuple[Figure, list[tuple[Axes, dict[str, list]]]]:
    """A figure with a logarithmic axis for each of the two groups of curves that is not empty.

    Args:
        by_time: points by name of the curve, the first number of each the minutes of training.
        by_simulations: the same with simulations a move.
        wanted: what to do, for the error.

    Raises:
        ValueError: no curve at all.
    """
    panels = [groups for groups in (by_time, by_simulations) if groups]
    if not panels:
        raise ValueError(f"no curve to draw: {wanted}")
    size = (6.5 * len(panels), 5)
    figure, axes = plt.subplots(1, len(panels), figsize=size, constrained_layout=True, squeeze=False)
    for axis, groups in zip(axes.flat, panels, strict=True):
        axis.set_xscale("log")
        if groups is by_time:
            axis.set_xlabel("minutes of training, compilation included")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter("{x:g}")
        else:
            axis.set_xlabel("simulations a move")
            places = sorted({point[0] for points in groups.values() for point in points})
            axis.set_xticks(places, [f"{place:g}" if place > RAW else "0" for place in places], fontsize=7)
            axis.minorticks_off()
    return figure, list(zip(axes.flat, panels, strict=True))


def draw_solved(rows: list[dict[str, Any]], output: pathlib.Path) -> None:
    """Writes the picture of perfect play.

    Raises:
        ValueError: nothing that makes a curve.
    """
    by_time, by_simulations = solved_curves(rows)
    figure, axes = make_panels(
        by_time, by_simulations, "score a run with --snapshots, or an agent at two numbers of simulations"
    )
    for axis, groups in axes:
        for color, (name, points) in enumerate(groups.items()):
            x, y, low, high = np.array(points).T
            axis.plot(x, y, color=f"C{color}", marker="o", markersize=3, label=name)
            axis.fill_between(x, np.maximum(low, 1e-4), high, color=f"C{color}", alpha=0.12, linewidth=0)
        axis.set_yscale("log")
        axis.set_ylabel("moves that lose value, share")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=7, loc="lower left")
    figure.suptitle(
        f"{board_of(rows[0])}, {rows[0]['positions']} solved positions; 95 % intervals", fontsize=10
    )
    figure.savefig(output, dpi=110)
    plt.close(figure)


def curves(
    ratings: Ratings, facts: dict[str, dict[str, Any]]
) -> tuple[dict[str, list[tuple[float, PlayerRating]]], dict[str, list[tuple[float, PlayerRating]]]]:
    """(minutes of training, rating) by run and simulations; (simulations, rating) by agent."""
    by_time: dict[str, list[tuple[float, PlayerRating]]] = {}
    by_simulations: dict[str, list[tuple[float, PlayerRating]]] = {}
    for player in ratings.players:
        name, _, _ = player.name.rpartition("@")
        known = facts.get(player.name, {})
        if player.name.startswith("mcts:"):
            by_simulations.setdefault("pure MCTS", []).append((int(player.name[5:]), player))
        elif "simulations" in known:
            by_simulations.setdefault(name, []).append((max(known["simulations"], RAW), player))
            run, slash, _ = name.partition("/")
            if slash and known.get("seconds"):
                key = f"{run}, {known['simulations']} simulations"
                by_time.setdefault(key, []).append((known["seconds"] / 60, player))

    def several(groups: dict[str, list[tuple[float, PlayerRating]]]) -> dict:
        return {key: sorted(points, key=lambda p: p[0]) for key, points in groups.items() if len(points) > 1}

    return several(by_time), several(by_simulations)


def draw_curves(axis: Axes, groups: dict[str, list[tuple[float, PlayerRating]]], top: float) -> None:
    """Ratings with their intervals; an open end goes up to `top`."""
    for color, (label, points) in enumerate(groups.items()):
        x, y = [place for place, _ in points], [player.elo for _, player in points]
        down = [min(player.elo - player.low, 2 * top) for _, player in points]
        up = [min(player.high, max(top, player.elo)) - player.elo for _, player in points]
        axis.errorbar(
            x, y, yerr=[down, up], color=f"C{color}", marker="o", markersize=4, capsize=2, label=label
        )


def grouped(players: Sequence[PlayerRating], distance: float) -> list[tuple[str, float]]:
    """(names, Elo) of levels, those nearer to each other than `distance` under one name, at the highest."""
    found: list[tuple[str, float, float]] = []  # names, highest and lowest of the group
    for player in sorted(players, key=lambda player: -player.elo):
        if found and found[-1][2] - player.elo < distance:
            names, highest, _ = found[-1]
            found[-1] = f"{names}, {player.name}", highest, player.elo
        else:
            found.append((player.name, player.elo, player.elo))
    return [(names, highest) for names, highest, _ in found]


def draw(ratings: Ratings, facts: dict[str, dict[str, Any]], title: str, output: pathlib.Path) -> None:
    """Writes the picture.

    Raises:
        ValueError: nothing that makes a curve.
    """
    by_time, by_simulations = curves(ratings, facts)
    figure, axes = make_panels(
        by_time,
        by_simulations,
        "rate at least two snapshots of a run (runs/x/agents/iteration_*), or one "
        "agent at two numbers of simulations",
    )
    ends = [e for p in ratings.players for e in (p.elo, p.low, p.high) if abs(e) < float("inf")]
    top, bottom = max(ends) + 100, min(ends) - 100
    for axis, groups in axes:
        draw_curves(axis, groups, top)
        axis.set_ylabel(f"Elo, {ratings.anchor} = 0")
        axis.set_ylim(bottom, top)
        axis.grid(alpha=0.3)
        if groups is by_time:
            levels = [player for player in ratings.players if "simulations" not in facts.get(player.name, {})]
            for player in levels:
                axis.axhline(player.elo, color="0.6", linewidth=0.8, linestyle=":")
            for names, elo in grouped(levels, (top - bottom) / 30):
                axis.annotate(
                    names,
                    (1.0, elo),
                    xycoords=("axes fraction", "data"),
                    fontsize=7,
                    ha="right",
                    va="bottom",
                )
        axis.legend(fontsize=7, loc="lower left" if groups is by_time else "lower right")
        # The same axis as odds: Elo is their logarithm.
        odds = axis.twinx()
        odds.set_yscale("log")
        odds.set_ylim(10 ** (bottom / 400), 10 ** (top / 400))
        odds.set_ylabel(f"odds of a win over {ratings.anchor} (wins to a loss)")
    figure.suptitle(title, fontsize=10)
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        matches.check_outputs(arguments.output)
        if not arguments.results.is_file():
            raise ValueError(f"{arguments.results}: no such file; experiments/rate.py writes it")
        rows = read_rows(arguments.results)
        if solved := solved_rows(rows, arguments.board):
            draw_solved(solved, arguments.output)
            print(arguments.output)
            return 0
        rows = choose_rows(rows, arguments.board)

        def warn(text: str) -> None:
            print(f"warning: {text}", file=sys.stderr)

        pairings = rate.rateable(rate.pairings_of(rows), warn)
        ratings = fit_elo(pairings, arguments.anchor, replicates=arguments.replicates, seed=arguments.seed)
        for warning in ratings.warnings:
            warn(f"{warning}; bars of open intervals reach the upper edge")
        facts = {name: known for row in rows for name, known in row["players"].items()}
        title = f"{board_of(rows[0])}, {rows[0]['game']['rule']}; 95 % intervals"
        draw(ratings, facts, title, arguments.output)
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
