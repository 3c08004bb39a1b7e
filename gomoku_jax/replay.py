"""A ring buffer on the device: `init / add / sample / can_sample`. It sees arrays, never the game."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

Items = Any  # a pytree of arrays [M, ...]


class ReplayState(struct.PyTreeNode):
    """The buffer.

    Attributes:
        items: arrays [capacity, ...], of the dtypes they were added with.
        next_row: int32 [], where the next item goes.
        size: int32 [], rows that hold items.
    """

    items: Items
    next_row: jax.Array
    size: jax.Array


def init(capacity: int, example: Items) -> ReplayState:
    """An empty buffer for items like `example`, whose leaves have no leading axis."""
    items = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), example)
    return ReplayState(items=items, next_row=jnp.int32(0), size=jnp.int32(0))


def add(replay: ReplayState, items: Items, mask: jax.Array) -> ReplayState:
    """Adds those of M items whose mask is True, in order, over the oldest. Any number fits one compile.

    Args:
        replay: the buffer.
        items: arrays [M, ...].
        mask: bool [M]. Where more are set than the buffer holds, the last ones stay.
    """
    capacity = jax.tree.leaves(replay.items)[0].shape[0]
    rank = jnp.cumsum(mask, dtype=jnp.int32) - 1
    count = mask.sum(dtype=jnp.int32)
    keep = mask & (rank >= count - capacity)
    # Rows that are not kept go past the end, where "drop" writes nothing.
    rows = jnp.where(keep, (replay.next_row + rank) % capacity, capacity)
    return ReplayState(
        items=jax.tree.map(lambda old, new: old.at[rows].set(new, mode="drop"), replay.items, items),
        next_row=(replay.next_row + count) % capacity,
        size=jnp.minimum(replay.size + count, capacity),
    )


def can_sample(replay: ReplayState, min_size: int) -> jax.Array:
    """bool []: does the buffer hold at least `min_size` items?"""
    return replay.size >= min_size


def growing_window(size: jax.Array, min_size: int, exponent: float) -> jax.Array:
    """int32 []: how many of the newest items to draw from, min_size * (size / min_size) ** exponent.

    With a buffer that holds the whole run it grows with the run, but more slowly (the shape of Wu 2019,
    https://arxiv.org/abs/1902.10565).
    """
    grown = min_size * (jnp.maximum(size, min_size) / min_size) ** exponent
    return jnp.minimum(jnp.ceil(grown).astype(jnp.int32), size)


def sample(
    replay: ReplayState,
    key: jax.Array,
    batch_size: int,
    transform: Callable[[jax.Array, Items], Items] | None = None,
    window: jax.Array | None = None,
) -> Items:
    """Draws a batch uniformly with replacement. Consumes `key`.

    Args:
        replay: must hold at least one item.
        key: typed PRNG key.
        batch_size: items drawn.
        transform: `(key, items [batch_size, ...]) -> items`, such as a random symmetry.
        window: int [], only so many of the newest items are drawn from; None is all.

    Returns:
        Arrays [batch_size, ...] of the dtypes that were added, unless `transform` changes them.
    """
    row_key, transform_key = jax.random.split(key)
    count = replay.size if window is None else jnp.minimum(window, replay.size)
    rows = jax.random.randint(row_key, (batch_size,), 0, jnp.maximum(count, 1), jnp.int32)
    if window is not None:  # counted back from the newest
        rows = (replay.next_row - 1 - rows) % jax.tree.leaves(replay.items)[0].shape[0]
    items = jax.tree.map(lambda x: x[rows], replay.items)
    return items if transform is None else transform(transform_key, items)
