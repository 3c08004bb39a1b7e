"""The ring buffer against a deque in plain Python."""

import collections
import functools

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gomoku_jax import replay

CAPACITY, MOST = 7, 19  # rows of the buffer; items in one call, more than twice the rows

add = jax.jit(replay.add)


def example() -> dict[str, jax.Array]:
    return {
        "id": jnp.int32(0),
        "board": jnp.zeros((2, 3), jnp.int8),
        "weight": jnp.float32(0),
        "flag": jnp.bool_(False),
    }


def items(ids: np.ndarray) -> dict[str, jax.Array]:
    """Items that can be told apart in every leaf."""
    boards = (ids[:, None] * 7 + np.arange(6)) % 251 - 125
    return {
        "id": jnp.asarray(ids, jnp.int32),
        "board": jnp.asarray(boards.reshape(-1, 2, 3), jnp.int8),
        "weight": jnp.asarray(ids / 4, jnp.float32),
        "flag": jnp.asarray(ids % 2 == 1),
    }


def contents(state: replay.ReplayState) -> list[int]:
    """Ids in the buffer, oldest first."""
    size, row = int(state.size), int(state.next_row)
    ids = np.asarray(state.items["id"])
    return [int(ids[(row - size + i) % CAPACITY]) for i in range(size)]


@hypothesis.given(st.lists(st.lists(st.booleans(), min_size=MOST, max_size=MOST), max_size=6))
def test_adding_is_a_deque(masks):
    state = replay.init(CAPACITY, example())
    model: collections.deque[int] = collections.deque(maxlen=CAPACITY)
    count = 0
    for mask in masks:
        ids = np.arange(count, count + MOST) + 1
        count += MOST
        state = add(state, items(ids), jnp.asarray(mask))
        model.extend(ids[np.asarray(mask)].tolist())
        assert contents(state) == list(model)
        rows = sorted(contents(state))
        filled = np.sort(np.asarray(state.items["id"])[: int(state.size)])
        assert filled.tolist() == rows, "the filled rows are the first `size` ones, from which is drawn"
    # All leaves tell of the same item.
    expected = items(np.asarray(state.items["id"])[: int(state.size)])
    chex.assert_trees_all_equal(jax.tree.map(lambda x: x[: int(state.size)], state.items), expected)


@pytest.mark.parametrize("sizes", [[1] * 17, [3, 0, 9, 2, 30, 1], [7, 7, 1], [8], [14, 1], [100]])
def test_adding_any_number_at_once(sizes):
    state = replay.init(CAPACITY, example())
    model: collections.deque[int] = collections.deque(maxlen=CAPACITY)
    count = 1
    for size in sizes:
        ids = np.arange(count, count + size)
        count += size
        state = replay.add(state, items(ids), jnp.ones(size, bool))
        model.extend(ids.tolist())
        assert contents(state) == list(model) and int(state.size) == len(model)


def test_types_are_kept():
    state = replay.init(CAPACITY, example())
    state = add(state, items(np.arange(MOST)), jnp.arange(MOST) % 3 == 0)
    drawn = replay.sample(state, jax.random.key(0), 4)
    wanted = {"id": jnp.int32, "board": jnp.int8, "weight": jnp.float32, "flag": jnp.bool_}
    assert {name: x.dtype for name, x in state.items.items()} == wanted
    assert {name: x.dtype for name, x in drawn.items()} == wanted
    assert state.size.dtype == state.next_row.dtype == jnp.int32
    # An int8 that leaves its range on the way through a wider type would come back changed.
    assert {name: x.shape[1:] for name, x in drawn.items()} == {
        "id": (),
        "board": (2, 3),
        "weight": (),
        "flag": (),
    }


def test_nothing_recompiles_for_other_masks():
    traces = []

    @jax.jit
    def counted(state, rows, mask):
        traces.append(mask)
        return replay.add(state, rows, mask)

    state = replay.init(CAPACITY, example())
    for i, share in enumerate((0.0, 1.0, 0.5, 0.1)):
        mask = jax.random.bernoulli(jax.random.key(i), share, (MOST,))
        state = counted(state, items(np.arange(MOST)), mask)
    assert len(traces) == 1


def test_a_buffer_can_be_donated():
    donating = jax.jit(replay.add, donate_argnums=0)
    old = replay.init(CAPACITY, example())
    new = donating(old, items(np.arange(MOST)), jnp.ones(MOST, bool))
    assert contents(new) == list(range(MOST - CAPACITY, MOST))
    with pytest.raises(RuntimeError, match="deleted"):
        _ = old.items["id"] + 1


@pytest.mark.parametrize("filled", [1, 4, 7, 12])
def test_samples_are_uniform_over_the_filled_rows(filled):
    ids = np.arange(1, filled + 1)
    state = replay.add(replay.init(CAPACITY, example()), items(ids), jnp.ones(filled, bool))
    draws = 20_000
    drawn = np.asarray(replay.sample(state, jax.random.key(3), draws)["id"])
    held = ids[-CAPACITY:]
    counts = np.array([(drawn == i).sum() for i in held])
    assert counts.sum() == draws, "an empty row was drawn"
    expected = draws / len(held)
    # Five standard deviations of a binomial count.
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - 1 / len(held)))).all()


@pytest.mark.parametrize("filled", [3, 7, 12])
def test_a_window_draws_from_the_newest(filled):
    ids = np.arange(1, filled + 1)
    state = replay.add(replay.init(CAPACITY, example()), items(ids), jnp.ones(filled, bool))
    for window in (1, 2, 5, 100):
        drawn = np.asarray(replay.sample(state, jax.random.key(3), 500, window=jnp.int32(window))["id"])
        assert set(drawn.tolist()) == set(ids[-min(window, CAPACITY) :].tolist())


def test_the_window_grows_more_slowly_than_the_buffer():
    sizes = [1, 99, 100, 200, 1600, 10_000]
    windows = [int(replay.growing_window(jnp.int32(size), 100, 0.75)) for size in sizes]
    assert windows[:3] == [1, 99, 100]
    assert windows[3:] == pytest.approx([100 * (size / 100) ** 0.75 for size in sizes[3:]], abs=1.01)
    assert int(replay.growing_window(jnp.int32(5000), 100, 0.0)) == 100


def test_samples_keep_items_whole_and_depend_on_the_key():
    ids = np.arange(10, 10 + CAPACITY)
    state = replay.add(replay.init(CAPACITY, example()), items(ids), jnp.ones(CAPACITY, bool))
    first, again, other = (replay.sample(state, jax.random.key(seed), 64) for seed in (0, 0, 1))
    chex.assert_trees_all_equal(first, again)
    chex.assert_trees_all_equal(first, items(np.asarray(first["id"])))
    assert not np.array_equal(first["id"], other["id"])


def test_the_transform_gets_the_items_and_a_key_of_its_own():
    ids = np.arange(1, 1 + CAPACITY)
    state = replay.add(replay.init(CAPACITY, example()), items(ids), jnp.ones(CAPACITY, bool))
    plain = replay.sample(state, jax.random.key(5), 16)
    seen = []

    def transform(key, batch):
        seen.append(jax.random.key_data(key))
        return {"negated": -batch["id"], "noise": jax.random.uniform(key, (16,))}

    changed = replay.sample(state, jax.random.key(5), 16, transform)
    np.testing.assert_array_equal(changed["negated"], -np.asarray(plain["id"]))
    assert set(changed) == {"negated", "noise"}
    other = replay.sample(state, jax.random.key(6), 16, transform)
    assert not np.array_equal(changed["noise"], other["noise"])
    # The row's key must not serve the transform again.
    parents = [jax.random.key_data(jax.random.key(seed)) for seed in (5, 6)]
    assert not any(np.array_equal(a, b) for a in seen for b in parents)


def test_can_sample_tells_when_enough_is_held():
    state = replay.init(CAPACITY, example())
    answers = []
    for i in range(1, 10):
        answers.append([bool(replay.can_sample(state, least)) for least in (1, 3, CAPACITY)])
        state = replay.add(state, items(np.array([i])), jnp.ones(1, bool))
    assert answers == [[n >= 1, n >= 3, n >= CAPACITY] for n in (0, 1, 2, 3, 4, 5, 6, 7, 7)]


def test_sampling_runs_in_a_scan():
    state = replay.add(replay.init(CAPACITY, example()), items(np.arange(1, 4)), jnp.ones(3, bool))
    draw = functools.partial(replay.sample, state, batch_size=5)
    _, drawn = jax.lax.scan(lambda c, key: (c, draw(key)["id"]), 0, jax.random.split(jax.random.key(0), 6))
    assert drawn.shape == (6, 5) and set(np.asarray(drawn).ravel().tolist()) == {1, 2, 3}
