"""Finds openings that leave a board even, by the search of an agent, for fair matches. Try:

    python experiments/balance.py 8x8x5.txt --agent 9x9x5 --board 8x8x5 --simulations 400
    python experiments/balance.py openings.txt --agent runs/mine --stones 4 --sample 2000 --count 100
    python experiments/evaluate.py runs/mine runs/other --openings openings.txt

All openings of so many stones, or a random sample of them, no two alike when turned or mirrored, are
searched, and those whose value is nearest to 0 are written, one a line, as offsets from the centre.
"""

import dataclasses
import itertools
import math
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence

import jax
import matches
import numpy as np
import tyro
from rows import command_line

from gomoku_jax.agent import Agent, AgentError, load_agent
from gomoku_jax.arena import replayed_opening
from gomoku_jax.compilation import use_compilation_cache
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku, format_action
from gomoku_jax.metrics import provenance
from gomoku_jax.play.files.openings import write_openings
from gomoku_jax.suites.perfect_play import choose_and_value
from gomoku_jax.symmetry import canonical_position

MOST = 200_000  # openings in full, before symmetry


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    output: tyro.conf.Positional[pathlib.Path]
    """The file of openings to write."""
    agent: str = "9x9x5"
    """Whose search judges: a run or agent folder, a published .model file or the name of a shipped agent."""
    board: str | None = None
    """ROWSxCOLUMNSxK; by default the agent's."""
    rule: Rule | None = None
    """The rule; by default the agent's."""
    stones: int = 2
    """Of an opening; black has the first."""
    simulations: int = 400
    """Of the search of each opening."""
    sample: int | None = None
    """Search this many random openings instead of all."""
    count: int = 100
    """Openings to write, at most."""
    max_value: float = 0.5
    """Leave out openings whose value is further from 0, of the range from -1 to 1."""
    batch: int = 64
    """Openings searched at once."""
    seed: int = 0
    """Of the sample."""


def num_openings(game: Gomoku, stones: int) -> int:
    """How many positions of so many stones there are, before symmetry."""
    black = (stones + 1) // 2
    return math.comb(game.num_actions, black) * math.comb(game.num_actions - black, stones // 2)


def all_openings(game: Gomoku, stones: int) -> Iterator[list[int]]:
    """Every position of so many stones once, as moves."""
    points = range(game.num_actions)
    for black in itertools.combinations(points, (stones + 1) // 2):
        rest = [point for point in points if point not in black]
        for white in itertools.combinations(rest, stones // 2):
            yield interleave(black, white)


def interleave(black: Sequence[int], white: Sequence[int]) -> list[int]:
    """Moves in turns, black first."""
    return [(black, white)[i % 2][i // 2] for i in range(len(black) + len(white))]


def candidates(game: Gomoku, stones: int, sample: int | None, seed: int) -> list[list[int]]:
    """Openings, no two of them one position turned or mirrored; the first image found stands for all.

    Raises:
        ValueError: stones that do not fit, or too many openings to search all of them.
    """
    if not 1 <= stones < game.num_actions:
        raise ValueError(f"--stones {stones}: from 1 to {game.num_actions - 1}")
    number = num_openings(game, stones)
    if sample is None and number > MOST:
        raise ValueError(f"--stones {stones}: {number:,} openings on {game}; give --sample")
    if sample is not None and sample < 1:
        raise ValueError(f"--sample {sample}: at least 1")
    rng = np.random.default_rng(seed)
    found: dict[tuple, list[int]] = {}
    if number <= MOST:
        for opening in all_openings(game, stones):
            found.setdefault(canonical_position(*game.shape, opening), opening)
        openings = list(found.values())
        if sample is None or sample >= len(openings):
            return openings
        return [openings[i] for i in np.sort(rng.choice(len(openings), sample, replace=False))]
    for _ in range(20 * (sample or 0)):
        opening = rng.permutation(game.num_actions)[:stones].tolist()
        found.setdefault(canonical_position(*game.shape, opening), opening)
        if len(found) == sample:
            break
    return list(found.values())


def evaluate(
    agent: Agent, game: Gomoku, openings: Sequence[Sequence[int]], simulations: int, batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Values [M] by search, from the view of the side to move; and whether the opening is none [M].

    It is none where it ends the game, or the rules forbid a move of it. See `choose_and_value` for what a
    value is.
    """
    choose = choose_and_value(game, agent.network, agent.search, simulations)

    @jax.jit
    def values(moves: jax.Array) -> tuple[jax.Array, jax.Array]:
        states, _ = jax.vmap(lambda row: replayed_opening(game, row))(moves)
        unplayable = states.terminated | (states.move_count < moves.shape[1])
        return choose(agent.params, jax.random.key(0), states)[1], unplayable

    rows = np.asarray(openings, np.int32)
    padded = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % batch, axis=0)])
    parts = [jax.device_get(values(padded[i : i + batch])) for i in range(0, len(padded), batch)]
    value, ended = (np.concatenate(columns)[: len(rows)] for columns in zip(*parts, strict=True))
    return value, ended


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        for name in ("simulations", "count", "batch"):
            if getattr(arguments, name) < 1:
                raise ValueError(f"--{name} {getattr(arguments, name)}: at least 1")
        matches.check_outputs(arguments.output)
        use_compilation_cache()
        agent = load_agent(arguments.agent)
        game = dataclasses.replace(agent.game, rule=arguments.rule or agent.game.rule)
        if arguments.board is not None:
            game = matches.choose_game(arguments.board, arguments.rule or agent.game.rule, [])
        agent.player(arguments.simulations, game)  # refuses a board that its network cannot play
        openings = candidates(game, arguments.stones, arguments.sample, arguments.seed)
        print(f"{len(openings)} different openings of {arguments.stones} stones on {game}", flush=True)
        values, ended = evaluate(agent, game, openings, arguments.simulations, arguments.batch)
        order = [i for i in np.argsort(np.abs(values), kind="stable") if not ended[i]]
        chosen = [i for i in order if abs(values[i]) <= arguments.max_value][: arguments.count]
        quantiles = np.quantile(values[order], [0, 0.25, 0.5, 0.75, 1]) if order else []
        print(
            "values for the side to move, least to greatest in quarters:", *(f"{q:+.3f}" for q in quantiles)
        )
        if not chosen:
            raise ValueError(f"--max-value {arguments.max_value}: no opening is as even as that")
        command = command_line("balance.py", sys.argv[1:] if argv is None else argv)
        facts = provenance()
        lines = [
            f"# {game}: of {len(order)} openings of {arguments.stones} stones the {len(chosen)} most even",
            f"# {shlex.quote(pathlib.Path(arguments.agent).name)}, {arguments.simulations} simulations; "
            f"commit {facts['commit']}; {command}",
        ]
        for i in chosen:
            moves = "".join(format_action(game, move) for move in openings[i])
            print(f"{moves} {values[i]:+.3f}")
            lines += [f"# {moves} {values[i]:+.3f}", write_openings(game, [openings[i]]).rstrip("\n")]
        arguments.output.write_text("\n".join(lines) + "\n")
        print(f"{len(chosen)} openings, values up to {abs(values[chosen[-1]]):.3f}: {arguments.output}")
    except (AgentError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
