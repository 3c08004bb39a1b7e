"""The game in the shape of pgx (https://github.com/sotetsuk/pgx), for programs written for its games:

from gomoku_jax.play.adapters.pgx_env import Gomoku

env = Gomoku(height=15, width=15, k=5)
state = jax.vmap(env.init)(jax.random.split(key, 1024))
state = jax.jit(jax.vmap(env.step))(state, actions)
"""

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gomoku_jax import game as rules
from gomoku_jax.config import Opening, Rule
from gomoku_jax.game import BLACK, svg
from gomoku_jax.play.adapters import missing_extra

try:
    from pgx import core
except ImportError as error:
    raise missing_extra("pgx", error) from error


@struct.dataclass
class State(core.State):
    """One game as pgx programs see it.

    Attributes:
        current_player: int32 [], 0 or 1, whose turn it is. Who is black is drawn at `init`.
        observation: bool [H, W, 4], the planes of `Gomoku.observe` as the current player sees them: own
            stones, the other's stones, the last move, all-ones if that player is black.
        rewards: float32 [2], by player: +1 and -1 at the end of a game, else 0.
        terminated: bool [].
        truncated: bool [], never True.
        legal_action_mask: bool [A], True = legal; all True once the game has ended, as in pgx.
    """

    current_player: jax.Array
    observation: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    legal_action_mask: jax.Array
    _step_count: jax.Array
    _black_player: jax.Array  # int32 [], 0 or 1
    _x: rules.State  # the position; pgx's name for it
    _game: rules.Gomoku = struct.field(pytree_node=False)

    @property
    def env_id(self) -> Any:
        """Such as "gomoku_15x15x5"; not one of pgx's own ids."""
        return _env_id(self._game)

    def to_svg(self, *, color_theme: str | None = None, scale: float | None = None) -> str:
        """One game, or up to 16 of a batch, drawn by `gomoku_jax`; pgx's themes and scales do not apply."""
        del color_theme, scale
        return svg(self._x)

    def save_svg(self, filename, *, color_theme: str | None = None, scale: float | None = None) -> None:
        """Writes `to_svg` to a file."""
        pathlib.Path(filename).write_text(self.to_svg(color_theme=color_theme, scale=scale))


def _env_id(game: rules.Gomoku) -> str:
    return (
        f"gomoku_{game.height}x{game.width}x{game.k}"
        + ("" if game.rule == "freestyle" else f"_{game.rule}")
        + ("" if game.opening == "free" else f"_{game.opening}")
    )


class Gomoku(core.Env):
    """Gomoku as a pgx environment: `init(key)`, `step(state, action)`, both of one game, to `jax.vmap`.

    An action is `row * width + column`, row 0 at the bottom. An illegal action, off the board included, ends
    the game: -1 for who made it and +1 for the other. After the end a step changes nothing and rewards 0.

    Args:
        height: rows, 3 to 26.
        width: columns, 3 to 26.
        k: stones in a row that win.
        rule: "freestyle", "exact", "caro", "caro_overline" or "renju"; see `Gomoku`.
        opening: "free", "pro" or "long_pro"; see `Gomoku`.

    Raises:
        ValueError: no such game.
    """

    def __init__(
        self,
        height: int = 15,
        width: int = 15,
        k: int = 5,
        rule: Rule = "freestyle",
        opening: Opening = "free",
    ):
        super().__init__()
        self.game = rules.Gomoku(height, width, k, rule, opening=opening)

    def _init(self, key: jax.Array) -> State:
        black_player = jax.random.bernoulli(key).astype(jnp.int32)
        return State(
            current_player=black_player,
            observation=jnp.zeros(self.observation_shape, bool),
            rewards=jnp.zeros(2, jnp.float32),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            legal_action_mask=jnp.ones(self.num_actions, bool),
            _step_count=jnp.int32(0),
            _black_player=black_player,
            _x=self.game.init(),
            _game=self.game,
        )

    def _step(self, state: State, action: jax.Array, key: jax.Array | None) -> State:
        del key  # nothing is random
        legal = self.game.is_legal(state._x, action)
        x = self.game.step(state._x, action)
        black, white = state._black_player, 1 - state._black_player
        rewards = jnp.zeros(2, jnp.float32).at[black].set(x.winner).at[white].set(-x.winner)
        after = dataclasses.replace(
            state,
            current_player=jnp.where(x.to_play == BLACK, black, white),
            rewards=rewards,
            terminated=x.terminated,
            legal_action_mask=self.game.legal_action_mask(x),
            _x=x,
        )
        # pgx looks the action up in the mask, where one off the board is taken for another.
        lost = self._step_with_illegal_action(after, state.current_player)
        return jax.tree.map(lambda a, b: jnp.where(legal, a, b), after, lost)

    def _observe(self, state: State, player_id: jax.Array) -> jax.Array:
        color = jnp.where(player_id == state._black_player, BLACK, -BLACK).astype(jnp.int8)
        return self.game.observe(state._x.replace(to_play=color)).astype(bool)

    @property
    def id(self) -> Any:
        """Such as "gomoku_15x15x5"; not one of pgx's own ids."""
        return _env_id(self.game)

    @property
    def version(self) -> str:
        """Of the environment's behaviour."""
        return "v0"

    @property
    def num_players(self) -> int:
        """Two."""
        return 2

    @property
    def num_actions(self) -> int:
        """A, the number of points."""
        return self.game.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """(H, W, 4)."""
        return (*self.game.shape, 4)
