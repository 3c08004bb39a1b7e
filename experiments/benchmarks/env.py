"""Random play with restart, thousands of games at once; other environments beside it."""

import dataclasses
import functools
import importlib.util
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from benchmarks.common import Benchmark, medians, on_accelerator, show
from gomoku_jax.config import Rule
from gomoku_jax.game import Gomoku, State, parse_board, random_actions


@dataclasses.dataclass(frozen=True)
class Env(Benchmark):
    """Steps per second of random play with restart."""

    board: str = "15x15x5"
    """ROWSxCOLUMNSxK."""
    rule: Rule = "freestyle"
    batches: tuple[int, ...] = ()
    """Games at once, one measurement each; by default 1 to 10,000, on accelerators to 262,144."""
    steps: int = 400
    """Moves of each game in one measurement."""
    repeats: int = 5
    """Measurements; the median counts."""
    others: bool = False
    """Measure ludax's Gomoku, OpenSpiel's mnk and pgx's Hex too, those that are installed (extra `bench`)."""


@functools.partial(jax.jit, static_argnums=(0, 2))
def random_play(game: Gomoku, key: jax.Array, shape: tuple[int, int]) -> tuple[State, jax.Array]:
    """Random moves in `shape` = (games, steps), a fresh game after every end.

    Returns:
        The games as they stand, and how many have ended, int32 [].
    """
    num_games, num_steps = shape
    fresh = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_games, *x.shape)), game.init())

    def step(carry, key):
        states, ended = carry
        states = jax.vmap(game.step)(states, random_actions(game, key, states))
        ended += states.terminated.sum(dtype=jnp.int32)
        restart = jax.vmap(lambda done, new, old: jax.tree.map(functools.partial(jnp.where, done), new, old))
        return (restart(states.terminated, fresh, states), ended), None

    (states, ended), _ = jax.lax.scan(step, (fresh, jnp.int32(0)), jax.random.split(key, num_steps))
    return states, ended


def state_bytes(game: Gomoku) -> int:
    """Bytes of one game."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(jax.eval_shape(game.init)))


def run(arguments: Env) -> list[dict]:
    """One row a batch size and environment."""
    game = parse_board(arguments.board, arguments.rule)
    batches = arguments.batches or (
        (4096, 65_536, 262_144) if on_accelerator() else (1, 64, 1024, 4096, 10_000)
    )
    rows, cells = [], []
    for batch in batches:
        # The bound: every byte of a game is read and written once a step.
        boards = jnp.zeros((batch, state_bytes(game)), jnp.int8)
        copies = jax.jit(
            lambda x: jax.lax.fori_loop(0, 100, lambda i, x: jax.lax.optimization_barrier(x + jnp.int8(1)), x)
        )
        runs = {
            "play": functools.partial(random_play, game, jax.random.key(1), (batch, arguments.steps)),
            "copy": functools.partial(copies, boards),
        }
        seconds = medians(runs, arguments.repeats)
        ended = int(random_play(game, jax.random.key(1), (batch, arguments.steps))[1])
        steps = batch * arguments.steps / seconds["play"]
        bound = batch * 100 / seconds["copy"]
        row = {
            "benchmark": "env",
            "environment": "gomoku_jax",
            "game": str(game),
            "batch": batch,
            "steps_per_second": steps,
            "games_per_second": ended / seconds["play"],
            "bytes_per_step": 2 * state_bytes(game),
            "copies_per_second": bound,
        }
        rows.append(row)
        cells.append(("gomoku_jax", f"{batch:,}", f"{steps:,.0f}", f"{steps / bound:.1%}"))
    if arguments.others:
        for name, (module, measure) in _OTHERS.items():
            if importlib.util.find_spec(module) is None:
                print(f"{name}: not installed, pip install -e '.[bench]'")
                continue
            batch, steps = measure(arguments.repeats)
            rows.append({"benchmark": "env", "environment": name, "batch": batch, "steps_per_second": steps})
            cells.append((name, f"{batch:,}", f"{steps:,.0f}", ""))
    show(f"Random play with restart, {game}", ("environment", "games", "steps/s", "of a copy"), cells)
    return rows


def _jax_environment(step, init, mask, batch: int, repeats: int, steps: int = 50) -> tuple[int, float]:
    """Random play of any environment with pgx's interface, in one scan."""

    @jax.jit
    def play(states, key):
        def move(states, key):
            keys = jax.random.split(key, 2)
            logits = jnp.where(mask(states), 0.0, -jnp.inf)
            action = jax.random.categorical(keys[0], logits, axis=-1)
            after = jax.vmap(step)(states, action.astype(jnp.int32))
            done = after.terminated
            fresh = jax.vmap(init)(jax.random.split(keys[1], batch))
            choose = jax.vmap(lambda d, a, b: jax.tree.map(lambda x, y: jnp.where(d, x, y), a, b))
            return choose(done, fresh, after), None

        return jax.lax.scan(move, states, jax.random.split(key, steps))[0]

    states = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), batch))
    seconds = medians({"play": lambda: play(states, jax.random.key(1))}, repeats)["play"]
    return batch, batch * steps / seconds


def _ludax(repeats: int) -> tuple[int, float]:
    from ludax import LudaxEnvironment  # pyright: ignore[reportMissingImports]
    from ludax.games import gomoku  # pyright: ignore[reportMissingImports]

    env = LudaxEnvironment(game_str=gomoku)
    return _jax_environment(env.step, env.init, lambda s: s.legal_action_mask, 4096, repeats)


def _pgx_hex(repeats: int) -> tuple[int, float]:
    import pgx  # pyright: ignore[reportMissingImports]

    env = pgx.make("hex")
    return _jax_environment(env.step, env.init, lambda s: s.legal_action_mask, 4096, repeats)


def _open_spiel(repeats: int) -> tuple[int, float]:
    import random

    import pyspiel  # pyright: ignore[reportMissingImports]

    game = pyspiel.load_game("mnk(m=15,n=15,k=5)")
    rng = random.Random(0)
    rates = []
    for _ in range(repeats):
        state, started, steps = game.new_initial_state(), time.perf_counter(), 0
        while time.perf_counter() - started < 1.0:
            state.apply_action(rng.choice(state.legal_actions()))
            steps += 1
            if state.is_terminal():
                state = game.new_initial_state()
        rates.append(steps / (time.perf_counter() - started))
    return 1, sorted(rates)[len(rates) // 2]


# name -> (module that must be there, measure)
_OTHERS: dict[str, tuple[str, Callable[[int], tuple[int, float]]]] = {
    "ludax gomoku 15x15": ("ludax", _ludax),
    "OpenSpiel mnk 15x15, from Python": ("pyspiel", _open_spiel),
    "pgx hex 11x11": ("pgx", _pgx_hex),
}
