"""Self-play: B games in one `lax.scan`, restarted as they end, kept across iterations.

Every position of every finished game is given out exactly once, in the iteration in which its game ends,
with the outcome from its own side's view (a search that prefers short wins discounts the outcome alike).
Positions of running games wait in the state. A game has at most A moves, so a window over the last A steps
and the new ones holds every running game from its start.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from gomoku_jax.config import SearchConfig, SelfplayConfig
from gomoku_jax.encode import legal_action_masks
from gomoku_jax.game import Gomoku, State, random_opening
from gomoku_jax.network import Params
from gomoku_jax.search import (
    Evaluator,
    SearchOutput,
    SearchTree,
    advance_tree,
    draw_action,
    init_tree,
    mask_logits,
    run_simulations,
    search_output,
    search_with,
)


class Moves(struct.PyTreeNode):
    """What is remembered of each move until its game ends; leading axes [time, B]."""

    board: jax.Array  # int8 [..., H, W], before the move
    to_play: jax.Array  # int8 [...]
    last_action: jax.Array  # int32 [...], before the move
    policy_target: jax.Array  # float32 [..., A]
    policy_weight: jax.Array  # float32 [...], 0 where the search was too short for a target
    search_value: jax.Array  # float32 [...], the root's value
    played: jax.Array  # bool [...], False before the first move of a run
    terminated: jax.Array  # bool [...], after the move
    winner: jax.Array  # int8 [...], after the move


class Positions(struct.PyTreeNode):
    """Training positions, what the replay buffer keeps; leading axis [M].

    Attributes:
        board: int8 [M, H, W].
        to_play: int8 [M].
        last_action: int32 [M].
        policy_target: float32 [M, A].
        policy_weight: float32 [M], weight of the policy loss.
        value_target: float32 [M] in [-1, 1], from the view of the side to move.
        rule: int8 [M], the place in `config.RULES`; None where all are of one rule.
    """

    board: jax.Array
    to_play: jax.Array
    last_action: jax.Array
    policy_target: jax.Array
    policy_weight: jax.Array
    value_target: jax.Array
    rule: jax.Array | None = None


class SelfplayState(struct.PyTreeNode):
    """The running games, [B, ...], and their moves so far, [A, B, ...] in order of time."""

    states: State
    pending: Moves


class SelfplayStats(struct.PyTreeNode):
    """Counts over one iteration, int32 [] each unless said otherwise."""

    games: jax.Array  # finished
    black_wins: jax.Array
    white_wins: jax.Array
    draws: jax.Array
    game_length: jax.Array  # sum over the finished games of stones on the board
    positions: jax.Array  # given out
    target_entropy: jax.Array  # float32 [], mean entropy of the policy targets, nats


def _openings(game: Gomoku, config: SelfplayConfig, key: jax.Array) -> State:
    """B fresh games after 0 to `opening_stones` random stones."""
    count_key, stones_key = jax.random.split(key)
    most = config.opening_stones
    counts = jax.random.randint(count_key, (config.num_games,), 0, most + 1, jnp.int32)
    keys = jax.random.split(stones_key, config.num_games)
    return jax.vmap(lambda k, n: random_opening(game, k, n, most))(keys, counts)


def init_selfplay(game: Gomoku, config: SelfplayConfig, key: jax.Array) -> SelfplayState:
    """Fresh games. Consumes `key`."""
    steps, batch = game.num_actions, config.num_games
    pending = Moves(
        board=jnp.zeros((steps, batch, *game.shape), jnp.int8),
        to_play=jnp.ones((steps, batch), jnp.int8),
        last_action=jnp.full((steps, batch), -1, jnp.int32),
        policy_target=jnp.zeros((steps, batch, game.num_actions), jnp.float32),
        policy_weight=jnp.zeros((steps, batch), jnp.float32),
        search_value=jnp.zeros((steps, batch), jnp.float32),
        played=jnp.zeros((steps, batch), bool),
        terminated=jnp.zeros((steps, batch), bool),
        winner=jnp.zeros((steps, batch), jnp.int8),
    )
    return SelfplayState(states=_openings(game, config, key), pending=pending)


def run_selfplay(
    game: Gomoku,
    evaluate: Evaluator,
    config: SelfplayConfig,
    search_config: SearchConfig,
    params: Params,
    selfplay: SelfplayState,
    key: jax.Array,
    shard: jax.typing.ArrayLike = 0,
) -> tuple[SelfplayState, Positions, jax.Array, SelfplayStats]:
    """Plays T moves in each of B games. Pure and jittable; consumes `key`.

    Args:
        game: the rules.
        evaluate: priors and values of a batch of states.
        config: B, T and how moves are drawn.
        search_config: the full search.
        params: what `evaluate` takes.
        selfplay: the games as they stand.
        key: typed PRNG key, the same on all devices.
        shard: int [], which share of the games this is, where devices share them; each draws its own numbers.

    Returns:
        The games as they stand; `Positions` of M = (A + T) * B rows in order of time; bool [M], which rows
        are positions of games that ended in this call; counts.
    """

    def move(carry: tuple[State, SearchTree | None], key: jax.Array):
        states, tree = carry
        kind_key, games_key = jax.random.split(key)
        search_key, draw_key, opening_key = jax.random.split(jax.random.fold_in(games_key, shard), 3)
        if tree is None:
            output, is_full = _search(
                game, evaluate, config, search_config, params, states, kind_key, search_key
            )
        else:
            tree = run_simulations(game, evaluate, params, tree, search_config.num_simulations, search_config)
            output, is_full = search_output(tree, search_config), jnp.bool_(True)
        weight = jnp.full(config.num_games, is_full, jnp.float32)
        if config.surprise_weight > 0:
            weight *= surprise_weights(
                evaluate(params, states).policy_logits,
                legal_action_masks(game, states),
                output.action_weights,
                config.surprise_weight,
            )
        action = _draw(game, evaluate, config, params, states, output, draw_key)
        after = jax.vmap(game.step)(states, action)
        moves = Moves(
            board=states.board,
            to_play=states.to_play,
            last_action=states.last_action,
            policy_target=output.action_weights,
            policy_weight=weight,
            search_value=output.root_value if config.search_value == "mean" else improved_value(output),
            played=jnp.ones(config.num_games, bool),
            terminated=after.terminated,
            winner=after.winner,
        )
        states = _restart(after, _openings(game, config, opening_key))
        if tree is not None:  # the key is for the next position's search
            tree = advance_tree(game, evaluate, params, search_key, tree, action, states, search_config)
        return (states, tree), moves

    tree = None
    if search_config.reuse_tree:
        key, tree_key = jax.random.split(key)
        tree_key = jax.random.fold_in(tree_key, shard)
        tree = init_tree(game, evaluate, params, tree_key, selfplay.states, search_config)
    (states, _), moves = jax.lax.scan(
        move, (selfplay.states, tree), jax.random.split(key, config.moves_per_iteration)
    )
    window = jax.tree.map(lambda old, new: jnp.concatenate([old, new]), selfplay.pending, moves)
    positions, is_new = finished_positions(
        window, config.moves_per_iteration, config.search_value_fraction, search_config.ply_discount
    )
    pending = jax.tree.map(lambda x: x[config.moves_per_iteration :], window)
    return SelfplayState(states=states, pending=pending), positions, is_new, _stats(moves, is_new)


def improved_value(output: SearchOutput) -> jax.Array:
    """float32 [B]: the mean Q of the visited moves under the policy target.

    The mean over visits counts the bad moves that the search tried as often as it tried them, which under
    Gumbel is often.
    """
    weights = jnp.where(output.visit_counts > 0, output.action_weights, 0.0)
    total = weights.sum(-1)
    value = (weights * output.q_values).sum(-1) / jnp.maximum(total, 1e-6)
    return jnp.where(total > 1e-6, value, output.root_value)


def surprise_weights(
    policy_logits: jax.Array, legal: jax.Array, policy_target: jax.Array, share: float
) -> jax.Array:
    """float32 [B], weights of mean 1: positions where search disagrees with the policy count more.

    A `share` of the weight is in proportion to KL(target || policy) (Wu 2019, https://arxiv.org/abs/1902.10565,
    where positions are repeated rather than weighted).

    Args:
        policy_logits: float32 [B, A], the network's.
        legal: bool [B, A].
        policy_target: float32 [B, A], the search's.
        share: 0 gives all the same weight.
    """
    log_policy = jax.nn.log_softmax(mask_logits(policy_logits, legal), axis=-1)
    log_target = jnp.log(jnp.maximum(policy_target, 1e-12))
    surprise = jnp.where(legal, policy_target * (log_target - log_policy), 0.0).sum(-1)
    surprise = jnp.maximum(surprise, 0.0)
    return 1.0 - share + share * surprise / jnp.maximum(surprise.mean(), 1e-6)


def _search(
    game, evaluate, config: SelfplayConfig, search_config: SearchConfig, params, states, kind_key, search_key
) -> tuple[SearchOutput, jax.Array]:
    """A full search, or for some moves a fast one (Wu 2019, https://arxiv.org/abs/1902.10565).

    The coin is thrown once for all games, on all devices: games run through a batch in lockstep, so a coin
    for each would save nothing, and `lax.cond` on one coin runs one branch only.
    """
    if config.full_search_fraction == 1.0:
        return search_with(game, evaluate, params, search_key, states, search_config), jnp.bool_(True)
    fast = dataclasses.replace(
        search_config,
        num_simulations=config.fast_simulations,
        dirichlet_fraction=0.0,
    )
    is_full = jax.random.bernoulli(kind_key, config.full_search_fraction)
    output = jax.lax.cond(
        is_full,
        lambda: search_with(game, evaluate, params, search_key, states, search_config),
        lambda: search_with(game, evaluate, params, search_key, states, fast),
    )
    return output, is_full


def _draw(game, evaluate, config: SelfplayConfig, params, states, output: SearchOutput, key) -> jax.Array:
    """int32 [B], the moves to play."""
    if config.draw == "search":
        return output.action
    if config.draw == "visits":
        weights = output.visit_counts
    elif config.draw == "prior":
        logits = evaluate(params, states).policy_logits
        weights = jax.nn.softmax(mask_logits(logits, legal_action_masks(game, states)), axis=-1)
    else:
        weights = output.action_weights
    early = states.move_count < config.temperature_moves
    return draw_action(key, weights, jnp.where(early, config.temperature, 0.0))


def _restart(states: State, fresh: State) -> State:
    """Fresh games in place of the finished ones."""

    def pick(old, new):
        done = states.terminated.reshape(-1, *(1,) * (old.ndim - 1))
        return jnp.where(done, new, old)

    return jax.tree.map(pick, states, fresh)


def finished_positions(
    window: Moves, num_new: int, search_value_fraction: float = 0.0, ply_discount: float = 1.0
) -> tuple[Positions, jax.Array]:
    """The positions of games that end in the last `num_new` steps of a window.

    Args:
        window: moves [steps, B, ...] in order of time.
        num_new: how many steps at the end are new; games that ended before were given out before.
        search_value_fraction: share of the search's value in the value target, beside the outcome.
        ply_discount: factor on the outcome for every ply to the game's end but the last, as in the search.

    Returns:
        Positions [steps * B, ...], and bool [steps * B]: which rows to take.
    """
    steps, batch = window.to_play.shape

    def backward(carry, step):
        outcome, known = carry
        played, terminated, winner, is_new = step
        outcome = jnp.where(terminated, winner.astype(jnp.float32), ply_discount * outcome)
        known = jnp.where(terminated, is_new, known)
        return (outcome, known), (outcome, known & played)

    start = jnp.zeros(batch, jnp.float32), jnp.zeros(batch, bool)
    is_new = jnp.arange(steps) >= steps - num_new
    _, (outcome, known) = jax.lax.scan(
        backward, start, (window.played, window.terminated, window.winner, is_new), reverse=True
    )
    result = outcome * window.to_play.astype(jnp.float32)
    value_target = (1 - search_value_fraction) * result + search_value_fraction * window.search_value
    positions = Positions(
        board=window.board,
        to_play=window.to_play,
        last_action=window.last_action,
        policy_target=window.policy_target,
        policy_weight=window.policy_weight,
        value_target=value_target.astype(jnp.float32),
    )
    return jax.tree.map(lambda x: x.reshape(steps * batch, *x.shape[2:]), positions), known.reshape(-1)


def _stats(moves: Moves, is_new: jax.Array) -> SelfplayStats:
    ended = moves.terminated
    stones = (moves.board != 0).sum((-2, -1), dtype=jnp.int32) + 1
    probabilities = moves.policy_target
    entropy = -(probabilities * jnp.log(jnp.maximum(probabilities, 1e-12))).sum(-1)
    weight = moves.policy_weight
    return SelfplayStats(
        games=ended.sum(dtype=jnp.int32),
        black_wins=(ended & (moves.winner == 1)).sum(dtype=jnp.int32),
        white_wins=(ended & (moves.winner == -1)).sum(dtype=jnp.int32),
        draws=(ended & (moves.winner == 0)).sum(dtype=jnp.int32),
        game_length=jnp.where(ended, stones, 0).sum(dtype=jnp.int32),
        positions=is_new.sum(dtype=jnp.int32),
        target_entropy=(entropy * weight).sum() / jnp.maximum(weight.sum(), 1.0),
    )
