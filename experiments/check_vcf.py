"""Wins by continuous fours beside a solver of record in plain Python, every claimed win played out. Try:

    python experiments/check_vcf.py --positions 1000
    python experiments/check_vcf.py --positions 10000 --rule renju --json rows.jsonl

Half of the positions are random stones, colours in turn; the others come from games in which the moves are
drawn from an agent's raw policy. Counted are the positions that hold a win of the asked length by the solver
of record, how many of them are found, and false wins, of which there must be none: every claimed line is
played with the plain rules, and at each four the only reply that stops it must be the one that the line has.
Needs the extra `test` for renju.
"""

import dataclasses
import functools
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
from record_vcf import OutOfNodesError, RecordVcf
from rows import append_row, command_line

from gomoku_jax.agent import Agent, AgentError, load_agent
from gomoku_jax.config import Rule
from gomoku_jax.encode import legal_action_masks, states_from_positions
from gomoku_jax.game import Gomoku, State, parse_board, random_opening
from gomoku_jax.metrics import provenance
from gomoku_jax.search import mask_logits, network_evaluator
from gomoku_jax.tactics import WON, check_bounds, solve_vcf

CHUNK = 100  # positions a task of a process
Position = tuple[list[int], int, list[int]]  # stones, the side to move, the claimed line


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    positions: int = 1000
    """How many."""
    board: str = "15x15x5"
    """ROWSxCOLUMNSxK."""
    rule: Rule = "freestyle"
    """The rule."""
    agent: str = "15x15x5"
    """Whose policy plays the games that half of the positions come from."""
    stones: tuple[int, int] = (10, 80)
    """Fewest and most stones of a random position; games are as long."""
    depth: int = 9
    """Plies of a win at most, an odd number."""
    nodes: int = 1000
    """Fours tried in a position at most."""
    record_nodes: int = 20_000
    """The same of the solver of record."""
    seed: int = 0
    """Of the positions."""
    processes: int = os.cpu_count() or 1
    """Of the solver of record."""
    json: pathlib.Path | None = None
    """Append the result to this file as a JSON line, with versions, commit and hardware."""


def random_states(game: Gomoku, arguments: Arguments, count: int) -> State:
    """Random stones."""
    low, high = arguments.stones

    def one(key: jax.Array) -> State:
        stones = jax.random.randint(jax.random.fold_in(key, high), (), low, high + 1)
        return random_opening(game, key, stones, high)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(arguments.seed), count))


def states_from_games(game: Gomoku, agent: Agent, arguments: Arguments, count: int) -> State:
    """Positions of games whose moves are drawn from an agent's raw policy, ended ones left out."""
    low, high = arguments.stones
    evaluate = network_evaluator(game, agent.network)

    @jax.jit
    def play(key: jax.Array) -> State:
        length_key, play_key = jax.random.split(key)
        lengths = jax.random.randint(length_key, (count,), low, high + 1)
        states = jax.vmap(lambda _: game.init())(jnp.arange(count))

        def move(states: State, i: jax.Array) -> tuple[State, None]:
            logits = mask_logits(
                evaluate(agent.params, states).policy_logits, legal_action_masks(game, states)
            )
            actions = jax.random.categorical(jax.random.fold_in(play_key, i), logits)
            after = jax.vmap(game.step)(states, actions)
            keep = (i < lengths) & ~after.terminated
            restore = jax.vmap(lambda k, new, old: jax.tree.map(functools.partial(jnp.where, k), new, old))
            return restore(keep, after, states), None

        return jax.lax.scan(move, states, jnp.arange(high))[0]

    return play(jax.random.key(arguments.seed + 1))


def replay(plain: RecordVcf, board: list[int], color: int, line: list[int]) -> bool:
    """Whether a claimed line wins: legal fours, and no reply that stops one but the line's own."""
    board = [*board, 3]
    for number, cell in enumerate(line):
        if board[cell] != 0:
            return False
        if number % 2 == 1:
            stops = list(plain.replies(board, color))
            # Under caro several may stop it; that the others lose, too, is for the solver of record.
            if cell not in stops or (len(stops) > 1 and not plain.rule.startswith("caro")):
                return False
            board[cell] = -color
            continue
        if not plain.is_legal(board, cell, color):
            return False
        wins_at_once = cell in plain.fives(board, color)
        board[cell] = color
        if wins_at_once:
            return number == len(line) - 1
        if plain.fives(board, -color) or not plain.fives(board, color):
            return False
    return not list(plain.replies(board, color))


def judge(
    make: tuple[int, int, int, str, int], fours: int, positions: list[Position]
) -> list[tuple[int, bool]]:
    """For each position: 1 a win by the solver of record, 0 none, -1 not known; and does the claim hold?"""
    plain = RecordVcf(*make)
    verdicts = []
    for board, color, line in positions:
        try:
            known = int(plain.solve(board, color, fours))
        except OutOfNodesError:
            known = -1
        verdicts.append((known, not line or (known != 0 and replay(plain, board, color, line))))
    return verdicts


def check(arguments: Arguments) -> dict:
    """Compares, and gives the row."""
    game = parse_board(arguments.board, arguments.rule)
    half = arguments.positions // 2
    parts = [random_states(game, arguments, arguments.positions - half)]
    if half:
        parts.append(states_from_games(game, load_agent(arguments.agent), arguments, half))
    boards = np.concatenate([np.asarray(part.board) for part in parts])
    colors = np.concatenate([np.asarray(part.to_play) for part in parts])
    states = states_from_positions(
        jnp.asarray(boards), jnp.asarray(colors), jnp.full(len(boards), -1, jnp.int32)
    )
    found = jax.device_get(solve_vcf(game, states, arguments.depth, arguments.nodes))
    positions: list[Position] = [
        (board.reshape(-1).tolist(), int(color), [int(a) for a in line if a >= 0])
        for board, color, line in zip(boards, colors, found.line, strict=True)
    ]
    chunks = [positions[i : i + CHUNK] for i in range(0, len(positions), CHUNK)]
    make = (*game.shape, game.k, game.rule, arguments.record_nodes)
    work = functools.partial(judge, make, (arguments.depth - 1) // 2)
    started, verdicts = time.monotonic(), []
    for answer in map_over(work, chunks, arguments.processes):
        verdicts += answer
        print(f"{len(verdicts)} positions", flush=True)
    known = np.array([verdict for verdict, _ in verdicts])
    holds = np.array([claim for _, claim in verdicts])
    won = found.result == WON
    is_false = ~holds | (won & (known == 0))
    for index in np.flatnonzero(is_false):
        print(f"position {index}: a false win, {positions[index]}")
    return {
        "check": "vcf",
        "game": game.facts(),
        "positions": len(positions),
        "depth": arguments.depth,
        "nodes": arguments.nodes,
        "with_win": int((known == 1).sum()),
        "found": int((won & (known == 1)).sum()),
        "claimed": int(won.sum()),
        "false_wins": int(is_false.sum()),
        "unknown_to_record": int((known == -1).sum()),
        "seed": arguments.seed,
        "seconds": time.monotonic() - started,
        "processes": arguments.processes,
    }


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 1 where a claimed win is none."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__)
    try:
        for name in ("positions", "nodes", "record_nodes", "processes"):
            if getattr(arguments, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(arguments, name)}: at least 1")
        check_bounds(arguments.depth)
        low, high = arguments.stones
        if not 0 <= low <= high < parse_board(arguments.board, arguments.rule).num_actions:
            raise ValueError(f"--stones {low} {high}: two numbers in order, fewer than the board has points")
        check_outputs(arguments.json)
        row = check(arguments)
        share = row["found"] / max(row["with_win"], 1)
        print(
            f"{row['with_win']} positions hold a win of {row['depth']} plies, {row['found']} are found "
            f"({share:.3f}); {row['claimed']} claimed, {row['false_wins']} of them false"
        )
        if arguments.json is not None:
            command = command_line("check_vcf.py", sys.argv[1:] if argv is None else argv)
            append_row(arguments.json, row | provenance() | {"command": command})
    except (AgentError, ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if row["false_wins"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
