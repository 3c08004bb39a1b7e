"""The state of one game."""

import jax
from flax import struct

BLACK = 1  # moves first
WHITE = -1
NO_ACTION = -1  # `last_action` before the first move


class State(struct.PyTreeNode):
    """One game of Gomoku as a frozen pytree of arrays; `jax.vmap` adds batch dimensions in front.

    Attributes:
        board: int8 [H, W], 0 empty, +1 black (moves first), -1 white. Row 0 is drawn at the bottom.
        to_play: int8 [], +1 or -1, who moves next.
        last_action: int32 [], `row * W + col` of the last stone, -1 before the first move.
        move_count: int32 [], stones on the board.
        terminated: bool [], somebody has won or the board is full.
        winner: int8 [], +1 or -1; 0 while the game runs and for a draw.
    """

    board: jax.Array
    to_play: jax.Array
    last_action: jax.Array
    move_count: jax.Array
    terminated: jax.Array
    winner: jax.Array

    def _repr_svg_(self) -> str:
        from gomoku_jax.game.drawing import svg  # notebooks only; the rules need no drawing

        return svg(self)
