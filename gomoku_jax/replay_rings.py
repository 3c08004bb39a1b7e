"""A replay buffer in rings, one a device: each keeps what its own games gave, and draws its share of a batch.

So neither adding nor drawing needs a word between devices. A ring is a `ReplayState` whose `next_row` and
`size` are scalars; of all rings together these are int32 [S], and the items' rows lie ring after ring.

A batch takes the same number of positions from every ring, and within a ring each is as likely as the other.
Rings that play the same number of games fill alike; while their sizes differ by a share, so do the chances.
"""

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.replay import Items, ReplayState


def init_rings(
    capacity: int, example: Items, rings: int = 1, sharding: jax.sharding.Sharding | None = None
) -> ReplayState:
    """Empty rings for items like `example`, whose leaves have no leading axis.

    Args:
        capacity: items in all; where the rings do not divide it, the remainder is left out.
        example: one item.
        rings: S.
        sharding: where the rows go; they are made there, not moved there.
    """
    rows = rings * (capacity // rings)
    if rows == 0:
        raise ValueError(f"replay.capacity = {capacity}: at least one position for each of {rings} devices")
    items = jax.tree.map(lambda x: jnp.zeros((rows, *x.shape), x.dtype, device=sharding), example)
    return ReplayState(
        items=items,
        next_row=jnp.zeros(rings, jnp.int32, device=sharding),
        size=jnp.zeros(rings, jnp.int32, device=sharding),
    )


def ring_of(share: ReplayState) -> ReplayState:
    """The only ring in a device's share of the buffer, for the functions of `replay`."""
    return share.replace(next_row=share.next_row[0], size=share.size[0])


def share_of(ring: ReplayState) -> ReplayState:
    """The inverse of `ring_of`."""
    return ring.replace(next_row=ring.next_row[None], size=ring.size[None])


def num_rings(buffer: ReplayState) -> int:
    """S."""
    return buffer.size.shape[0]


def newest_first(buffer: ReplayState) -> np.ndarray:
    """int64 [N]: the rows that hold items, the newest of every ring first, then their next ones."""
    next_row, size = np.asarray(buffer.next_row), np.asarray(buffer.size)
    rings = len(size)
    each = len(jax.tree.leaves(buffer.items)[0]) // rings
    age = np.arange(each)[:, None]  # 0 is the newest
    rows = np.arange(rings) * each + (next_row - 1 - age) % each
    return rows[age < size]


def relay(buffer: ReplayState, capacity: int, rings: int) -> ReplayState:
    """The same items in another number of rings; the newest of them where not all fit. On the host.

    Args:
        buffer: NumPy arrays.
        capacity: as for `init_rings`.
        rings: their new number.

    Returns:
        NumPy arrays. Items are dealt out in turn, so that the rings hold equally many and each is in order of
        time, as far as the old rings tell it: their newest items count as equally old.
    """
    each = capacity // rings
    order = newest_first(buffer)[: rings * each]
    sizes = np.asarray([len(order[r::rings]) for r in range(rings)], np.int32)

    def deal(old: np.ndarray) -> np.ndarray:
        new = np.zeros((rings * each, *old.shape[1:]), old.dtype)
        for r in range(rings):
            new[r * each : r * each + sizes[r]] = old[order[r::rings][::-1]]
        return new

    return ReplayState(
        items=jax.tree.map(deal, buffer.items),
        next_row=(sizes % each).astype(np.int32),  # pyright: ignore[reportArgumentType]
        size=sizes,  # pyright: ignore[reportArgumentType]
    )
