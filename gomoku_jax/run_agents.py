"""The agents that a training run keeps, and what each tells of where it came from."""

import functools
import pathlib
from typing import Any

import jax

from gomoku_jax.agent import AGENT_FOLDER, AgentError, read_card, save_agent
from gomoku_jax.checkpoint import TrainingState, playing_params
from gomoku_jax.config import TrainConfig
from gomoku_jax.files import Keep, keep_now
from gomoku_jax.metrics import provenance


def save_run_agent(
    config: TrainConfig,
    state: TrainingState,
    workdir: pathlib.Path,
    name: str,
    keep: Keep = keep_now,
    **facts: Any,
) -> None:
    """Writes the run's present agent into `agents/NAME`.

    Args:
        config: the run's.
        state: the run's; the parameters that play are kept, the averaged ones where there are such.
        workdir: the run folder.
        name: "best", "latest" or a snapshot's.
        keep: does the writing.
        facts: more for the agent's `info`, which tells iteration, games, seconds, seed, commit and hardware,
            and the rules where it learned several.
    """
    progress = state.progress
    info: dict[str, Any] = {
        "iteration": int(progress.iteration),
        "games": int(progress.games),
        "positions": int(progress.positions),
        "seconds": round(float(progress.seconds), 1),
        "cpu_seconds": round(float(progress.cpu_seconds), 1),
    }
    info |= facts | {"seed": config.seed} | _origin()
    if config.other_rules:
        info["rules"] = [game.rule for game in config.games]
    if config.init_from is not None:
        info |= _ancestor(config.init_from)
    folder = workdir / AGENT_FOLDER / name
    params = jax.device_get(playing_params(config, state))
    keep(
        f"{AGENT_FOLDER}/{name}",
        lambda: save_agent(folder, config.game, config.network, config.search, params, info),
    )


@functools.cache
def _origin() -> dict[str, Any]:
    """What an agent tells of the code and the machine that made it."""
    facts = provenance()
    return {name: facts[name] for name in ("commit", "processor", "cores", "devices")}


@functools.cache
def _ancestor(path: str) -> dict[str, Any]:
    """What an agent tells of the one it began from: its name, and all training before, in seconds."""
    folder = pathlib.Path(path)
    run = f"{folder.parent.parent.name}/" if folder.parent.name == AGENT_FOLDER else ""
    facts: dict[str, Any] = {"init_from": f"{run}{folder.name}"}
    try:
        info = read_card(path)["info"]
    except AgentError:  # moved away since the run began
        return facts
    return facts | {"seconds_before": info.get("seconds", 0) + info.get("seconds_before", 0)}
