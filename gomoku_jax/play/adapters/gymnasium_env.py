"""One agent against a player, as a Gymnasium environment, and thousands of such games in one.

Importing this module registers `gomoku_jax/Gomoku-v0`:

    import gymnasium
    import gomoku_jax.play.adapters.gymnasium_env

    env = gymnasium.make("gomoku_jax/Gomoku-v0", height=6, width=6, k=4, opponent="tactical")
    envs = gymnasium.make_vec("gomoku_jax/Gomoku-v0", num_envs=1024, height=6, width=6, k=4)

Gymnasium imports the module itself when the id says so: "gomoku_jax.play.adapters.gymnasium_env:gomoku_jax/Gomoku-v0".
"""  # noqa: E501

import functools
import operator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gomoku_jax.agent import parse_player
from gomoku_jax.config import Opening, Rule
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import BLACK, WHITE, Gomoku, IllegalMoveError, State, ascii_board, format_action
from gomoku_jax.game import random_opening as draw_opening
from gomoku_jax.play.adapters import missing_extra
from gomoku_jax.play.pictures import board_image
from gomoku_jax.players import Player

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise missing_extra("gymnasium", error) from error

ENV_ID = "gomoku_jax/Gomoku-v0"

AgentColor = Literal["black", "white", "random"]
Illegal = Literal["lose", "raise"]
RenderMode = Literal["ansi", "rgb_array"]


class _Games(struct.PyTreeNode):
    """B games from the agent's side: states [B, ...], color int8 [B], +1 where the agent is black."""

    states: State
    color: jax.Array


class _Outcome(struct.PyTreeNode):
    """What one step shows of B games.

    Attributes:
        observation: float32 [B, H, W, 4], the planes of `Gomoku.observe` from the agent's view.
        action_mask: int8 [B, A], 1 = legal; all 0 once a game has ended.
        reward: float32 [B].
        terminated: bool [B].
        illegal: bool [B], the agent's action was, and lost the game.
        opponent_illegal: bool [B].
    """

    observation: jax.Array
    action_mask: jax.Array
    reward: jax.Array
    terminated: jax.Array
    illegal: jax.Array
    opponent_illegal: jax.Array


@functools.lru_cache(maxsize=16)
def _named_player(name: str, game: Gomoku) -> Player:
    return parse_player(name).make(game)


def _player(opponent: str | Player, game: Gomoku) -> Player:
    """The opponent; those without files behind them are made once, and so are compiled once."""
    if callable(opponent):
        return opponent
    if not isinstance(opponent, str):
        raise ValueError(f"opponent = {opponent!r}: a player's name, or a player (key, states) -> actions")
    if opponent in ("random", "tactical") or opponent.startswith(("mcts:", "vcf:")):
        return _named_player(opponent, game)
    return parse_player(opponent).make(game)


@functools.lru_cache(maxsize=16)
def _transition(game: Gomoku, opponent: Player, agent_color: AgentColor, opening_stones: int):
    """The compiled step of B games, opponent's replies and new games included."""

    def begin(key: jax.Array, count: int) -> _Games:
        opening_key, color_key = jax.random.split(key)
        keys = jax.random.split(opening_key, count)
        states = jax.vmap(lambda key: draw_opening(game, key, jnp.int32(opening_stones), opening_stones))(
            keys
        )
        if agent_color == "random":
            color = jnp.where(jax.random.bernoulli(color_key, shape=(count,)), BLACK, WHITE)
        else:
            color = jnp.full(count, BLACK if agent_color == "black" else WHITE)
        return _Games(states, color.astype(jnp.int8))

    def choose(condition: jax.Array, yes, no):
        def pick(a, b):
            return jnp.where(condition.reshape(-1, *([1] * (a.ndim - 1))), a, b)

        return jax.tree.map(pick, yes, no)

    def forfeit(states: State, who: jax.Array, winner: jax.Array) -> State:
        return states.replace(
            terminated=states.terminated | who, winner=jnp.where(who, winner, states.winner)
        )

    def transition(
        key: jax.Array, games: _Games, restart: jax.Array, actions: jax.Array
    ) -> tuple[_Games, _Outcome]:
        """Begins the games where `restart`, bool [B], is True, and plays `actions`, int32 [B], elsewhere."""
        begin_key, opponent_key = jax.random.split(key)
        before = games.states
        played = jax.vmap(game.step)(before, actions)
        illegal = (played.move_count == before.move_count) & ~before.terminated & ~restart
        games = choose(restart, begin(begin_key, actions.shape[0]), games.replace(states=played))
        color, states = games.color, forfeit(games.states, illegal, -games.color)
        due = ~states.terminated & (states.to_play != color)
        replied = jax.vmap(game.step)(states, opponent(opponent_key, states))
        opponent_illegal = due & (replied.move_count == states.move_count)
        states = forfeit(choose(due, replied, states), opponent_illegal, color)
        outcome = _Outcome(
            # Also at the end it is the agent who looks, whoever would be to move.
            observation=jax.vmap(game.observe)(states.replace(to_play=color)),
            action_mask=legal_action_masks(game, states).astype(jnp.int8),
            reward=jnp.where(states.terminated, states.winner * color, 0).astype(jnp.float32),
            terminated=states.terminated,
            illegal=illegal,
            opponent_illegal=opponent_illegal,
        )
        return games.replace(states=states), outcome

    return jax.jit(transition)


class _Batch:
    """B games on the host, for both environments."""

    def __init__(
        self,
        num_games: int,
        game: Gomoku,
        opponent: str | Player,
        agent_color: AgentColor,
        illegal: Illegal,
        opening_stones: int,
    ):
        for name, value, choices in (
            ("agent_color", agent_color, ("black", "white", "random")),
            ("illegal", illegal, ("lose", "raise")),
        ):
            if value not in choices:
                raise ValueError(f"{name} = {value!r}: choose one of {', '.join(choices)}")
        # The side to move has fewer than k - 1 stones then, and cannot win before the agent's first move.
        most = 2 * game.k - 3
        if not 0 <= opening_stones <= most:
            raise ValueError(f"opening_stones = {opening_stones}: from 0 to 2 * k - 3 = {most}")
        self.game, self.illegal = game, illegal
        self._transition = _transition(game, _player(opponent, game), agent_color, opening_stones)
        self._empty = _Games(
            jax.tree.map(lambda x: jnp.broadcast_to(x, (num_games, *x.shape)), game.init()),
            jnp.ones(num_games, jnp.int8),
        )
        self.finished = np.ones(num_games, bool)

    def reset(self, random: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Begins all games; observation and infos, each [B, ...]."""
        self._key = jax.random.key(int(random.integers(2**31)))
        self._steps = 0
        self._games = self._empty
        self.finished[:] = True
        outcome = self._advance(np.zeros(len(self.finished), np.int32))
        return outcome.observation, self._infos(outcome)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Plays in the games that go on and begins the others anew; observation, reward, terminated, infos.

        Raises:
            IllegalMoveError: where `illegal` is "raise"; nothing has changed then.
        """
        if self.illegal == "raise":
            self._check(actions)
        outcome = self._advance(np.clip(actions, -1, self.game.num_actions).astype(np.int32))
        return outcome.observation, outcome.reward.astype(float), outcome.terminated, self._infos(outcome)

    def state(self, index: int) -> State:
        """One of the games."""
        return jax.tree.map(lambda x: x[index], self._games.states)

    def _advance(self, actions: np.ndarray) -> Any:
        key = jax.random.fold_in(self._key, self._steps)
        games, outcome = self._transition(key, self._games, self.finished, actions)
        outcome = jax.tree.map(np.array, outcome)  # copies, which callers may write to
        if outcome.opponent_illegal.any():
            index = int(outcome.opponent_illegal.argmax())
            raise IllegalMoveError(f"game {index}: the opponent's player chose an illegal action")
        self._games, self._steps = games, self._steps + 1
        self.finished = outcome.terminated.copy()
        self._mask = outcome.action_mask.astype(bool)
        return outcome

    def _infos(self, outcome: Any) -> dict[str, np.ndarray]:
        return {
            "action_mask": outcome.action_mask,
            "agent_color": np.array(self._games.color, dtype=int),
            "illegal_action": outcome.illegal,
        }

    def _check(self, actions: np.ndarray) -> None:
        inside = (actions >= 0) & (actions < self.game.num_actions)
        legal = self._mask[np.arange(len(actions)), np.where(inside, actions, 0)]
        bad = ~self.finished & ~(inside & legal)
        if bad.any():
            index = int(bad.argmax())
            action = int(actions[index])
            reason = (
                f"{format_action(self.game, action)} is taken"
                if inside[index]
                else f"not on the board, actions are 0 to {self.game.num_actions - 1}"
            )
            raise IllegalMoveError(f"game {index}, action {action}: {reason}")


def _spaces(game: Gomoku) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Discrete]:
    observation = gymnasium.spaces.Box(0.0, 1.0, (*game.shape, 4), np.float32)
    return observation, gymnasium.spaces.Discrete(game.num_actions)


def _check_render_mode(render_mode: str | None) -> None:
    if render_mode not in (None, "ansi", "rgb_array"):
        raise ValueError(f"render_mode = {render_mode!r}: choose ansi, rgb_array or None")


def _picture(game: Gomoku, state: State, render_mode: str) -> Any:
    if render_mode == "ansi":
        return ascii_board(state)
    return board_image(state, highlight=np.asarray(game.winning_line(state)))


class GomokuEnv(gymnasium.Env):
    """An agent against a player, whose replies are part of `step`.

    Observations are float32 [H, W, 4], the planes of `Gomoku.observe` from the agent's view: own stones,
    the opponent's stones, the last move, all-ones if the agent is black. An action is `row * width + column`,
    row 0 at the bottom. The reward is +1, -1 or 0 at the end of a game, and 0 before.

    `info` holds `action_mask`, int8 [A], 1 = legal, which `action_space.sample` takes; `agent_color`, +1
    black, -1 white; and `illegal_action`, whether the agent just lost by one.

    Args:
        height: rows, 3 to 26.
        width: columns, 3 to 26.
        k: stones in a row that win.
        rule: "freestyle", "exact", "caro", "caro_overline" or "renju"; see `Gomoku`.
        opponent: "random", "tactical", "vcf:9", "mcts:100", an agent's path or a shipped agent's name, with
            `@50` for the simulations a move; or a jittable player `(key, states [B]) -> actions int32 [B]`.
        agent_color: "black" moves first; "random" draws at each reset.
        illegal: "lose" ends the game with reward -1, since Gymnasium lets an agent try any action of its
            space; "raise" raises IllegalMoveError and changes nothing.
        opening_stones: random stones of alternating colours at the start, 0 to 2 * k - 3.
        render_mode: "ansi" is text, "rgb_array" pixels.
        opening: "free", "pro" or "long_pro"; see `Gomoku`.

    Raises:
        ValueError: no such game or option.
        AgentError: no such opponent.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 2}  # noqa: RUF012

    def __init__(
        self,
        height: int = 15,
        width: int = 15,
        k: int = 5,
        rule: Rule = "freestyle",
        opponent: str | Player = "random",
        agent_color: AgentColor = "random",
        illegal: Illegal = "lose",
        opening_stones: int = 0,
        render_mode: RenderMode | None = None,
        opening: Opening = "free",
    ):
        _check_render_mode(render_mode)
        self.game = Gomoku(height, width, k, rule, opening=opening)
        self._batch = _Batch(1, self.game, opponent, agent_color, illegal, opening_stones)
        self.observation_space, self.action_space = _spaces(self.game)
        self.render_mode = render_mode

    @property
    def state(self) -> State:
        """The position."""
        return self._batch.state(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins a game; the opponent has moved where it is first. `options` are unused."""
        super().reset(seed=seed)
        observation, infos = self._batch.reset(self.np_random)
        return observation[0], _first(infos)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """The agent's move and the opponent's reply.

        Raises:
            IllegalMoveError: where `illegal` is "raise"; nothing has changed then.
            ResetNeeded: the game has ended or never began.
        """
        if self._batch.finished[0]:
            raise gymnasium.error.ResetNeeded("the game has ended: call reset first")
        observation, reward, terminated, infos = self._batch.step(np.asarray([operator.index(action)]))
        return observation[0], float(reward[0]), bool(terminated[0]), False, _first(infos)

    def render(self) -> Any:
        """A string, or uint8 [h, w, 3], by the render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render was called without a render_mode: give one to gymnasium.make")
            return None
        return _picture(self.game, self.state, self.render_mode)


def _first(infos: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        "action_mask": infos["action_mask"][0],
        "agent_color": int(infos["agent_color"][0]),
        "illegal_action": bool(infos["illegal_action"][0]),
    }


class GomokuVectorEnv(VectorEnv):
    """`num_envs` games of `GomokuEnv` in one compiled step, the opponent's replies as one batch.

    A game that has ended begins anew at the next step, whatever its action (`AutoresetMode.NEXT_STEP`): that
    step gives reward 0 and the first observation. Arguments other than `num_envs` are those of `GomokuEnv`;
    `infos` has each of its entries for all games, [N, ...], and the mask `_name` of who has it, as Gymnasium
    does.
    """

    metadata = {**GomokuEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        height: int = 15,
        width: int = 15,
        k: int = 5,
        rule: Rule = "freestyle",
        opponent: str | Player = "random",
        agent_color: AgentColor = "random",
        illegal: Illegal = "lose",
        opening_stones: int = 0,
        render_mode: RenderMode | None = None,
        opening: Opening = "free",
    ):
        if num_envs < 1:
            raise ValueError(f"num_envs = {num_envs}: at least 1")
        _check_render_mode(render_mode)
        self.num_envs = num_envs
        self.game = Gomoku(height, width, k, rule, opening=opening)
        self._batch = _Batch(num_envs, self.game, opponent, agent_color, illegal, opening_stones)
        self.single_observation_space, self.single_action_space = _spaces(self.game)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self._begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins all games; one seed serves all. `options` are unused."""
        super().reset(seed=seed)
        self._begun = True
        observation, infos = self._batch.reset(self.np_random)
        return observation, self._with_masks(infos)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Plays int [N] actions, one a game.

        Raises:
            IllegalMoveError: where `illegal` is "raise"; no game has changed then.
            ResetNeeded: before the first reset.
            ValueError: actions of another shape or kind.
        """
        if not self._begun:
            raise gymnasium.error.ResetNeeded("call reset first")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or not np.issubdtype(actions.dtype, np.integer):
            raise ValueError(
                f"actions of shape {actions.shape} and type {actions.dtype}: {self.num_envs} integers"
            )
        observation, reward, terminated, infos = self._batch.step(actions)
        return observation, reward, terminated, np.zeros_like(terminated), self._with_masks(infos)

    def render(self) -> tuple[Any, ...] | None:
        """A picture of each game."""
        if self.render_mode is None:
            return None
        states = [self._batch.state(index) for index in range(self.num_envs)]
        return tuple(_picture(self.game, state, self.render_mode) for state in states)

    def _with_masks(self, infos: dict[str, np.ndarray]) -> dict[str, Any]:
        return infos | {f"_{name}": np.ones(self.num_envs, bool) for name in infos}


if ENV_ID not in gymnasium.registry:  # a reload would warn that it replaces the environment
    gymnasium.register(
        ENV_ID, entry_point=f"{__name__}:GomokuEnv", vector_entry_point=f"{__name__}:GomokuVectorEnv"
    )
