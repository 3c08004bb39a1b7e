"""Search against the network alone, and the fast loop against mctx's own."""

import dataclasses
import functools
import math
import pathlib
import time
from typing import Any, Literal

import jax
import numpy as np

from benchmarks.common import (
    Benchmark,
    describe,
    keep_going,
    medians,
    on_accelerator,
    openings,
    show,
)
from gomoku_jax.agent import load_agent
from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.encode import observe
from gomoku_jax.game import Gomoku, State, parse_board
from gomoku_jax.inference import prepare
from gomoku_jax.network import Params, apply_network, init_network
from gomoku_jax.search import init_tree, network_evaluator, run_simulations, search_with


@dataclasses.dataclass(frozen=True)
class Search(Benchmark):
    """Simulations per second, the network alone beside them."""

    agent: pathlib.Path | None = None
    """What `load_agent` takes: a run folder, a published file, a shipped agent; else an untrained network."""
    board: str | None = None
    """ROWSxCOLUMNSxK; by default the agent's, or 6x6x4."""
    network: Literal["conv", "resnet"] = "conv"
    """The untrained network."""
    algorithm: Literal["puct", "gumbel"] = "puct"
    q_scaling: Literal["none", "min_max"] = "none"
    simulations: tuple[int, ...] = (100, 400, 1600)
    """A move, one measurement each."""
    games: int = 0
    """At once; by default 64, on accelerators 1024."""
    repeats: int = 5
    """Measurements; the median counts."""
    stock: bool = True
    """Measure mctx's own loop too."""


def chosen_network(arguments: Search) -> tuple[Gomoku, NetworkConfig, Params, str]:
    """The game, the network, and its name."""
    if arguments.agent is None:
        game = parse_board(arguments.board or "6x6x4")
        config = NetworkConfig(arguments.network)
        return game, config, init_network(config, game, jax.random.key(0)), "untrained"
    agent = load_agent(arguments.agent)
    game = parse_board(arguments.board) if arguments.board else agent.game
    if agent.network.kind == "conv" and game.shape != agent.game.shape:
        raise ValueError(f"--board {arguments.board}: the agent's conv network plays {agent.game} only")
    return game, agent.network, agent.params, arguments.agent.name


def depths(parent: np.ndarray) -> np.ndarray:
    """Depth of every node [B, N], 0 where there is none."""
    depth = np.zeros(parent.shape, int)
    for node in range(1, parent.shape[1]):
        above = np.take_along_axis(depth, np.maximum(parent[:, node, None], 0), axis=1)[:, 0]
        depth[:, node] = np.where(parent[:, node] >= 0, above + 1, 0)
    return depth


def tree_bytes(tree: Any) -> int:
    """Bytes of one node of one game, over all arrays that have nodes."""
    nodes = [x for x in jax.tree.leaves(tree) if x.ndim > 1 and x.shape[1] == tree.capacity]
    return sum(math.prod(x.shape[2:]) * x.dtype.itemsize for x in nodes)


def run(arguments: Search) -> list[dict]:
    """One row a number of simulations."""
    game, config, params, name = chosen_network(arguments)
    batch = arguments.games or (1024 if on_accelerator() else 64)
    states = openings(game, batch)
    evaluate, prepared = network_evaluator(game, config), prepare(config, params)

    def plain(params, states):
        return apply_network(config, params, observe(game, states, config.planes))

    rows, cells = [], []
    for count in arguments.simulations:
        search = SearchConfig(
            arguments.algorithm,
            num_simulations=count,
            dirichlet_fraction=0.0,
            gumbel_scale=0.0,
            q_scaling=arguments.q_scaling,
        )
        row, cell = _measure(game, evaluate, prepared, plain, params, states, search, arguments)
        facts = {"benchmark": "search", "network": describe(config), "weights": name, "game": str(game)}
        rows.append(
            facts | {"games": batch, "algorithm": arguments.algorithm, "q_scaling": arguments.q_scaling} | row
        )
        cells.append((str(count), *cell))
    columns = (
        "simulations",
        "network/s",
        "search/s",
        "search/network",
        "mctx/s",
        "fast/mctx",
        "mctx, plain network/s",
        "depth mean / deepest",
        "compile s",
        "rows differ",
    )
    kind = f"{arguments.algorithm}, Q scaling {arguments.q_scaling}"
    show(f"{kind}, {describe(config)} ({name}), {game}, {batch} games", columns, cells)
    ours, theirs = rows[0]["bytes_per_node"], rows[0]["mctx_bytes_per_node"]
    print(f"A node takes {ours:,} bytes here, {theirs:,} in mctx.")
    return rows


def _measure(game, evaluate, prepared, plain, params, states: State, config: SearchConfig, arguments: Search):
    batch, count = states.to_play.shape[0], config.num_simulations
    key = jax.random.key(1)

    def searcher(evaluate, backend):
        config_of = dataclasses.replace(config, backend=backend)
        return jax.jit(
            lambda params, key, states: search_with(game, evaluate, params, key, states, config_of)
        )

    @jax.jit
    def network_alone(params, states):
        def again(_, states):
            board = keep_going(evaluate(params, states), states.board)
            return states.replace(board=board)

        return jax.lax.fori_loop(0, count, again, states)

    fast = searcher(evaluate, "fast")
    started = time.perf_counter()
    fast_compiled = fast.lower(prepared, key, states).compile()
    compile_seconds = time.perf_counter() - started
    runs = {
        "network": functools.partial(network_alone, prepared, states),
        "fast": functools.partial(fast_compiled, prepared, key, states),
    }
    if arguments.stock:
        runs |= {
            "mctx": functools.partial(searcher(evaluate, "mctx"), prepared, key, states),
            "mctx_plain": functools.partial(searcher(plain, "mctx"), params, key, states),
        }
    rate = {name: batch * count / value for name, value in medians(runs, arguments.repeats).items()}
    tree = jax.jit(
        lambda params, key, states: run_simulations(
            game, evaluate, params, init_tree(game, evaluate, params, key, states, config), count, config
        )
    )(prepared, key, states)
    depth = depths(np.asarray(tree.parent))
    differ = None
    if arguments.stock:
        ours, theirs = runs["fast"](), runs["mctx"]()
        differ = int((np.asarray(ours.visit_counts) != np.asarray(theirs.visit_counts)).any(-1).sum())
    nodes = tree_bytes(tree)
    board_bytes = sum(x[0, 0].nbytes for x in jax.tree.leaves(tree.states))
    row = {
        "simulations": count,
        "compile_seconds": compile_seconds,
        "depth_mean": float(depth.mean()),
        "depth_deepest_in_batch": float(depth.max(0).mean()),
        "depth_most": int(depth.max()),
        "rows_that_differ": differ,
        "bytes_per_node": nodes,
        "mctx_bytes_per_node": 24 * game.num_actions + board_bytes + 20,
        "bytes_per_game": nodes * tree.capacity,
    } | {f"{name}_per_second": value for name, value in rate.items()}

    def shown(name: str) -> str:
        return f"{rate[name]:,.0f}" if name in rate else ""

    cell = (
        shown("network"),
        shown("fast"),
        f"{rate['fast'] / rate['network']:.1%}",
        shown("mctx"),
        f"{rate['fast'] / rate['mctx']:.2f}" if arguments.stock else "",
        shown("mctx_plain"),
        f"{row['depth_mean']:.1f} / {row['depth_deepest_in_batch']:.1f}",
        f"{compile_seconds:.1f}",
        "" if differ is None else str(differ),
    )
    return row, cell
