"""The network inside a loop, as search runs it: the plain Flax module, and the one prepared for inference."""

import dataclasses
import functools
from typing import Literal

import jax
import jax.numpy as jnp

from benchmarks.common import (
    Benchmark,
    describe,
    keep_going,
    medians,
    on_accelerator,
    openings,
    show,
)
from gomoku_jax.config import NetworkConfig
from gomoku_jax.encode import observe
from gomoku_jax.game import parse_board
from gomoku_jax.inference import apply_prepared, prepare
from gomoku_jax.network import apply_network, flops_per_position, init_network


@dataclasses.dataclass(frozen=True)
class Net(Benchmark):
    """Evaluations per second of networks inside a loop."""

    boards: tuple[str, ...] = ("6x6x4", "8x8x5", "9x9x5", "15x15x5")
    """ROWSxCOLUMNSxK, one measurement each."""
    batches: tuple[int, ...] = ()
    """Positions at once; by default 64 and 256, on accelerators 256 and 2048."""
    kinds: tuple[Literal["conv", "resnet"], ...] = ("conv", "resnet")
    channels: int = 32
    """Of the resnet."""
    blocks: int = 3
    """Of the resnet."""
    repeats: int = 5
    """Measurements; the median counts."""


def best_matmul(repeats: int) -> float:
    """FLOP/s of the fastest float32 matrix product found here."""
    runs, flops = {}, {}
    for size in (512, 1024, 2048, *((8192,) if on_accelerator() else ())):
        x = jax.random.normal(jax.random.key(0), (size, size), jnp.float32)
        runs[str(size)] = functools.partial(jax.jit(jnp.dot), x, x)
        flops[str(size)] = 2 * size**3
    seconds = medians(runs, repeats)
    return max(flops[name] / seconds[name] for name in runs)


def in_loop(apply, count: int):
    """A program that evaluates a batch `count` times, in sequence, its weights arguments."""

    @jax.jit
    def program(params, observations):
        return jax.lax.fori_loop(0, count, lambda i, x: keep_going(apply(params, x), x), observations)

    return program


def run(arguments: Net) -> list[dict]:
    """One row a network, board and batch."""
    peak = best_matmul(arguments.repeats)
    batches = arguments.batches or ((256, 2048) if on_accelerator() else (64, 256))
    rows, cells = [], []
    for kind in arguments.kinds:
        config = NetworkConfig(kind, channels=arguments.channels, num_blocks=arguments.blocks)
        half = dataclasses.replace(config, inference_dtype="bfloat16")
        for board in arguments.boards:
            game = parse_board(board)
            params = init_network(config, game, jax.random.key(0))
            flops = flops_per_position(config, game)
            for batch in batches:
                observations = jax.jit(functools.partial(observe, game))(openings(game, batch))
                count = max(3, min(200, int((2e11 if on_accelerator() else 2e9) / (flops * batch))))
                runs = {
                    "plain": functools.partial(
                        in_loop(functools.partial(apply_network, config), count), params, observations
                    ),
                    "prepared": functools.partial(
                        in_loop(functools.partial(apply_prepared, config), count),
                        prepare(config, params),
                        observations,
                    ),
                    "bfloat16": functools.partial(
                        in_loop(functools.partial(apply_prepared, half), count),
                        prepare(half, params),
                        observations,
                    ),
                }
                rate = {
                    name: batch * count / value for name, value in medians(runs, arguments.repeats).items()
                }
                row = {
                    "benchmark": "net",
                    "network": describe(config),
                    "board": board,
                    "batch": batch,
                    "flops_per_position": flops,
                    "matmul_flops_per_second": peak,
                } | {f"{name}_per_second": value for name, value in rate.items()}
                rows.append(row)
                cells.append(
                    (
                        describe(config),
                        board,
                        str(batch),
                        f"{rate['plain']:,.0f}",
                        f"{rate['prepared']:,.0f}",
                        f"{rate['prepared'] / rate['plain']:.2f}",
                        f"{rate['prepared'] * flops / 1e9:,.0f}",
                        f"{rate['prepared'] * flops / peak:.0%}",
                        f"{rate['bfloat16']:,.0f}",
                    )
                )
    columns = "network", "board", "batch", "plain/s", "prepared/s", "ratio", "GFLOP/s", "of matmul", "bf16/s"
    show(f"Networks inside a loop; best matmul {peak / 1e9:,.0f} GFLOP/s", columns, cells)
    return rows
