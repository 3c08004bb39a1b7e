"""A run's jitted programs: self-play into the buffer, updates from it, matches against pure MCTS."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

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
from gomoku_jax.replay_rings import num_rings, relay, ring_of, share_of
from gomoku_jax.search import network_evaluator
from gomoku_jax.selfplay import Positions, SelfplayState
from gomoku_jax.selfplay_rules import run_selfplay_of_rules
from gomoku_jax.sharding import (
    DATA,
    data_mesh,
    local_devices,
    mesh_of,
    put,
    replicated,
    split_axis,
    split_spec,
)
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
    """A run's jitted programs. `selfplay`, `play`, `add` and `update` donate the states that they give back.

    Attributes:
        mesh: the devices that learn, and play matches; D of them, whose rings the replay buffer is.
        actors: the devices that play games of self-play; `mesh` itself where all do both.
        place: puts a state where the programs want it, from wherever it is.
        selfplay: `(params, selfplay, replay, key) -> (selfplay, replay, stats [D, R])`: `play`, then `add`.
        play: `(params, selfplay, key) -> (selfplay, positions, is_new, stats)`, on the actors.
        add: `(replay, positions, is_new) -> replay`.
        draw: `(replay, key) -> Batch`, as an update draws it.
        update: `(learner, replay, key) -> (learner, metrics)`.
        evaluate: `num_playouts -> (params, key) -> games`.
    """

    mesh: Mesh
    actors: Mesh
    place: Callable[[TrainingState], TrainingState]
    selfplay: Callable[..., Any]
    play: Callable[..., Any]
    add: Callable[..., Any]
    draw: Callable[..., learn.Batch]
    update: Callable[..., Any]
    evaluate: Callable[[int], Callable[..., MatchGames]]

    @property
    def split(self) -> bool:
        """Whether some devices play while others learn."""
        return self.actors is not self.mesh


def make_meshes(config: TrainConfig, devices: list | None = None) -> tuple[Mesh, Mesh]:
    """The devices that learn and those that play: the same, or those of `config.devices.actors`.

    Args:
        config: the run. Games (of each rule) and batches are shared by as many devices as divide them.
        devices: to choose from; all by default.

    Raises:
        ValueError: the actors leave no device for learning, or games or batches cannot be shared.
    """
    num_games = config.selfplay.num_games // len(config.games)
    if config.devices.actors == 0:
        mesh = data_mesh(num_games, config.learn.batch_size, devices=devices)
        return mesh, mesh
    own, actors = local_devices(devices), config.devices.actors
    if actors >= len(own[0]):
        raise ValueError(
            f"devices.actors = {actors}: fewer than the {len(own[0])} of a process, as some must learn"
        )
    playing = [device for part in own for device in part[:actors]]
    if num_games % len(playing) != 0:
        raise ValueError(f"devices.actors = {actors}: {len(playing)} devices cannot share {num_games} games")
    learning = [device for part in own for device in part[actors:]]
    return data_mesh(config.learn.batch_size, devices=learning), mesh_of(playing)


def make_programs(config: TrainConfig, mesh: Mesh | None = None, actors: Mesh | None = None) -> Programs:
    """Builds the programs of a config; each compiles once, whatever the iteration brings.

    Args:
        config: the run.
        mesh: devices that share batches; by default `make_meshes`'s, like the next.
        actors: devices that share games; by default `mesh`, where that is given.
    """
    if mesh is None:
        mesh, actors = make_meshes(config)
    if actors is None:
        actors = mesh
    games = [Gomoku.from_config(game) for game in config.games]  # R, under the run's rules
    game = games[0]
    evaluators = [network_evaluator(game, config.network) for game in games]
    apply_fn = functools.partial(apply_network, config.network)
    optimizer = learn.make_optimizer(config.learn, total_updates(config))
    everywhere, by_row, playing = replicated(mesh), split_axis(mesh), replicated(actors)
    games_sharding = SelfplayState(states=split_axis(actors), pending=split_axis(actors, 1))  # type: ignore[arg-type]
    games_spec = SelfplayState(states=split_spec(), pending=split_spec(1))  # type: ignore[arg-type]
    whole = PartitionSpec()
    share = dataclasses.replace(config.selfplay, num_games=config.selfplay.num_games // actors.size)

    def play_share(params, selfplay, key):
        shard = jax.lax.axis_index(DATA)
        prepared = prepare(config.network, params)
        selfplay, positions, is_new, stats = run_selfplay_of_rules(
            games, evaluators, share, config.search, prepared, selfplay, key, shard
        )
        return selfplay, positions, is_new, jax.tree.map(lambda x: x[None], stats)

    def add_share(buffer, positions, is_new):
        with jax.named_scope("replay"):
            return share_of(replay.add(ring_of(buffer), positions, is_new))

    def selfplay_share(params, selfplay, buffer, key):
        selfplay, positions, is_new, stats = play_share(params, selfplay, key)
        return selfplay, add_share(buffer, positions, is_new), stats

    def draw_share(buffer, key):
        """A device's share of a batch, from its own ring."""
        ring = ring_of(buffer)
        window = None
        if config.replay.window_exponent < 1:
            least = -(-config.replay.min_size // mesh.size)
            window = replay.growing_window(ring.size, least, config.replay.window_exponent)
        transform = transform_positions if config.replay.symmetries else None
        key = jax.random.fold_in(key, jax.lax.axis_index(DATA))
        count = config.learn.batch_size // mesh.size
        with jax.named_scope("replay"):
            positions = replay.sample(ring, key, count, transform, window)
        return make_batch(game, config, positions)

    def place(state: TrainingState) -> TrainingState:
        buffer = state.replay
        if num_rings(buffer) != mesh.size:
            buffer = relay(jax.device_get(buffer), config.replay.capacity, mesh.size)
        return state.replace(
            learner=put(state.learner, everywhere),
            replay=put(buffer, by_row),
            selfplay=put(state.selfplay, games_sharding),
            key=put(state.key, everywhere),
            actor_params=None if state.actor_params is None else put(state.actor_params, playing),
        )

    @functools.partial(
        jax.jit,
        donate_argnums=(1, 2),
        in_shardings=(everywhere, games_sharding, by_row, everywhere),
        out_shardings=(games_sharding, by_row, by_row),
    )
    def selfplay_program(params, selfplay, buffer, key):
        return jax.shard_map(
            selfplay_share,
            mesh=mesh,
            in_specs=(whole, games_spec, split_spec(), whole),
            out_specs=(games_spec, split_spec(), split_spec()),
            check_vma=False,
        )(params, selfplay, buffer, key)

    @functools.partial(jax.jit, donate_argnums=1, in_shardings=(playing, games_sharding, playing))
    def play_program(params, selfplay, key):
        return jax.shard_map(
            play_share,
            mesh=actors,
            in_specs=(whole, games_spec, whole),
            out_specs=(games_spec, split_spec(), split_spec(), split_spec()),
            check_vma=False,
        )(params, selfplay, key)

    @functools.partial(jax.jit, donate_argnums=0, in_shardings=by_row, out_shardings=by_row)
    def add_program(buffer, positions, is_new):
        return jax.shard_map(
            add_share, mesh=mesh, in_specs=split_spec(), out_specs=split_spec(), check_vma=False
        )(buffer, positions, is_new)

    draw = jax.shard_map(
        draw_share, mesh=mesh, in_specs=(split_spec(), whole), out_specs=split_spec(), check_vma=False
    )

    @functools.partial(
        jax.jit,
        donate_argnums=0,
        in_shardings=(everywhere, by_row, everywhere),
        out_shardings=(everywhere, everywhere),
    )
    def update_program(learner, buffer, key):
        return learn.run_updates(
            learner,
            functools.partial(draw, buffer),
            key,
            apply_fn=apply_fn,
            optimizer=optimizer,
            config=config.learn,
        )

    @functools.cache
    def evaluate_program(num_playouts: int):
        pairs_each = -(-config.evaluation.num_games // (2 * mesh.size))

        def match_share(params, key):
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
                match_share, mesh=mesh, in_specs=(whole, whole), out_specs=games_spec, check_vma=False
            ),
            in_shardings=(everywhere, everywhere),
        )

    return Programs(
        mesh=mesh,
        actors=actors,
        place=place,
        selfplay=selfplay_program,
        play=play_program,
        add=add_program,
        draw=jax.jit(draw, in_shardings=(by_row, everywhere), out_shardings=by_row),
        update=update_program,
        evaluate=evaluate_program,
    )


def deal_positions(
    programs: Programs, positions: Positions, is_new: jax.Array
) -> tuple[Positions, jax.Array]:
    """Positions from the actors to the rings of the learners, by way of the host.

    Each process deals out, in turn and in order, what its own actors gave to its own learners: only positions
    of games that ended, filled up to a fixed number, so that nothing compiles again.

    Args:
        programs: of a run with actors.
        positions: [M, ...] over the actors.
        is_new: bool [M], which are to be kept.

    Returns:
        Positions [M', ...] and bool [M'] over the learners.
    """
    own = [device for device in programs.mesh.devices.flat if device.process_index == jax.process_index()]
    where = split_axis(programs.mesh)

    def local(x: jax.Array) -> np.ndarray:
        parts = sorted(x.addressable_shards, key=lambda part: part.index[0].start or 0)
        return np.concatenate([np.asarray(part.data) for part in parts])

    kept = local(is_new)
    each = -(-len(kept) // len(own))
    sizes = [len(range(first, kept.sum(), len(own))) for first in range(len(own))]

    def deal(x: jax.Array) -> jax.Array:
        rows = local(x)[kept]
        dealt = np.zeros((len(own), each, *rows.shape[1:]), rows.dtype)
        for first, size in enumerate(sizes):
            dealt[first, :size] = rows[first :: len(own)]
        return jax.make_array_from_process_local_data(where, dealt.reshape(-1, *rows.shape[1:]))

    mask = np.concatenate([np.arange(each) < size for size in sizes])
    return jax.tree.map(deal, positions), jax.make_array_from_process_local_data(where, mask)
