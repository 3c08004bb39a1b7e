"""Self-play under several rules on one board, in one batch.

Game b of the batch is of rule b modulo their number R: so any share of a multiple of R games is laid out like
the whole, a run goes on with other numbers of devices, and positions stay in order of time.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gomoku_jax.config import RULES, SearchConfig, SelfplayConfig
from gomoku_jax.game import Gomoku
from gomoku_jax.network import Params
from gomoku_jax.search import Evaluator
from gomoku_jax.selfplay import Positions, SelfplayState, SelfplayStats, init_selfplay, run_selfplay


def init_selfplay_of_rules(games: Sequence[Gomoku], config: SelfplayConfig, key: jax.Array) -> SelfplayState:
    """Fresh games, as many under each of the rules. Consumes `key`.

    Args:
        games: R, on one board. With one, this is `init_selfplay`.
        config: B, a multiple of R, and the rest.
        key: typed PRNG key.
    """
    if len(games) == 1:
        return init_selfplay(games[0], config, key)
    keys = jax.random.split(key, len(games))
    own = _of_one_rule(config, len(games))
    return _merge_games([init_selfplay(game, own, k) for game, k in zip(games, keys, strict=True)])


def run_selfplay_of_rules(
    games: Sequence[Gomoku],
    evaluators: Sequence[Evaluator],
    config: SelfplayConfig,
    search_config: SearchConfig,
    params: Params,
    selfplay: SelfplayState,
    key: jax.Array,
    shard: jax.typing.ArrayLike = 0,
) -> tuple[SelfplayState, Positions, jax.Array, SelfplayStats]:
    """Plays T moves in each of B games. Pure and jittable; consumes `key`.

    Args:
        games: R, on one board. With one, this is `run_selfplay`, to the last bit.
        evaluators: one for each of them.
        config: B, a multiple of R, T and how moves are drawn.
        search_config: the full search.
        params: what the evaluators take.
        selfplay: the games as they stand.
        key: typed PRNG key, the same on all devices.
        shard: int [], which share of the games this is.

    Returns:
        As `run_selfplay`, but that positions tell their rule where R > 1, and that the counts are [R].
    """
    count = len(games)
    if count == 1:
        selfplay, positions, is_new, stats = run_selfplay(
            games[0], evaluators[0], config, search_config, params, selfplay, key, shard
        )
        return selfplay, positions, is_new, jax.tree.map(lambda x: x[None], stats)
    own, parts = _of_one_rule(config, count), []
    for i, (game, evaluate) in enumerate(zip(games, evaluators, strict=True)):
        mine = SelfplayState(
            states=_deal(selfplay.states, i, count), pending=_deal(selfplay.pending, i, count, axis=1)
        )
        number = count * jnp.asarray(shard, jnp.int32) + i  # each draws its own numbers
        mine, positions, is_new, stats = run_selfplay(
            game, evaluate, own, search_config, params, mine, key, number
        )
        rule = jnp.full(is_new.shape, RULES.index(game.rule), jnp.int8)
        parts.append((mine, positions.replace(rule=rule), is_new, stats))
    after, positions, is_new, stats = zip(*parts, strict=True)
    stats = jax.tree.map(lambda *x: jnp.stack(x), *stats)
    return _merge_games(after), _merge(positions), _merge(is_new), stats


def _of_one_rule(config: SelfplayConfig, count: int) -> SelfplayConfig:
    return dataclasses.replace(config, num_games=config.num_games // count)


def _deal(tree: Any, first: int, count: int, axis: int = 0) -> Any:
    """Every `count`-th entry of an axis of all leaves, from the `first` on."""
    at = (slice(None),) * axis + (slice(first, None, count),)
    return jax.tree.map(lambda x: x[at], tree)


def _merge(trees: Sequence[Any], axis: int = 0) -> Any:
    """The tree that was dealt out, in turn, to these."""

    def merge(*leaves: jax.Array) -> jax.Array:
        before, length, after = leaves[0].shape[:axis], leaves[0].shape[axis], leaves[0].shape[axis + 1 :]
        return jnp.stack(leaves, axis + 1).reshape(*before, length * len(leaves), *after)

    return jax.tree.map(merge, *trees)


def _merge_games(parts: Sequence[SelfplayState]) -> SelfplayState:
    return SelfplayState(
        states=_merge([part.states for part in parts]), pending=_merge([part.pending for part in parts], 1)
    )
