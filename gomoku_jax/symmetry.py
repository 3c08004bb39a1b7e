"""The symmetries that keep the board's shape: 8 of a square, 4 of a rectangle.

A symmetry is a permutation of the points: point `a` goes to `images[a]`. All tables are NumPy, built once
per size. Law: stepping then transforming equals transforming then stepping.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.game import State


def num_symmetries(height: int, width: int) -> int:
    """S: 8 on a square, 4 on other rectangles."""
    return 8 if height == width else 4


@functools.lru_cache(maxsize=64)
def image_table(height: int, width: int) -> np.ndarray:
    """int32 [S, A]: where each symmetry sends each action. The first is the identity.

    Flip rows, flip columns, both; on a square the same four after exchanging rows and columns.
    """
    row, col = np.divmod(np.arange(height * width), width)
    images = []
    for transpose in (False, True) if height == width else (False,):
        for flip_rows in (False, True):
            for flip_cols in (False, True):
                r, c = (col, row) if transpose else (row, col)
                r = height - 1 - r if flip_rows else r
                c = width - 1 - c if flip_cols else c
                images.append(r * width + c)
    table = np.asarray(images, np.int32)
    table.flags.writeable = False
    return table


def canonical_board(board: np.ndarray) -> bytes:
    """The same bytes for all images of a board, int8 [H, W]."""
    flat = board.reshape(-1)
    return min(flat[image].tobytes() for image in image_table(*board.shape))


def canonical_position(
    height: int, width: int, moves: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Black's and White's points, the same for all moves that lead to one position, turned or mirrored."""
    images = image_table(height, width)
    black, white = (np.sort(images[:, list(moves[first::2])]).tolist() for first in (0, 1))
    return min((tuple(b), tuple(w)) for b, w in zip(black, white, strict=True))


@functools.lru_cache(maxsize=64)
def inverse_table(height: int, width: int) -> np.ndarray:
    """int32 [S]: the index of each symmetry's inverse."""
    images = image_table(height, width)
    identity = images[0]
    inverses = np.asarray(
        [next(j for j, other in enumerate(images) if (other[image] == identity).all()) for image in images],
        np.int32,
    )
    inverses.flags.writeable = False
    return inverses


@functools.lru_cache(maxsize=64)
def _source_table(height: int, width: int) -> np.ndarray:
    """int32 [S, A]: where each point of the transformed board comes from."""
    return image_table(height, width)[inverse_table(height, width)]


def transform_policy(height: int, width: int, symmetry: jax.typing.ArrayLike, policy: jax.Array) -> jax.Array:
    """Moves one value per action, [A] of any dtype, to the actions' images. `symmetry`: int []."""
    return jnp.asarray(policy)[jnp.asarray(_source_table(height, width))[symmetry]]


def transform_board(symmetry: jax.typing.ArrayLike, board: jax.Array) -> jax.Array:
    """One board, [H, W] of any dtype."""
    height, width = board.shape
    return transform_policy(height, width, symmetry, board.reshape(-1)).reshape(height, width)


def transform_action(height: int, width: int, symmetry: jax.typing.ArrayLike, action: jax.Array) -> jax.Array:
    """The image of one action, int32 []; -1 (no move yet) stays."""
    image = jnp.asarray(image_table(height, width))[symmetry, jnp.maximum(action, 0)]
    return jnp.where(action < 0, action, image)


def transform_state(symmetry: jax.typing.ArrayLike, state: State) -> State:
    """One game seen through a symmetry, int []."""
    height, width = state.board.shape
    return state.replace(
        board=transform_board(symmetry, state.board),
        last_action=transform_action(height, width, symmetry, state.last_action),
    )


def random_symmetries(
    key: jax.Array, board: jax.Array, last_action: jax.Array, policy: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Each position of a batch under its own uniformly drawn symmetry. Consumes `key`.

    Args:
        key: typed PRNG key.
        board: [B, H, W] of any dtype.
        last_action: int32 [B].
        policy: [B, A] of any dtype.

    Returns:
        The three, transformed alike, of the same dtypes.
    """
    batch, height, width = board.shape
    symmetry = jax.random.randint(key, (batch,), 0, num_symmetries(height, width), jnp.int32)
    source = jnp.asarray(_source_table(height, width))[symmetry]  # [B, A]
    return (
        jnp.take_along_axis(board.reshape(batch, -1), source, axis=1).reshape(board.shape),
        jax.vmap(lambda s, a: transform_action(height, width, s, a))(symmetry, last_action),
        jnp.take_along_axis(policy, source, axis=1),
    )
