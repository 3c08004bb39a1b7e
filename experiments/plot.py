"""Draws the curves of one run, or of several on the same axes, as a PNG. Try:

python experiments/plot.py runs/mine
python experiments/plot.py runs/seed0 runs/seed1 runs/seed2 --output seeds.png
"""

import dataclasses
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt
import tyro

from gomoku_jax.metrics import read_metrics

# One panel each: title, metric, unit of the vertical axis.
PANELS = (
    ("Score against pure MCTS", "evaluation/score", "points a game"),
    ("Policy loss", "learn/policy_loss", "nats"),
    ("Value loss", "learn/value_loss", "squared error"),
    ("Explained variance of the value", "learn/explained_variance", ""),
    ("Entropy", "learn/entropy", "nats"),
    ("KL of an iteration's updates", "learn/kl", "nats"),
    ("Game length", "selfplay/game_length", "stones"),
    ("Wins by colour in self-play", "selfplay/black_wins", "share"),
    ("Different positions in the buffer", "selfplay/distinct_positions", "share"),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    runs: tyro.conf.Positional[tuple[pathlib.Path, ...]]
    """Run folders."""
    output: pathlib.Path | None = None
    """The PNG to write; by default curves.png in the first run's folder."""


def draw(runs: tuple[pathlib.Path, ...], output: pathlib.Path) -> None:
    """Writes the picture; the horizontal axis is wall time, compilation included."""
    figure, axes = plt.subplots(3, 3, figsize=(13, 9), constrained_layout=True)
    for color, run in enumerate(runs):
        rows = read_metrics(run)
        for axis, (title, name, unit) in zip(axes.flat, PANELS, strict=True):
            points = [row for row in rows if row.get(name) is not None]
            minutes = [row["time/seconds"] / 60 for row in points]
            values = [row[name] for row in points]
            axis.plot(minutes, values, color=f"C{color}", label=f"{run.name}", linewidth=1.4)
            if name == "evaluation/score" and points:
                low, high = ([row[f"{name}_{end}"] for row in points] for end in ("low", "high"))
                axis.fill_between(minutes, low, high, color=f"C{color}", alpha=0.15, linewidth=0)
                for minute, value, row in zip(minutes, values, points, strict=True):
                    label = f"{row['evaluation/num_playouts']}"
                    axis.annotate(
                        label, (minute, value), fontsize=6, textcoords="offset points", xytext=(0, 4)
                    )
            if name == "selfplay/black_wins" and points:
                white = [row["selfplay/white_wins"] for row in points]
                axis.plot(minutes, white, color=f"C{color}", linestyle=":", linewidth=1.4)
                axis.set_title(f"{title} (dotted: white)", fontsize=10)
            else:
                axis.set_title(title, fontsize=10)
            axis.set_ylabel(unit, fontsize=8)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("minutes")
    axes.flat[0].set_ylim(-0.02, 1.05)
    axes.flat[0].legend(fontsize=7, loc="lower right")
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    if not arguments.runs:
        print("error: name at least one run folder", file=sys.stderr)
        return 2
    output = arguments.output or arguments.runs[0] / "curves.png"
    try:
        draw(arguments.runs, output)
    except FileNotFoundError as error:
        print(
            f"error: {error.filename}: no such file; give run folders of experiments/train.py",
            file=sys.stderr,
        )
        return 2
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
