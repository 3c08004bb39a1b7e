"""Who can play a move. A player is a pure function `(key, states [B]) -> actions int32 [B]`.

Players are jittable and take any batch. In a finished game they give an action of no meaning.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State, random_actions
from gomoku_jax.network import Params
from gomoku_jax.search import mask_logits, network_evaluator, pure_mcts, search
from gomoku_jax.tactics import WON, check_bounds, solve_vcf

Player = Callable[[jax.Array, State], jax.Array]


def random_player(game: Gomoku) -> Player:
    """Uniformly random legal moves."""

    def play(key: jax.Array, states: State) -> jax.Array:
        return random_actions(game, key, states)

    return play


def tactical_player(game: Gomoku) -> Player:
    """Looks one ply ahead: wins if it can, else blocks a win of the opponent's, else plays at random."""

    def play_one(key: jax.Array, state: State) -> jax.Array:
        wins = game.winning_actions(state, state.to_play)
        legal = game.legal_action_mask(state)
        blocks = game.blocking_actions(state, -state.to_play) & legal
        threats = game.winning_actions(state, -state.to_play) & legal  # where one block is not enough
        blocks = jnp.where(blocks.any(), blocks, threats)
        candidates = jnp.where(wins.any(), wins, jnp.where(blocks.any(), blocks, legal))
        logits = mask_logits(jnp.zeros(game.num_actions), candidates)
        return jax.random.categorical(key, logits).astype(jnp.int32)

    def play(key: jax.Array, states: State) -> jax.Array:
        return jax.vmap(play_one)(jax.random.split(key, states.to_play.shape[0]), states)

    return play


def vcf_player(game: Gomoku, max_depth: int = 9, max_nodes: int = 500) -> Player:
    """Wins by continuous fours if it can, and else plays as `tactical_player`.

    Args:
        game: the rules, any of them.
        max_depth: plies of such a win, an odd number.
        max_nodes: fours tried in a position.

    Raises:
        ValueError: an even depth or a bound below 1.
    """
    check_bounds(max_depth, max_nodes)
    tactical = tactical_player(game)

    def play(key: jax.Array, states: State) -> jax.Array:
        found = solve_vcf(game, states, max_depth, max_nodes)
        return jnp.where(found.result == WON, found.action, tactical(key, states))

    return play


def mcts_player(game: Gomoku, num_playouts: int, c_puct: float = 5.0) -> Player:
    """Pure MCTS with random playouts, `num_playouts` a move, playing the most visited move."""
    if num_playouts < 1:
        raise ValueError(f"num_playouts = {num_playouts}: at least 1")

    def play(key: jax.Array, states: State) -> jax.Array:
        return pure_mcts(game, key, states, num_playouts, c_puct).action

    return play


def policy_player(game: Gomoku, net_config: NetworkConfig, params: Params) -> Player:
    """The network's likeliest legal move, without search."""
    evaluate = network_evaluator(game, net_config)

    def play(key: jax.Array, states: State) -> jax.Array:
        del key
        logits = evaluate(params, states).policy_logits
        return jnp.argmax(mask_logits(logits, legal_action_masks(game, states)), axis=-1).astype(jnp.int32)

    return play


def search_player(game: Gomoku, net_config: NetworkConfig, params: Params, config: SearchConfig) -> Player:
    """Network and search; `config.greedy()` plays its best move."""

    def play(key: jax.Array, states: State) -> jax.Array:
        return search(game, net_config, params, key, states, config).action

    return play


# What players think of positions, for swap and swap2: pure functions `(key, states [B]) -> float32 [B]`, the
# values from the view of the side to move.

Values = Callable[[jax.Array, State], jax.Array]


def mcts_values(game: Gomoku, num_playouts: int, c_puct: float = 5.0) -> Values:
    """The mean result of pure MCTS's playouts."""

    def values(key: jax.Array, states: State) -> jax.Array:
        return pure_mcts(game, key, states, num_playouts, c_puct).root_value

    return values


def network_values(game: Gomoku, net_config: NetworkConfig, params: Params) -> Values:
    """The network's value, without search."""
    evaluate = network_evaluator(game, net_config)

    def values(key: jax.Array, states: State) -> jax.Array:
        del key
        return evaluate(params, states).value

    return values


def search_values(game: Gomoku, net_config: NetworkConfig, params: Params, config: SearchConfig) -> Values:
    """The value of the root after a search."""

    def values(key: jax.Array, states: State) -> jax.Array:
        return search(game, net_config, params, key, states, config).root_value

    return values
