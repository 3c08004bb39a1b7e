"""Rings of a replay buffer: nothing is lost or doubled when they are laid out anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gomoku_jax import replay
from gomoku_jax.replay_rings import init_rings, newest_first, num_rings, relay, ring_of, share_of


def filled(counts: list[int], each: int) -> replay.ReplayState:
    """Rings to which so many items were added, one after another; ring s has 1000 s, 1000 s + 1, ..."""
    rings = []
    for s, count in enumerate(counts):
        ring = replay.init(each, {"x": jnp.int32(0)})
        for i in range(count):
            ring = replay.add(ring, {"x": jnp.asarray([1000 * s + i])}, jnp.asarray([True]))
        rings.append(share_of(ring))
    return jax.tree.map(lambda *x: np.concatenate(x), *rings)


def test_init_makes_equal_rings():
    buffer = init_rings(14, {"x": jnp.zeros(3, jnp.int8)}, 4)
    assert buffer.items["x"].shape == (12, 3) and buffer.items["x"].dtype == jnp.int8
    assert num_rings(buffer) == 4 and buffer.size.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"capacity = 3.*4 devices"):
        init_rings(3, {"x": jnp.int8(0)}, 4)


def test_ring_and_share_are_inverse():
    buffer = filled([3], 5)
    ring = ring_of(buffer)
    assert ring.size.shape == () and int(ring.size) == 3
    assert share_of(ring).size.shape == (1,)


@pytest.mark.parametrize("counts", [[3, 9, 0, 5], [4, 4, 4, 4], [0, 0, 0, 0], [30, 31, 2, 7]])
def test_newest_first_goes_through_the_rings_by_age(counts):
    each = 8
    buffer = filled(counts, each)
    expected = [
        1000 * s + count - 1 - age
        for age in range(each)
        for s, count in enumerate(counts)
        if age < min(count, each)
    ]
    assert buffer.items["x"][newest_first(buffer)].tolist() == expected


@pytest.mark.parametrize("counts", [[3, 9, 0, 5], [8, 8, 8, 8], [30, 31, 2, 7]])
@pytest.mark.parametrize("rings", [1, 2, 3, 8])
def test_relaying_keeps_every_item_and_its_order(counts, rings):
    buffer = filled(counts, 8)
    before = buffer.items["x"][newest_first(buffer)].tolist()
    after = relay(buffer, 32, rings)
    each = 32 // rings
    assert after.items["x"].shape == (rings * each,) and after.items["x"].dtype == np.int32
    assert max(after.size) - min(after.size) <= 1
    # Dealt out by age: newest first from the new rings is the old order, but for what found no room.
    assert after.items["x"][newest_first(after)].tolist() == before[: rings * each]
    # Each goes on as a ring: the next item takes the oldest one's place, or a free row.
    for r in range(rings):
        part = jax.tree.map(lambda x, r=r: jnp.asarray(x[r * each : (r + 1) * each]), after.items)
        ring = replay.ReplayState(part, jnp.asarray(after.next_row[r]), jnp.asarray(after.size[r]))
        held = set(before[r::rings][:each])
        ring = replay.add(ring, {"x": jnp.asarray([-1])}, jnp.asarray([True]))
        if len(held) == each:
            held.remove(before[r::rings][each - 1])
        assert set(np.asarray(ring.items["x"])[newest_first(share_of(ring))].tolist()) == held | {-1}
