"""Two agents, "black" and "white", in turn, as a PettingZoo AEC environment:

from gomoku_jax.play.adapters import pettingzoo_env

env = pettingzoo_env.env(height=15, width=15, k=5)
"""

import functools
import operator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.config import Opening, Rule
from gomoku_jax.game import BLACK, WHITE, Gomoku, State, ascii_board, play_move
from gomoku_jax.play.adapters import missing_extra
from gomoku_jax.play.pictures import board_image

try:
    import gymnasium
    from gymnasium.utils import EzPickle
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ImportError as error:
    raise missing_extra("pettingzoo", error) from error

COLORS = {"black": BLACK, "white": WHITE}  # in the order of their moves

RenderMode = Literal["human", "ansi", "rgb_array"]


@functools.partial(jax.jit, static_argnums=0)
def _look(game: Gomoku, state: State, color: jax.Array) -> tuple[jax.Array, jax.Array]:
    """int8 planes [H, W, 4] as `color` sees them, and int8 mask [A], all 0 for who is not to move."""
    planes = game.observe(state.replace(to_play=color)).astype(jnp.int8)
    mask = game.legal_action_mask(state) & (state.to_play == color)
    return planes, mask.astype(jnp.int8)


def env(**kwargs: Any) -> AECEnv:
    """The environment as PettingZoo's classic games are given: an illegal move ends the game.

    Who makes one gets -1, the other 0. Arguments are those of `raw_env`.
    """
    wrapped = wrappers.TerminateIllegalWrapper(raw_env(**kwargs), illegal_reward=-1)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(wrapped))


class raw_env(AECEnv, EzPickle):  # noqa: N801, the name that PettingZoo gives it everywhere
    """Gomoku without wrappers: an illegal move raises IllegalMoveError.

    An observation is a dict: `observation`, int8 [H, W, 4], the planes of `Gomoku.observe` as the agent sees
    them (own stones, the other's stones, the last move, all-ones for black), and `action_mask`, int8 [A],
    1 = legal, all 0 for who is not to move. An action is `row * width + column`, row 0 at the bottom. At
    the end the winner gets +1 and the loser -1, and both 0 in a draw.

    Args:
        height: rows, 3 to 26.
        width: columns, 3 to 26.
        k: stones in a row that win.
        rule: "freestyle", "exact", "caro", "caro_overline" or "renju"; see `Gomoku`.
        render_mode: "human" prints the board after each move; "ansi" is text, "rgb_array" pixels.
        opening: "free", "pro" or "long_pro"; see `Gomoku`.

    Raises:
        ValueError: no such game or render mode.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["human", "ansi", "rgb_array"],
        "name": "gomoku_v0",
        "is_parallelizable": False,
        "render_fps": 2,
    }

    def __init__(
        self,
        height: int = 15,
        width: int = 15,
        k: int = 5,
        rule: Rule = "freestyle",
        render_mode: RenderMode | None = None,
        opening: Opening = "free",
    ):
        EzPickle.__init__(self, height, width, k, rule, render_mode, opening)
        super().__init__()
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode = {render_mode!r}: choose human, ansi, rgb_array or None")
        self.game = Gomoku(height, width, k, rule, opening=opening)
        self.render_mode = render_mode
        self.possible_agents = list(COLORS)
        self.agents = list(self.possible_agents)
        planes = gymnasium.spaces.Box(0, 1, (*self.game.shape, 4), np.int8)
        mask = gymnasium.spaces.Box(0, 1, (self.game.num_actions,), np.int8)
        self.observation_spaces = {
            agent: gymnasium.spaces.Dict({"observation": planes, "action_mask": mask}) for agent in COLORS
        }
        self.action_spaces = {agent: gymnasium.spaces.Discrete(self.game.num_actions) for agent in COLORS}
        self._state = self.game.init()

    def observation_space(self, agent: str) -> gymnasium.spaces.Space:
        """The same for both agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space:
        """Its own for each agent, since spaces have seeds."""
        return self.action_spaces[agent]

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """The position as an agent sees it, its turn or not."""
        planes, mask = _look(self.game, self._state, np.int8(COLORS[agent]))
        return {"observation": np.array(planes), "action_mask": np.array(mask)}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """The empty board, black to move; nothing is random, and there are no options."""
        del seed, options
        self._state = self.game.init()
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "black"
        if self.render_mode == "human":
            self.render()

    def step(self, action: Any) -> None:
        """The move of the agent whose turn it is; None of one whose game has ended.

        Raises:
            IllegalMoveError: names the action and the reason; nothing has changed then.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._state = play_move(self.game, self._state, operator.index(action))
        self._cumulative_rewards[agent] = 0
        if bool(self._state.terminated):
            winner = int(self._state.winner)
            self.rewards = {name: winner * color for name, color in COLORS.items()}
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = "white" if agent == "black" else "black"
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def render(self) -> Any:
        """Prints the board, or returns a string or uint8 [h, w, 3], by the render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render was called without a render_mode: give one to env()")
            return None
        if self.render_mode == "rgb_array":
            return board_image(self._state, highlight=np.asarray(self.game.winning_line(self._state)))
        text = ascii_board(self._state)
        if self.render_mode == "human":
            print(text, end="\n\n")
            return None
        return text

    def close(self) -> None:
        """Nothing is open."""
