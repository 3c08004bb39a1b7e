"""How fast a run should be on given devices: arithmetic, memory traffic and latency, and which of them binds.

A simulation is one pass of a device's loop over all its games: the network's evaluation, then the search
around it. The network takes as long as the slowest of its arithmetic, its memory traffic and the launches of
its kernels; the search as long as the slower of its traffic and its launches, since its kernels are small and
wait for each other. All formulas are closed and simple; what they assume is a range of a cautious and a
hopeful value, and `experiments/benchmark.py --scale` lays measurements beside them.
"""

import dataclasses
import math
from typing import NamedTuple

from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig, TrainConfig
from gomoku_jax.estimate.hardware import DeviceSpec
from gomoku_jax.estimate.memory import (
    Layout,
    learner_bytes,
    parameter_arrays,
    parameter_bytes,
    parameter_count,
    position_bytes,
)
from gomoku_jax.game import NUM_PLANES, Gomoku
from gomoku_jax.network import flops_per_position

CAUTIOUS, HOPEFUL = 0, 1  # places in the ranges of a `DeviceSpec`

# Kernels, counted in what XLA for the CPU makes of the loops (15x15, ties settled as on accelerators):
# fusions, convolutions and products of one round. Other backends fuse otherwise: an order of magnitude.
_KERNELS_A_SIMULATION = 95  # without the network and the levels
_KERNELS_A_LEVEL_DOWN = 40
_KERNELS_A_LEVEL_UP = 18
_KERNELS_A_BLOCK = 8
_KERNELS_OF_HEADS = 12  # and the stem, planes, legal moves
# Boards of [B, H, W, C] that a residual block reads and writes if every convolution takes its bias and ReLU
# along: two for each convolution, four for the sum and its ReLU, two for every second block's pooling.
_PASSES_A_BLOCK = 9.0
_PASSES_OF_HEADS = 8.0
_BACKWARD_WORK = 2  # of a forward pass: gradients by the input and by the kernel
_HOST_SECONDS = 5e-3  # an iteration, for starting two programs and making metrics (docs/performance.md)


def simulations_per_move(config: TrainConfig) -> float:
    """Mean simulations of a move of self-play; some moves are searched less if the configuration says so."""
    full = config.selfplay.full_search_fraction
    return full * config.search.num_simulations + (1 - full) * config.selfplay.fast_simulations


def evaluations_per_move(config: TrainConfig) -> float:
    """Mean network evaluations of a move: one a simulation, the root's, and what the draw asks for.

    Drawing from the "prior" and `surprise_weight` each evaluate the position once more.
    """
    extra = (config.selfplay.draw == "prior") + (config.selfplay.surprise_weight > 0)
    return simulations_per_move(config) + 1 + extra


def flops_per_evaluation(config: TrainConfig) -> int:
    """FLOPs of the network on one position."""
    return flops_per_position(config.network, Gomoku.from_config(config.game))


def flops_per_move(config: TrainConfig) -> float:
    """FLOPs of the network for one position of self-play."""
    return evaluations_per_move(config) * flops_per_evaluation(config)


def flops_per_update(config: TrainConfig) -> int:
    """FLOPs of one update on all devices: of 3 forward passes, of 4 where blocks are computed again."""
    passes = 1 + _BACKWARD_WORK + config.network.remat
    return passes * config.learn.batch_size * flops_per_evaluation(config)


def search_depth(search: SearchConfig) -> float:
    """Levels that a simulation goes down, in the deepest of a batch of games, on average over a search.

    log2(N) - 1 for PUCT, half of that for Gumbel, whose root spreads its visits: fitted to 5.5, 7.4 and 9.9
    for 100, 400 and 1600 simulations, and 1.8 for Gumbel with 32 (docs/performance.md). A network that is
    sure of its lines, or `q_scaling="min_max"`, goes much deeper.
    """
    depth = math.log2(max(search.num_simulations, 2)) - 1
    depth = depth / 2 if search.algorithm == "gumbel" else depth
    depth = max(depth, 1.0)
    return depth if search.max_depth is None else min(depth, search.max_depth)


def network_kernels(network: NetworkConfig) -> int:
    """Kernels of one evaluation of a batch."""
    blocks = len(network.conv_channels) / 2 if network.kind == "conv" else network.num_blocks
    return round(_KERNELS_OF_HEADS + _KERNELS_A_BLOCK * blocks)


def search_kernels(search: SearchConfig) -> float:
    """Kernels of one simulation besides the network's."""
    levels = search_depth(search) * (_KERNELS_A_LEVEL_DOWN + _KERNELS_A_LEVEL_UP)
    return _KERNELS_A_SIMULATION + levels


def search_rounds(search: SearchConfig) -> float:
    """Rounds of loops in one simulation whose end the data decide: levels down, and up again."""
    return 2 * search_depth(search)


def activation_bytes(network: NetworkConfig, game: GameConfig, dtype: str) -> float:
    """Bytes read and written for the activations of one position's evaluation."""
    item = 2 if dtype == "bfloat16" else 4
    points = game.height * game.width
    planes = 4 * points * NUM_PLANES[network.planes]
    if network.kind == "conv":
        channels = sum(2 * width for width in network.conv_channels) + 2 * network.conv_channels[-1]
    else:
        channels = network.channels * (_PASSES_A_BLOCK * network.num_blocks + _PASSES_OF_HEADS)
    return planes + item * points * channels


def search_bytes(search: SearchConfig, game: GameConfig) -> float:
    """Bytes read and written for one game's simulation, around the network.

    Every kernel but those of the way up, which touch single numbers, reads and writes a row of A four-byte
    numbers.
    """
    kernels = search_kernels(search) - search_depth(search) * _KERNELS_A_LEVEL_UP
    return kernels * 2 * 4 * game.height * game.width


def data_bytes(config: TrainConfig) -> float:
    """Bytes read and written for the training data of one position of self-play.

    It goes into the window, from there into a position and into the buffer, and the window of A + T moves is
    rewritten once an iteration of T.
    """
    points, moves = config.game.height * config.game.width, config.selfplay.moves_per_iteration
    return 2 * position_bytes(config.game, len(config.games) > 1) * (2 + 2 * (points + moves) / moves)


def collective_seconds(num_bytes: int, num_arrays: int, devices: int, spec: DeviceSpec) -> float:
    """Of averaging arrays over a ring of devices: 2 (D - 1) steps, each of a D-th of the bytes, one way."""
    if devices == 1:
        return 0.0
    steps = 2 * (devices - 1)
    exchanges = 1 if spec.one_exchange else num_arrays
    passing = num_bytes / devices / spec.interconnect_bandwidth
    return steps * (passing + exchanges * spec.link_seconds)


class Bounds(NamedTuple):
    """Seconds of a piece of work if nothing else held it up. It takes the longest of them."""

    compute: float = 0.0
    memory: float = 0.0
    latency: float = 0.0
    interconnect: float = 0.0

    @property
    def seconds(self) -> float:
        """Of the work."""
        return max(self)

    @property
    def binding(self) -> str:
        """Which of them it is."""
        return self._fields[self.index(self.seconds)]


@dataclasses.dataclass(frozen=True)
class SpeedEstimate:
    """What an iteration takes, on devices that all do the same.

    Attributes:
        network: of the network in one iteration's self-play, on each device.
        search: of the search around it.
        data: of the window of moves, positions and the buffer.
        update: of an iteration's updates without their collectives.
        collectives: of averaging an iteration's gradients.
        host: what the host does meanwhile nobody computes, seconds.
        split: whether some devices play while the others learn.
        moves: positions that an iteration plays, on all devices.
        updates: in an iteration.
    """

    network: Bounds
    search: Bounds
    data: Bounds
    update: Bounds
    collectives: Bounds
    host: float
    split: bool
    moves: int
    updates: int

    @property
    def selfplay_seconds(self) -> float:
        """Of an iteration's self-play."""
        return self.network.seconds + self.search.seconds + self.data.seconds

    @property
    def learn_seconds(self) -> float:
        """Of an iteration's updates, collectives included."""
        return self.update.seconds + self.collectives.seconds

    @property
    def iteration_seconds(self) -> float:
        """Of an iteration, without evaluation and checkpoints."""
        if self.split:
            return self.host + max(self.selfplay_seconds, self.learn_seconds)
        return self.host + self.selfplay_seconds + self.learn_seconds

    @property
    def positions_per_second(self) -> float:
        """Positions of self-play over whole iterations."""
        return self.moves / self.iteration_seconds

    @property
    def selfplay_positions_per_second(self) -> float:
        """Positions of self-play alone."""
        return self.moves / self.selfplay_seconds

    @property
    def updates_per_second(self) -> float:
        """Updates alone."""
        return self.updates / self.learn_seconds

    @property
    def seconds_by_bound(self) -> dict[str, float]:
        """An iteration's seconds by what holds work up: compute, memory, latency, interconnect or host."""
        parts = [self.network, self.search, self.data, self.update, self.collectives]
        if self.split:  # what is done first is waited for by nobody
            played = self.selfplay_seconds >= self.learn_seconds
            parts = parts[:3] if played else parts[3:]
        seconds = dict.fromkeys(Bounds._fields, 0.0) | {"host": self.host}
        for part in parts:
            seconds[part.binding] += part.seconds
        return seconds

    @property
    def bound(self) -> str:
        """What most of an iteration's time goes to."""
        seconds = self.seconds_by_bound
        return max(seconds, key=lambda name: seconds[name])


def estimate_speed(config: TrainConfig, where: Layout, spec: DeviceSpec, case: int) -> SpeedEstimate:
    """The speed of a run.

    Not in it: evaluations, checkpoints, compiling, and what looks for wins in the search (`tactical_helper`,
    `root_vcf`, `tree_vcf`).

    Args:
        config: the run.
        where: the devices that share it.
        spec: what one of them can do.
        case: `CAUTIOUS` or `HOPEFUL`.
    """
    moves, rules = config.selfplay.moves_per_iteration, len(config.games)
    # Rules take turns: as many passes of the loop each, over their own share of the games.
    games = config.selfplay.num_games / where.actors / rules
    searches, evaluations = (moves * rules * f(config) for f in (simulations_per_move, evaluations_per_move))
    search = config.search
    one_evaluation = _evaluation(config, games, spec, case)
    return SpeedEstimate(
        network=_times(one_evaluation, evaluations),
        search=Bounds(
            memory=searches * games * search_bytes(search, config.game) / spec.memory_bandwidth,
            latency=searches
            * (
                search_kernels(search) * spec.kernel_seconds[case]
                + search_rounds(search) * spec.loop_seconds[case]
            ),
        ),
        data=Bounds(memory=moves * rules * games * data_bytes(config) / spec.memory_bandwidth),
        update=_times(_update(config, where, spec, case), config.learn.updates_per_iteration),
        collectives=Bounds(
            interconnect=config.learn.updates_per_iteration
            * collective_seconds(
                parameter_bytes(config.network, config.game),
                parameter_arrays(config.network, config.game),
                where.learners,
                spec,
            )
        ),
        host=_HOST_SECONDS,
        split=where.split,
        moves=moves * config.selfplay.num_games,
        updates=config.learn.updates_per_iteration,
    )


def _times(bounds: Bounds, count: float) -> Bounds:
    return Bounds(*(count * seconds for seconds in bounds))


def reached_flops(network: NetworkConfig, dtype: str, spec: DeviceSpec, case: int) -> float:
    """FLOP/s of a network's convolutions: the peak, the share of it that they reach, and of full tiles."""
    channels = network.channels if network.kind == "resnet" else max(network.conv_channels)
    tiles = math.ceil(channels / spec.channel_tile) * spec.channel_tile
    return spec.peak_flops(dtype) * spec.efficiency[case] * channels / tiles


def _evaluation(config: TrainConfig, games: float, spec: DeviceSpec, case: int) -> Bounds:
    """The network on a batch of positions."""
    network = config.network
    dtype = network.inference_dtype or network.dtype
    weights = parameter_count(network, config.game) * (2 if dtype == "bfloat16" else 4)
    traffic = weights + games * activation_bytes(network, config.game, dtype)
    return Bounds(
        compute=games * flops_per_evaluation(config) / reached_flops(network, dtype, spec, case),
        memory=traffic / spec.memory_bandwidth,
        latency=network_kernels(network) * spec.kernel_seconds[case],
    )


def _update(config: TrainConfig, where: Layout, spec: DeviceSpec, case: int) -> Bounds:
    """One update without its collective: forward and backward pass, and the optimizer over all numbers."""
    network, dtype = config.network, config.network.dtype
    batch = config.learn.batch_size / where.learners
    flops = flops_per_update(config) / where.learners
    if config.learn.schedule == "kl_adaptive":  # measures how far the policy moved
        flops += batch * flops_per_evaluation(config)
    passes = 1 + _BACKWARD_WORK + network.remat
    traffic = passes * batch * activation_bytes(network, config.game, dtype)
    traffic += 2 * (learner_bytes(config) + parameter_bytes(network, config.game))
    rate = reached_flops(network, dtype, spec, case) * spec.update_efficiency[case]
    return Bounds(
        compute=flops / rate,
        memory=traffic / spec.memory_bandwidth,
        latency=passes * network_kernels(network) * spec.kernel_seconds[case],
    )
