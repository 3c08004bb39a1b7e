"""The symmetries: a group, the same as NumPy's turns and flips, and at one with the rules."""

import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gomoku_jax.game import Gomoku, State
from gomoku_jax.symmetry import (
    image_table,
    inverse_table,
    num_symmetries,
    transform_action,
    transform_board,
    transform_policy,
    transform_state,
)

LAW_GAMES = [Gomoku(*board, rule) for board in [(5, 5, 3), (4, 7, 4)] for rule in ("freestyle", "exact")]
LAW_GAMES += [Gomoku(4, 7, 4, "caro"), Gomoku(5, 5, 3, "caro_overline")]
LAW_GAMES += [Gomoku(7, 7, 5, "renju"), Gomoku(5, 8, 5, "renju", "loses")]
SHAPES = [(3, 3), (15, 15), (6, 6), (3, 8), (8, 6), (26, 3)]


def numpy_symmetries(board: np.ndarray) -> list[np.ndarray]:
    """The board turned and flipped in every way that keeps its shape."""
    turned = [np.rot90(board, turns) for turns in range(4)]
    seen = turned + [np.fliplr(turn) for turn in turned]
    return [image for image in seen if image.shape == board.shape]


@pytest.mark.parametrize("height, width", SHAPES)
def test_boards_go_where_numpy_sends_them(height, width):
    board = np.arange(height * width).reshape(height, width)
    number = num_symmetries(height, width)
    assert number == (8 if height == width else 4)
    images = np.asarray(jax.jit(jax.vmap(transform_board, in_axes=(0, None)))(jnp.arange(number), board))
    expected = numpy_symmetries(board)
    assert len(expected) == number
    assert {image.tobytes() for image in images} == {
        image.astype(images.dtype).tobytes() for image in expected
    }
    np.testing.assert_array_equal(images[0], board)
    # What stood at point a now stands at image a.
    table = image_table(height, width)
    assert table.shape == (number, height * width) and table.dtype == np.int32
    for image, where in zip(images, table, strict=True):
        np.testing.assert_array_equal(image.reshape(-1)[where], np.arange(height * width))


@pytest.mark.parametrize("height, width", SHAPES)
def test_symmetries_are_a_group(height, width):
    table, inverses = image_table(height, width), inverse_table(height, width)
    identity = np.arange(height * width)
    elements = {tuple(image): s for s, image in enumerate(table.tolist())}
    assert len(elements) == num_symmetries(height, width)
    np.testing.assert_array_equal(np.sort(table, axis=1), np.tile(identity, (len(table), 1)))
    np.testing.assert_array_equal(table[0], identity)
    for first, second in itertools.product(range(len(table)), repeat=2):
        assert tuple(table[second][table[first]].tolist()) in elements
    for s, inverse in enumerate(inverses):
        np.testing.assert_array_equal(table[inverse][table[s]], identity)
        np.testing.assert_array_equal(table[s][table[inverse]], identity)
    orders = []
    for image in table:
        power, order = image, 1
        while not (power == identity).all():
            power, order = image[power], order + 1
        orders.append(order)
    # The dihedral group of the square has two quarter turns; a rectangle's flips all undo themselves.
    assert sorted(orders) == ([1, 2, 2, 2, 2, 2, 4, 4] if height == width else [1, 2, 2, 2])


@pytest.mark.parametrize("height, width", [(4, 4), (3, 5)])
def test_policies_and_actions_move_alike(height, width):
    number, points = num_symmetries(height, width), height * width
    symmetries, actions = jnp.arange(number), jnp.arange(points)
    one_hot = jnp.eye(points)
    move = jax.jit(
        jax.vmap(jax.vmap(lambda s, p: transform_policy(height, width, s, p), (None, 0)), (0, None))
    )
    act = jax.jit(
        jax.vmap(jax.vmap(lambda s, a: transform_action(height, width, s, a), (None, 0)), (0, None))
    )
    images = np.asarray(act(symmetries, actions))
    np.testing.assert_array_equal(images, image_table(height, width))
    np.testing.assert_array_equal(move(symmetries, one_hot), np.eye(points)[images])
    policy = np.random.default_rng(0).random((1, points)).astype(np.float32)
    boards = jax.vmap(transform_board, in_axes=(0, None))(
        symmetries, jnp.asarray(policy).reshape(height, width)
    )
    moved = move(symmetries, policy)
    np.testing.assert_array_equal(np.asarray(moved).reshape(boards.shape), boards)
    inverse = jnp.asarray(inverse_table(height, width))
    back = jax.vmap(lambda s, p: transform_policy(height, width, s, p))(inverse, moved[:, 0])
    np.testing.assert_array_equal(back, np.tile(policy, (number, 1)))
    for dtype in (jnp.int8, jnp.bool_, jnp.bfloat16):
        assert transform_policy(height, width, 1, jnp.zeros(points, dtype)).dtype == dtype


@pytest.mark.parametrize("height, width", [(4, 4), (3, 5)])
def test_no_last_move_stays_no_last_move(height, width):
    for symmetry in range(num_symmetries(height, width)):
        action = transform_action(height, width, symmetry, jnp.int32(-1))
        assert int(action) == -1 and action.dtype == jnp.int32
    state = Gomoku(height, width, 3).init()
    chex.assert_trees_all_equal(transform_state(1, state), state)


@functools.partial(jax.jit, static_argnums=(0, 2))
def random_games(game: Gomoku, key: jax.Array, count: int) -> tuple[State, jax.Array]:
    """States [A, count, ...] along random games, each with the action that is tried next."""

    def body(states, key):
        legal_key, wild_key, which_key = jax.random.split(key, 3)
        legal = jax.vmap(game.random_action)(jax.random.split(legal_key, count), states)
        wild = jax.random.randint(wild_key, (count,), 0, game.num_actions)  # may be taken
        actions = jnp.where(jax.random.bernoulli(which_key, 0.1, (count,)), wild, legal)
        return jax.vmap(game.step)(states, actions), (states, actions)

    start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), game.init())
    return jax.lax.scan(body, start, jax.random.split(key, game.num_actions))[1]


@pytest.mark.parametrize("game", LAW_GAMES, ids=str)
def test_symmetries_commute_with_the_rules(game):
    height, width = game.shape
    states, actions = random_games(game, jax.random.key(0), 30)
    states, actions = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (states, actions))

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None, None))
    def both_ways(symmetry, states, actions):
        def one(state, action):
            after = game.step(state, action)
            image = transform_state(symmetry, state)
            image_action = transform_action(height, width, symmetry, action)
            # Each pair: the rules and then the symmetry, the symmetry and then the rules.
            planes = jax.vmap(transform_board, in_axes=(None, -1), out_axes=-1)
            left = (
                transform_state(symmetry, after),
                planes(symmetry, game.observe(state)),
                transform_policy(height, width, symmetry, game.legal_action_mask(state)),
                transform_board(symmetry, game.winning_line(after)),
                game.is_legal(state, action),
            )
            image_after = game.step(image, image_action)
            right = (
                image_after,
                game.observe(image),
                game.legal_action_mask(image),
                game.winning_line(image_after),
                game.is_legal(image, image_action),
            )
            return left, right, after.winner

        return jax.vmap(one)(states, actions)

    left, right, winner = both_ways(jnp.arange(num_symmetries(height, width)), states, actions)
    chex.assert_trees_all_equal(left, right)
    # The games met both winners, and illegal actions; under renju, forbidden ones.
    if game.rule == "renju":
        empty = np.asarray(states.board).reshape(len(actions), -1)[np.arange(len(actions)), actions] == 0
        running = empty & ~np.asarray(states.terminated)
        refused = running & ~np.asarray(left[-1])[0]
        assert refused.any() == (game.forbidden == "illegal")
    assert set(np.unique(winner)) >= {-1, 1} and not np.asarray(left[-1]).all()
    assert np.asarray(left[3]).any()


@pytest.mark.parametrize("height, width", [(4, 4), (3, 5)])
def test_symmetries_undo_their_inverse_on_states(height, width):
    game = Gomoku(height, width, 3)
    states, _ = random_games(game, jax.random.key(1), 2)
    states = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
    apply = jax.jit(jax.vmap(transform_state, in_axes=(None, 0)))
    for symmetry, inverse in enumerate(inverse_table(height, width).tolist()):
        chex.assert_trees_all_equal(apply(inverse, apply(symmetry, states)), states)
        if symmetry:
            assert not np.array_equal(apply(symmetry, states).board, states.board)
