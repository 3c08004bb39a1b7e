"""How many bytes of each device a run takes: the shapes of its own arrays, and formulas for what XLA adds.

Learner, buffer, games and trees are counted from the functions that make them, without making anything, so
the counts are exact. What lives only while a program runs (activations, the windows of self-play) is counted
by formulas, from above: they were fitted to what XLA for the CPU plans, and tests hold them to that.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gomoku_jax import learn
from gomoku_jax.config import EvaluationConfig, GameConfig, NetworkConfig, SearchConfig, TrainConfig
from gomoku_jax.estimate.hardware import Platform
from gomoku_jax.game import NUM_PLANES, Gomoku
from gomoku_jax.network import NetworkOutput, init_network
from gomoku_jax.search import init_tree, playout_tree, to_mctx
from gomoku_jax.selfplay import finished_positions, init_selfplay
from gomoku_jax.sharding import num_devices

# Boards of [B, H, W, C] that a residual block leaves for the backward pass: its input, that after ReLU, and
# the same two before its second convolution; every second block also keeps what it pooled.
_KEPT_A_BLOCK = 4.5
# What a backward pass holds besides, in the same boards: on the CPU the nine shifted copies of `conv3x3`'s
# gradient, twice, and what feeds them; elsewhere a block's gradients and room for the convolutions (assumed).
_WORKSPACE = {"cpu": 29.0, "gpu": 8.0, "tpu": 8.0}
_LIVE_FORWARD = 3.0  # boards of [B, H, W, C] at once in a forward pass


class Layout(NamedTuple):
    """How devices share a run.

    Attributes:
        actors: devices that share the games.
        learners: devices that share batches and the replay buffer.
        split: whether these are different devices.
    """

    actors: int
    learners: int
    split: bool = False

    @property
    def devices(self) -> int:
        """How many there are in all."""
        return self.actors + self.learners if self.split else self.learners


def layout(config: TrainConfig, devices: int) -> Layout:
    """How so many devices of one process would share a run; as `programs.make_meshes`.

    Raises:
        ValueError: `config.devices.actors` leaves nobody to learn, or the actors cannot share the games.
    """
    games, batch, actors = config.selfplay.num_games // len(config.games), config.learn.batch_size, 0
    if config.devices.actors == 0:
        count = num_devices(devices, games, batch)
        return Layout(count, count)
    actors = config.devices.actors
    if actors >= devices:
        raise ValueError(f"devices.actors = {actors}: fewer than the {devices} devices, as some must learn")
    if games % actors != 0:
        raise ValueError(f"devices.actors = {actors}: they cannot share {games} games")
    return Layout(actors, num_devices(devices - actors, batch), split=True)


@dataclasses.dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on each device. `selfplay`, `update` and `evaluation` live only while their program runs.

    Attributes:
        layout: the devices.
        learner: parameters, their average, and the optimizer's state.
        replay: the device's share of the buffer.
        games: the device's share of running games and their moves.
        playing_params: the actors' copy of the parameters, where actors and learners are different devices.
        tree: the search trees of the device's games.
        window: the moves of an iteration and those before them, while the positions are made of them.
        forward: parameters for search and activations of its network.
        gradients: of the parameters, and the step they lead to.
        backward: activations of an update, kept and passing.
        evaluation: trees of the agent and of pure MCTS.
    """

    layout: Layout
    learner: int
    replay: int
    games: int
    playing_params: int
    tree: int
    window: int
    forward: int
    gradients: int
    backward: int
    evaluation: int

    @property
    def selfplay(self) -> int:
        """What self-play takes while it runs."""
        return self.tree + self.window + self.forward

    @property
    def update(self) -> int:
        """What updates take while they run."""
        return self.gradients + self.backward

    @property
    def playing(self) -> int:
        """The most at once on a device that plays and does not learn."""
        return self.playing_params + self.games + self.selfplay

    @property
    def learning(self) -> int:
        """The most at once on a device that learns; that plays as well, if all do."""
        kept = self.learner + self.replay
        if self.layout.split:
            return kept + max(self.update, self.evaluation)
        return kept + self.games + max(self.selfplay, self.update, self.evaluation)

    @property
    def total(self) -> int:
        """The most at once on any device."""
        return max(self.playing, self.learning) if self.layout.split else self.learning


def nbytes(tree: Any) -> int:
    """Bytes of the arrays of a pytree, or of arrays of such shapes; typed keys count what they hold."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def estimate_memory(config: TrainConfig, where: Layout, platform: Platform) -> MemoryEstimate:
    """Bytes of each device.

    Args:
        config: the run; a `replay.capacity` of 0 counts as no buffer.
        where: the devices that share it.
        platform: "cpu", "gpu" or "tpu".
    """
    network, play = config.network, config.selfplay
    parameters = parameter_bytes(network, config.game)
    rules = len(config.games)
    games = -(-play.num_games // where.actors)
    batch = -(-config.learn.batch_size // where.learners)
    row = position_bytes(config.game, rules > 1)
    return MemoryEstimate(
        layout=where,
        learner=learner_bytes(config),
        replay=config.replay.capacity // where.learners * row,
        games=games_bytes(config.game, games),
        playing_params=parameters if where.split else 0,
        # Rules take turns, so one's trees are there at a time. Kept trees are copied: the old beside the new.
        tree=tree_bytes(config.game, config.search, games // rules) * (2 if config.search.reuse_tree else 1),
        window=window_bytes(config.game, games, play.moves_per_iteration, row),
        forward=forward_bytes(network, config.game, games // rules, platform),
        gradients=2 * parameters,
        backward=backward_bytes(network, config.game, batch, platform) + batch * row,
        evaluation=evaluation_bytes(config.game, config.search, config.evaluation, where.learners),
    )


@functools.lru_cache(maxsize=64)
def _parameter_shapes(network: NetworkConfig, game: GameConfig) -> Any:
    return jax.eval_shape(lambda: init_network(network, Gomoku.from_config(game), jax.random.key(0)))


@functools.lru_cache(maxsize=64)
def parameter_bytes(network: NetworkConfig, game: GameConfig) -> int:
    """Of the parameters, float32."""
    return nbytes(_parameter_shapes(network, game))


def parameter_count(network: NetworkConfig, game: GameConfig) -> int:
    """How many numbers the parameters are."""
    return parameter_bytes(network, game) // 4


def parameter_arrays(network: NetworkConfig, game: GameConfig) -> int:
    """How many arrays the parameters are in."""
    return len(jax.tree.leaves(_parameter_shapes(network, game)))


@functools.lru_cache(maxsize=64)
def _learner_bytes(network: NetworkConfig, game: GameConfig, config: Any) -> int:
    def build():
        params = init_network(network, Gomoku.from_config(game), jax.random.key(0))
        return learn.init_train_state(params, learn.make_optimizer(config, None))

    return nbytes(jax.eval_shape(build))


def learner_bytes(config: TrainConfig) -> int:
    """Of parameters, their average, the optimizer's moments and accumulated gradients."""
    return _learner_bytes(config.network, config.game, config.learn)


def games_bytes(game: GameConfig, num_games: int) -> int:
    """Of running games and their moves so far, which may be as many as the board has points."""
    return num_games * nbytes(_game_shapes(game))


@functools.lru_cache(maxsize=64)
def _game_shapes(game: GameConfig) -> Any:
    """A `SelfplayState` of one game."""
    config = dataclasses.replace(TrainConfig().selfplay, num_games=1, opening_stones=0)
    rules = Gomoku.from_config(game)
    return jax.eval_shape(lambda: init_selfplay(rules, config, jax.random.key(0)))


@functools.lru_cache(maxsize=64)
def position_bytes(game: GameConfig, tells_rule: bool = False) -> int:
    """Of one position in the replay buffer; one byte more where it tells the rule it is from."""
    positions, _ = jax.eval_shape(lambda x: finished_positions(x, 1), _game_shapes(game).pending)
    return nbytes(positions) // (game.height * game.width) + tells_rule


def window_bytes(game: GameConfig, num_games: int, num_moves: int, row: int) -> int:
    """Of T new moves in each game, these after those before, and the positions made of them, (A + T) each."""
    move = nbytes(_game_shapes(game).pending) // (game.height * game.width)
    window = game.height * game.width + num_moves
    return num_games * (num_moves * move + window * (move + row))


def _no_network(params: Any, states: Any) -> NetworkOutput:
    """An evaluator for shapes alone."""
    batch, height, width = states.board.shape
    return NetworkOutput(jnp.zeros((batch, height * width)), jnp.zeros(batch))


def tree_bytes(game: GameConfig, search: SearchConfig, num_games: int) -> int:
    """Of the search trees of so many games, with room for all simulations."""
    one, two = (_tree_bytes(game, search, count) for count in (1, 2))
    return one + (num_games - 1) * (two - one)  # a counter and keys are there once


@functools.lru_cache(maxsize=256)
def _tree_bytes(game: GameConfig, search: SearchConfig, num_games: int) -> int:
    # What looks for wins makes no array of the tree larger, but takes long to trace.
    search = dataclasses.replace(search, tactical_helper=False, root_vcf=0, tree_vcf=0)
    rules = Gomoku.from_config(game)

    def build():
        states = jax.vmap(lambda _: rules.init())(jnp.arange(num_games))
        tree = init_tree(rules, _no_network, None, jax.random.key(0), states, search)
        return to_mctx(tree) if search.backend == "mctx" else tree

    return nbytes(jax.eval_shape(build))


def _widths(network: NetworkConfig) -> tuple[int, ...]:
    """Channels of the convolutions' results."""
    if network.kind == "conv":
        return network.conv_channels
    return (network.channels,) * (1 + 2 * network.num_blocks)


def _item_bytes(dtype: str, platform: Platform) -> int:
    """Of one activation. XLA for the CPU computes bfloat16 convolutions in float32."""
    return 2 if dtype == "bfloat16" and platform != "cpu" else 4


def forward_bytes(network: NetworkConfig, game: GameConfig, batch: int, platform: Platform) -> int:
    """Of a search's evaluation of B positions: prepared parameters, planes, and 3 x [B, H, W, C] at once."""
    dtype = network.inference_dtype or network.dtype
    prepared = parameter_count(network, game) * (2 if dtype == "bfloat16" else 4)
    board = batch * game.height * game.width
    planes = 4 * board * NUM_PLANES[network.planes]
    return (
        prepared
        + planes
        + round(_LIVE_FORWARD * board * max(_widths(network))) * _item_bytes(dtype, platform)
    )


def backward_bytes(network: NetworkConfig, game: GameConfig, batch: int, platform: Platform) -> int:
    """Of an update's activations: what the layers keep for the backward pass, and its own workspace.

    In boards of [B, H, W, C]: 4.5 a residual block are kept; with `remat` one for every two blocks, and those
    of two blocks while they are computed again. A plain convolution keeps its input and its result.
    """
    if network.kind == "conv":
        kept = 2.0 * sum(network.conv_channels)
    elif network.remat:
        kept = network.channels * (network.num_blocks / 2 + 2 * _KEPT_A_BLOCK)
    else:
        kept = network.channels * network.num_blocks * _KEPT_A_BLOCK
    channels = kept + _WORKSPACE[platform] * max(_widths(network))
    board = batch * game.height * game.width
    planes = 4 * board * NUM_PLANES[network.planes]
    return planes + round(board * channels) * _item_bytes(network.dtype, platform)


def evaluation_bytes(
    game: GameConfig, search: SearchConfig, evaluation: EvaluationConfig, devices: int
) -> int:
    """Of the trees of a match against pure MCTS with as many playouts as it may come to.

    Half of a device's games are the agent's to move, the other half the opponent's, at every move.
    """
    if evaluation.every == 0:
        return 0
    pairs = -(-evaluation.num_games // (2 * devices))
    agent = 0
    if evaluation.num_simulations > 0:
        greedy = dataclasses.replace(search.greedy(evaluation.num_simulations), reuse_tree=False)
        agent = tree_bytes(game, greedy, pairs)
    return agent + playout_tree_bytes(game, evaluation.max_playouts, pairs)


def playout_tree_bytes(game: GameConfig, num_playouts: int, num_games: int) -> int:
    """Of pure MCTS's trees: a node a playout, and the root."""
    return num_games * (1 + num_playouts) * _playout_node_bytes(game)


@functools.lru_cache(maxsize=64)
def _playout_node_bytes(game: GameConfig) -> int:
    rules = Gomoku.from_config(game)

    def build():
        states = jax.vmap(lambda _: rules.init())(jnp.arange(1))
        return playout_tree(rules, states, 1)

    return nbytes(jax.eval_shape(build)) // 2
