"""AlphaZero for Gomoku in functional JAX: rules, batched tree search, self-play, learning.

>>> import gomoku_jax as gj
>>> game = gj.Gomoku(height=6, width=6, k=4)
>>> state = gj.replay_moves(game, "c3d4c4")
>>> int(state.to_play)
-1
"""

from gomoku_jax.agent import Agent, load_agent
from gomoku_jax.arena import MatchResult, play_match
from gomoku_jax.checkpoint import load_checkpoint
from gomoku_jax.config import NetworkConfig, SearchConfig, TrainConfig
from gomoku_jax.game import Gomoku, IllegalMoveError, State, replay_moves
from gomoku_jax.network import NetworkOutput, apply_network, init_network
from gomoku_jax.players import mcts_player, policy_player, random_player, search_player, tactical_player
from gomoku_jax.presets import PRESETS
from gomoku_jax.published import load_published
from gomoku_jax.search import SearchOutput, SearchSummary, anytime_search, search
from gomoku_jax.train import train

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Agent",
    "Gomoku",
    "IllegalMoveError",
    "MatchResult",
    "NetworkConfig",
    "NetworkOutput",
    "SearchConfig",
    "SearchOutput",
    "SearchSummary",
    "State",
    "TrainConfig",
    "anytime_search",
    "apply_network",
    "init_network",
    "load_agent",
    "load_checkpoint",
    "load_published",
    "mcts_player",
    "play_match",
    "policy_player",
    "random_player",
    "replay_moves",
    "search",
    "search_player",
    "tactical_player",
    "train",
]
