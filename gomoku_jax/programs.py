"""A run's jitted programs: self-play into the buffer, updates from it, matches against pure MCTS."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from gomoku_jax import learn, replay
from gomoku_jax.arena import MatchGames, play_games
from gomoku_jax.checkpoint import TrainingState, total_updates
from gomoku_jax.config import TrainConfig
from gomoku_jax.encode import (
    legal_action_masks,
    legal_action_masks_of_rules,
    observe,
    observe_rules,
    states_from_positions,
)
from gomoku_jax.game import Gomoku
from gomoku_jax.inference import prepare
from gomoku_jax.network import apply_network
from gomoku_jax.players import mcts_player, policy_player, search_player
from gomoku_jax.search import network_evaluator
from gomoku_jax.selfplay import Positions, SelfplayState
from gomoku_jax.selfplay_rules import run_selfplay_of_rules
from gomoku_jax.sharding import DATA, data_mesh, replicated, split_axis, split_spec
from gomoku_jax.symmetry import random_symmetries


def make_batch(game: Gomoku, config: TrainConfig, positions: Positions) -> learn.Batch:
    """Stored positions [B, ...] → what the loss takes: planes and legal moves are made here.

    Args:
        game: the run's, whose rule is that of positions which tell none.
        config: the run.
        positions: B of them.
    """
    states = states_from_positions(positions.board, positions.to_play, positions.last_action)
    if positions.rule is None:
        observation, legal = observe(game, states, config.network.planes), legal_action_masks(game, states)
    else:
        games = [Gomoku.from_config(other) for other in config.games]
        observation = observe_rules(game, states, positions.rule)
        legal = legal_action_masks_of_rules(games, states, positions.rule)
    return learn.Batch(
        observation=observation,
        legal=legal,
        policy_target=positions.policy_target,
        policy_weight=positions.policy_weight,
        value_target=positions.value_target,
    )


def transform_positions(key: jax.Array, positions: Positions) -> Positions:
    """Every position under a random symmetry of the board. Consumes `key`."""
    board, last_action, policy_target = random_symmetries(
        key, positions.board, positions.last_action, positions.policy_target
    )
    return positions.replace(board=board, last_action=last_action, policy_target=policy_target)


@dataclasses.dataclass(frozen=True)
class Programs:
    """A run's jitted programs. `selfplay` and `update` donate the states that they give back."""

    place: Callable[[TrainingState], TrainingState]  # puts a state where the programs want it
    selfplay: Callable[..., Any]  # (params, selfplay, replay, key) -> (selfplay, replay, stats [devices, R])
    update: Callable[..., Any]  # (learner, replay, key) -> (learner, metrics)
    evaluate: Callable[[int], Callable[..., MatchGames]]  # num_playouts -> (params, key) -> games


def make_programs(config: TrainConfig, mesh: jax.sharding.Mesh | None = None) -> Programs:
    """Builds the programs of a config; each compiles once, whatever the iteration brings.

    Args:
        config: the run.
        mesh: devices that share games and batches; by default all that divide both, the games of each rule.
    """
    games = [Gomoku.from_config(game) for game in config.games]  # R, under the run's rules
    mesh = mesh or data_mesh(config.selfplay.num_games // len(games), config.learn.batch_size)
    game = games[0]
    evaluators = [network_evaluator(game, config.network) for game in games]
    apply_fn = functools.partial(apply_network, config.network)
    optimizer = learn.make_optimizer(config.learn, total_updates(config))
    everywhere, by_game = replicated(mesh), split_axis(mesh)
    games_sharding = SelfplayState(states=by_game, pending=split_axis(mesh, 1))  # type: ignore[arg-type]
    games_spec = SelfplayState(states=split_spec(), pending=split_spec(1))  # type: ignore[arg-type]
    share = dataclasses.replace(config.selfplay, num_games=config.selfplay.num_games // mesh.size)

    def play_share(params, selfplay, key):
        shard = jax.lax.axis_index(DATA)
        prepared = prepare(config.network, params)
        selfplay, positions, is_new, stats = run_selfplay_of_rules(
            games, evaluators, share, config.search, prepared, selfplay, key, shard
        )
        return selfplay, positions, is_new, jax.tree.map(lambda x: x[None], stats)

    play_shares = jax.shard_map(
        play_share,
        mesh=mesh,
        in_specs=(PartitionSpec(), games_spec, PartitionSpec()),
        out_specs=(games_spec, split_spec(), split_spec(), split_spec()),
        check_vma=False,
    )

    def place(state: TrainingState) -> TrainingState:
        return state.replace(
            learner=jax.device_put(state.learner, everywhere),
            replay=jax.device_put(state.replay, everywhere),
            selfplay=jax.device_put(state.selfplay, games_sharding),
            key=jax.device_put(state.key, everywhere),
        )

    @functools.partial(
        jax.jit,
        donate_argnums=(1, 2),
        in_shardings=(everywhere, games_sharding, everywhere, everywhere),
        out_shardings=(games_sharding, everywhere, everywhere),
    )
    def selfplay_program(params, selfplay, buffer, key):
        selfplay, positions, is_new, stats = play_shares(params, selfplay, key)
        positions, is_new = jax.lax.with_sharding_constraint((positions, is_new), everywhere)
        with jax.named_scope("replay"):
            buffer = replay.add(buffer, positions, is_new)
        return selfplay, buffer, stats

    @functools.partial(
        jax.jit,
        donate_argnums=0,
        in_shardings=(everywhere, everywhere, everywhere),
        out_shardings=(everywhere, everywhere),
    )
    def update_program(learner, buffer, key):
        def draw_batch(key):
            transform = transform_positions if config.replay.symmetries else None
            window = None
            if config.replay.window_exponent < 1:
                window = replay.growing_window(
                    buffer.size, config.replay.min_size, config.replay.window_exponent
                )
            with jax.named_scope("replay"):
                positions = replay.sample(buffer, key, config.learn.batch_size, transform, window)
            return jax.lax.with_sharding_constraint(make_batch(game, config, positions), by_game)

        return learn.run_updates(
            learner, draw_batch, key, apply_fn=apply_fn, optimizer=optimizer, config=config.learn
        )

    @functools.cache
    def evaluate_program(num_playouts: int):
        pairs_each = -(-config.evaluation.num_games // (2 * mesh.size))

        def play_share(params, key):
            if config.evaluation.num_simulations == 0:
                agent = policy_player(game, config.network, params)
            else:
                greedy = config.search.greedy(config.evaluation.num_simulations)
                agent = search_player(game, config.network, params, greedy)
            opponent = mcts_player(game, num_playouts)
            key = jax.random.fold_in(key, jax.lax.axis_index(DATA))
            return play_games(agent, opponent, game, key, pairs_each, config.evaluation.opening_stones)

        by_pair = split_spec(1)
        games_spec = MatchGames(by_pair, by_pair, by_pair, by_pair)  # type: ignore[arg-type]
        return jax.jit(
            jax.shard_map(
                play_share,
                mesh=mesh,
                in_specs=(PartitionSpec(), PartitionSpec()),
                out_specs=games_spec,
                check_vma=False,
            ),
            in_shardings=(everywhere, everywhere),
        )

    return Programs(place, selfplay_program, update_program, evaluate_program)


def playing_params(config: TrainConfig, state: TrainingState) -> Any:
    """The parameters that play: the averaged ones where an average is kept."""
    return state.learner.ema_params if config.learn.ema_decay > 0 else state.learner.params
