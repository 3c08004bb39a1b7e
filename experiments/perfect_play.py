"""How close to perfect a player is, on the solved positions: what `evaluate.py --solved` prints."""

import pathlib
import time
from collections.abc import Sequence
from typing import Any

import matches
from rows import append_row

from gomoku_jax.agent import PlayerSpec
from gomoku_jax.game import Gomoku
from gomoku_jax.metrics import provenance
from gomoku_jax.suites import (
    PerfectPlay,
    Share,
    SolvedPositions,
    kept_share,
    load_solved,
    measure_perfect_play,
)

SIMULATIONS = (0, 32, 100, 400, 1600)


def _share(share: Share) -> dict[str, Any]:
    return {"count": share.count, "total": share.total, "share": share.share, "interval": share.interval}


def scores(
    spec: PlayerSpec, solved: SolvedPositions, simulations: Sequence[int], seed: int
) -> list[dict[str, Any]]:
    """A dict for each number of simulations; one, of moves only, for players without a network."""
    if spec.agent is None:
        return [{"kept": _share(kept_share(spec.make(solved.game), solved, seed))}]
    agent = spec.agent
    results: list[PerfectPlay] = measure_perfect_play(
        solved, agent.network, agent.params, agent.search, simulations, seed
    )
    return [
        {
            "simulations": result.num_simulations,
            "kept": _share(result.kept),
            "sign_errors": _share(result.sign_errors),
            "value_error": result.value_error,
            "value_error_interval": result.value_error_interval,
        }
        for result in results
    ]


def _shown(share: dict[str, Any]) -> str:
    low, high = share["interval"]
    return f"{share['share']:.3f} [{low:.3f}, {high:.3f}]"


def report(
    spec: PlayerSpec,
    game: Gomoku,
    simulations: Sequence[int] | None,
    positions: int | None,
    seed: int,
    output: pathlib.Path | None,
    command: str,
) -> None:
    """Scores one player, prints a table and appends a JSON row.

    Args:
        spec: the player.
        game: one of the solved boards.
        simulations: of an agent; None is 0 (the network alone), 32, 100, 400 and 1600.
        positions: how many of the set; None is all.
        seed: of players and ties.
        output: the file for the row; None writes none.
        command: that repeats it, for the row.

    Raises:
        ValueError: no solved positions for this board, or bad numbers.
    """
    solved = load_solved(game)
    if positions is not None and not 1 <= positions <= len(solved):
        raise ValueError(f"--positions {positions}: from 1 to {len(solved)}")
    if simulations is not None and any(number < 0 for number in simulations):
        raise ValueError(f"--solved-simulations {min(simulations)}: 0, the network alone, or more")
    solved = solved.take(positions or len(solved))
    started = time.monotonic()
    rows = scores(spec, solved, simulations or SIMULATIONS, seed)
    seconds = time.monotonic() - started
    name, _ = matches.split_simulations(spec.name)
    print(f"{name} on {len(solved)} solved positions of {game}:")
    print(f"{'simulations':>11}  {'value-keeping moves':22}  {'value error':22}  sign errors")
    for row in rows:
        line = f"{row.get('simulations', ''):>11}  {_shown(row['kept']):22}"
        if "value_error" in row:
            low, high = row["value_error_interval"]
            error = f"{row['value_error']:.3f} [{low:.3f}, {high:.3f}]"
            line += f"  {error:22}  {_shown(row['sign_errors'])}"
        print(line)
    chance = (solved.keeps.sum(-1) / (solved.values > -2).sum(-1)).mean()
    print(f"A random move keeps the value in {chance:.3f} of them. {seconds:.1f} s")
    if output is not None:
        row = {
            "player": matches.split_simulations(matches.short_name(spec.name, spec, 0.0))[0],
            "game": game.facts(),
            "positions": len(solved),
            "seed": seed,
            "solved": rows,
            "seconds": round(seconds, 1),
            **(
                {"info": spec.agent.info, "agent": matches.player_facts(spec)}
                if spec.agent is not None
                else {}
            ),
            **provenance(),
            "command": command,
        }
        append_row(output, row)
