"""Frozen, validated configuration of games, networks, search, self-play, learning and evaluation.

Every config is hashable by value, so it can be a static argument under `jax.jit`. A bad value raises
`ValueError` that names the field, the value and what is allowed; an unknown key raises `TypeError`.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

MIN_SIDE = 3
MAX_SIDE = 26  # one letter a column
RULES = ("freestyle", "exact", "caro", "caro_overline", "renju")
RENJU_STONES = 5  # renju is five in a row, by definition
OPENING_DISTANCE = {"pro": 3, "long_pro": 4}  # points from Black's first stone to its second, at least
OPENINGS = ("free", *OPENING_DISTANCE)

Rule = Literal["freestyle", "exact", "caro", "caro_overline", "renju"]
Forbidden = Literal["illegal", "loses"]
Opening = Literal["free", "pro", "long_pro"]
Planes = Literal["all", "stones", "rules"]


def _require(condition: bool, name: str, value: Any, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name} = {value!r}: {allowed}")


def _require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    _require(value in choices, name, value, f"choose one of {', '.join(choices)}")


def _require_int(name: str, value: Any, least: int, most: int | None = None) -> None:
    allowed = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    _require(isinstance(value, int) and not isinstance(value, bool), name, value, allowed)
    _require(value >= least and (most is None or value <= most), name, value, allowed)


def _require_between(name: str, value: Any, least: float, most: float) -> None:
    _require(
        isinstance(value, int | float) and least <= value <= most,
        name,
        value,
        f"a number in [{least}, {most}]",
    )


def validate_game(
    height: int, width: int, k: int, rule: str, forbidden: str = "illegal", opening: str = "free"
) -> None:
    """Raises ValueError where no game of this size and rule exists."""
    for name, side in (("height", height), ("width", width)):
        _require_int(name, side, MIN_SIDE, MAX_SIDE)
    _require_int("k", k, 3)
    _require(k <= max(height, width), "k", k, f"at most the longer side of the {height}x{width} board")
    _require_choice("rule", rule, RULES)
    if rule == "renju":
        _require(k == RENJU_STONES, "k", k, f"renju is {RENJU_STONES} in a row")
    _require_choice("forbidden", forbidden, ("illegal", "loses"))
    if rule != "renju":
        _require(forbidden == "illegal", "forbidden", forbidden, f"no move is forbidden under {rule}")
    _require_choice("opening", opening, OPENINGS)
    if opening != "free":
        _require(k > 3, "opening", opening, "for 4 or more in a row")
        side = 2 * OPENING_DISTANCE[opening]
        allowed = f"for boards with a side of at least {side}, not {height}x{width}"
        _require(max(height, width) >= side, "opening", opening, allowed)


@dataclasses.dataclass(frozen=True)
class GameConfig:
    """The board and its rule; `Gomoku.from_config` makes the game."""

    height: int = 6  # rows, 3 to 26
    width: int = 6  # columns, 3 to 26
    k: int = 4  # stones in a row that win
    rule: Rule = "freestyle"  # what wins, and what is forbidden; see `Gomoku`
    forbidden: Forbidden = "illegal"  # renju: Black's forbidden points are, or a stone there "loses"
    opening: Opening = "free"  # where Black's first two stones may go; see `Gomoku`

    def __post_init__(self):
        validate_game(self.height, self.width, self.k, self.rule, self.forbidden, self.opening)


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """A policy-value network. `conv` is tied to one board size, `resnet` plays on any."""

    kind: Literal["resnet", "conv"] = "resnet"
    channels: int = 32  # resnet: width of the tower
    num_blocks: int = 3  # resnet: residual blocks of two 3x3 convolutions
    conv_channels: tuple[int, ...] = (32, 64, 128)  # conv: filters of its 3x3 convolutions
    value_hidden: int = 64  # units of the hidden layer of the value head
    planes: Planes = "all"  # input: "all" four planes, the two of "stones", or "rules": all and one a rule
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the computation; parameters stay float32
    inference_dtype: Literal["float32", "bfloat16"] | None = None  # of search; None is `dtype`
    remat: bool = False  # resnet: learning keeps only the blocks' inputs and computes the rest again

    def __post_init__(self):
        _require_choice("network.kind", self.kind, ("resnet", "conv"))
        _require_int("network.channels", self.channels, 1)
        _require_int("network.num_blocks", self.num_blocks, 1)
        _require(
            len(self.conv_channels) > 0, "network.conv_channels", self.conv_channels, "at least one layer"
        )
        for channels in self.conv_channels:
            _require_int("network.conv_channels", channels, 1)
        _require_int("network.value_hidden", self.value_hidden, 1)
        _require_choice("network.planes", self.planes, typing.get_args(Planes))
        _require_choice("network.dtype", self.dtype, ("float32", "bfloat16"))
        if self.inference_dtype is not None:
            _require_choice("network.inference_dtype", self.inference_dtype, ("float32", "bfloat16"))
        _require(isinstance(self.remat, bool), "network.remat", self.remat, "True or False")
        if self.remat:
            _require(self.kind == "resnet", "network.remat", self.remat, "for the blocks of a resnet only")


def same_network(a: NetworkConfig, b: NetworkConfig) -> bool:
    """Whether parameters of one are parameters of the other: equal but for how gradients are computed."""
    return dataclasses.replace(a, remat=False) == dataclasses.replace(b, remat=False)


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Tree search. The defaults are AlphaZero's for self-play; `greedy()` gives the strongest move.

    PUCT: Silver et al. 2018, https://doi.org/10.1126/science.aar6404. Gumbel: Danihelka et al. 2022,
    https://openreview.net/forum?id=bERaNdoegnO.
    """

    algorithm: Literal["puct", "gumbel"] = "puct"
    num_simulations: int = 32  # N, network evaluations a move beyond the root's
    c_puct: float = 1.25  # puct: weight of exploration
    c_puct_base: float = 19652.0  # puct: the weight grows by log((visits + base + 1) / base)
    dirichlet_alpha: float = 0.3  # puct: concentration of the root noise
    dirichlet_fraction: float = 0.25  # puct: share of noise in the root's prior; 0 is no noise
    temperature: float = 1.0  # puct: of the move that is played, never of the target; 0 is the most visited
    max_considered_actions: int = 16  # gumbel: root actions tried
    gumbel_scale: float = 1.0  # gumbel: size of the root's Gumbel noise; 0 is none
    value_scale: float = 0.1  # gumbel: weight of Q against the logits
    visit_offset: float = 50.0  # gumbel: Q weighs (visit_offset + most visits) * value_scale
    rescale_values: bool = True  # gumbel: stretch the completed Q of a node to [0, 1]
    ply_discount: float = 1.0  # of wins and losses, in search and targets; below 1, short wins come first
    max_depth: int | None = None  # plies below the root; None is no limit
    q_scaling: Literal["none", "min_max"] = "none"  # puct: "min_max" is MuZero's, between parent and siblings
    reuse_tree: bool = False  # puct: self-play keeps what was searched below the moves played
    backend: Literal["fast", "mctx"] = "fast"  # the simulation loop: "mctx" is the stock one
    tactical_helper: bool = False  # every evaluated position is looked at for wins in one and double threats
    root_vcf: int = 0  # plies of wins by continuous fours looked for at the root, odd; 0 looks for none
    tree_vcf: int = 0  # the same in every evaluated position, with few fours tried in each

    def __post_init__(self):
        _require_choice("search.algorithm", self.algorithm, ("puct", "gumbel"))
        _require_int("search.num_simulations", self.num_simulations, 1)
        _require_between("search.c_puct", self.c_puct, 0.0, 1e6)
        _require_between("search.c_puct_base", self.c_puct_base, 1.0, 1e12)
        _require_between("search.dirichlet_alpha", self.dirichlet_alpha, 1e-3, 1e3)
        _require_between("search.dirichlet_fraction", self.dirichlet_fraction, 0.0, 1.0)
        _require_between("search.temperature", self.temperature, 0.0, 1e3)
        _require_int("search.max_considered_actions", self.max_considered_actions, 1)
        _require_between("search.gumbel_scale", self.gumbel_scale, 0.0, 1e3)
        _require_between("search.value_scale", self.value_scale, 0.0, 1e6)
        _require_between("search.visit_offset", self.visit_offset, 0.0, 1e6)
        _require_between("search.ply_discount", self.ply_discount, 0.5, 1.0)
        if self.max_depth is not None:
            _require_int("search.max_depth", self.max_depth, 1)
        _require_choice("search.q_scaling", self.q_scaling, ("none", "min_max"))
        _require_choice("search.backend", self.backend, ("fast", "mctx"))
        if self.algorithm == "gumbel":
            allowed = "of puct only; gumbel completes Q by its mixed value"
            _require(self.q_scaling == "none", "search.q_scaling", self.q_scaling, allowed)
        for name, plies in (("search.root_vcf", self.root_vcf), ("search.tree_vcf", self.tree_vcf)):
            _require_int(name, plies, 0)
            _require(plies == 0 or plies % 2 == 1, name, plies, "an odd number of plies, or 0 for none")
        if self.reuse_tree:
            _require(self.root_vcf == 0, "search.root_vcf", self.root_vcf, "0 with search.reuse_tree")
            allowed = "needs algorithm puct (gumbel plans its root visits from none) and backend fast"
            possible = self.algorithm == "puct" and self.backend == "fast"
            _require(possible, "search.reuse_tree", self.reuse_tree, allowed)

    def greedy(self, num_simulations: int | None = None) -> "SearchConfig":
        """The same search without noise, playing its best move; for matches and people."""
        return dataclasses.replace(
            self,
            num_simulations=self.num_simulations if num_simulations is None else num_simulations,
            dirichlet_fraction=0.0,
            temperature=0.0,
            gumbel_scale=0.0,
        )


@dataclasses.dataclass(frozen=True)
class SelfplayConfig:
    """How games are made."""

    num_games: int = 256  # B, games at once
    moves_per_iteration: int = 16  # T, moves of each game in one iteration
    draw: Literal["weights", "visits", "search", "prior"] = "weights"  # what the played move is drawn from
    temperature: float = 1.0  # of that draw, for the first moves
    temperature_moves: int = 14  # stones on the board up to which moves are drawn; then the best is played
    opening_stones: int = 8  # each game begins after 0 to this many random stones, kept out of the data
    full_search_fraction: float = 1.0  # share of moves searched in full; the others give no policy target
    fast_simulations: int = 8  # simulations of the other moves (playout-cap randomization)
    search_value_fraction: float = 0.0  # share of the search's root value in the value target
    search_value: Literal["mean", "improved"] = "mean"  # which: over all visits, or under the policy target
    surprise_weight: float = 0.0  # share of the policy weight that follows how much search changed the policy

    def __post_init__(self):
        _require_int("selfplay.num_games", self.num_games, 1)
        _require_int("selfplay.moves_per_iteration", self.moves_per_iteration, 1)
        _require_choice("selfplay.draw", self.draw, ("weights", "visits", "search", "prior"))
        _require_between("selfplay.temperature", self.temperature, 0.0, 1e3)
        _require_int("selfplay.temperature_moves", self.temperature_moves, 0)
        _require_int("selfplay.opening_stones", self.opening_stones, 0)
        _require_between("selfplay.full_search_fraction", self.full_search_fraction, 0.0, 1.0)
        _require(
            self.full_search_fraction > 0,
            "selfplay.full_search_fraction",
            self.full_search_fraction,
            "a number in (0, 1]",
        )
        _require_int("selfplay.fast_simulations", self.fast_simulations, 1)
        _require_between("selfplay.search_value_fraction", self.search_value_fraction, 0.0, 1.0)
        _require_choice("selfplay.search_value", self.search_value, ("mean", "improved"))
        _require_between("selfplay.surprise_weight", self.surprise_weight, 0.0, 1.0)


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """The ring buffer of positions."""

    capacity: int = 100_000  # positions kept; 0 is as many as fit, which `estimate.size_replay` finds out
    min_size: int = 5_000  # positions before learning starts
    symmetries: bool = True  # transform every drawn position by a random symmetry of the board
    window_exponent: float = 1.0  # below 1, only the newest min_size * (size / min_size) ** this are drawn

    def __post_init__(self):
        _require_between("replay.window_exponent", self.window_exponent, 0.0, 1.0)
        _require_int("replay.capacity", self.capacity, 0)
        _require_int("replay.min_size", self.min_size, 1, self.capacity or None)


@dataclasses.dataclass(frozen=True)
class LearnConfig:
    """Loss, optimizer and learning rate."""

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 2e-3  # the peak, for the schedules that move
    schedule: Literal["constant", "warmup_cosine", "kl_adaptive"] = "warmup_cosine"
    warmup_updates: int = 100  # warmup_cosine: updates of linear growth from 0
    final_learning_rate_fraction: float = 0.05  # warmup_cosine: rate at the run's end over the peak
    kl_target: float = 0.02  # kl_adaptive: KL of the policy before and after an iteration's updates
    momentum: float = 0.9  # sgd
    weight_decay: float = 1e-4  # adamw
    l2: float = 1e-4  # weight of the sum of squared parameters in the loss
    value_loss_weight: float = 1.0
    max_grad_norm: float = 1.0  # gradients are clipped to this global norm; 0 is no clipping
    batch_size: int = 256
    updates_per_iteration: int = 32
    accumulation_steps: int = 1  # batches whose gradients are averaged into one optimizer step
    ema_decay: float = 0.0  # self-play and evaluation use an exponential average of parameters; 0 is off

    def __post_init__(self):
        _require_choice("learn.optimizer", self.optimizer, ("adam", "adamw", "sgd"))
        _require_between("learn.learning_rate", self.learning_rate, 0.0, 10.0)
        _require_choice("learn.schedule", self.schedule, ("constant", "warmup_cosine", "kl_adaptive"))
        _require_int("learn.warmup_updates", self.warmup_updates, 0)
        _require_between("learn.final_learning_rate_fraction", self.final_learning_rate_fraction, 0.0, 1.0)
        _require_between("learn.kl_target", self.kl_target, 1e-6, 10.0)
        _require_between("learn.momentum", self.momentum, 0.0, 1.0)
        _require_between("learn.weight_decay", self.weight_decay, 0.0, 1.0)
        _require_between("learn.l2", self.l2, 0.0, 1.0)
        _require_between("learn.value_loss_weight", self.value_loss_weight, 0.0, 1e3)
        _require_between("learn.max_grad_norm", self.max_grad_norm, 0.0, 1e6)
        _require_int("learn.batch_size", self.batch_size, 1)
        _require_int("learn.updates_per_iteration", self.updates_per_iteration, 1)
        _require_int("learn.accumulation_steps", self.accumulation_steps, 1)
        _require_between("learn.ema_decay", self.ema_decay, 0.0, 0.999999)


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
    """Matches against pure MCTS, whose playouts grow as the agent beats it."""

    every: int = 50  # iterations between evaluations; 0 is never
    num_games: int = 20
    num_simulations: int = 100  # the agent's, a move
    num_playouts: int = 1000  # pure MCTS's at first
    playouts_step: int = 1000  # added whenever the agent wins all games
    max_playouts: int = 5000
    opening_stones: int = 0  # random stones before each pair of games
    saved_games: int = 2  # games of an evaluation written as SGF
    solved_positions: int = 0  # solved positions that moves and values are compared with; 0 is none

    def __post_init__(self):
        _require_int("evaluation.every", self.every, 0)
        _require_int("evaluation.num_games", self.num_games, 2)
        _require_int("evaluation.num_simulations", self.num_simulations, 0)
        _require_int("evaluation.num_playouts", self.num_playouts, 1)
        _require_int("evaluation.playouts_step", self.playouts_step, 0)
        _require_int("evaluation.max_playouts", self.max_playouts, self.num_playouts)
        _require_int("evaluation.opening_stones", self.opening_stones, 0)
        _require_int("evaluation.saved_games", self.saved_games, 0)
        _require_int("evaluation.solved_positions", self.solved_positions, 0)


@dataclasses.dataclass(frozen=True)
class DevicesConfig:
    """Who does what, where there are several devices."""

    actors: int = 0  # devices of each process that play while its others learn; 0: all do both, in turn
    refresh_every: int = 1  # updates, at least, between two times that actors get the learners' parameters

    def __post_init__(self):
        _require_int("devices.actors", self.actors, 0)
        _require_int("devices.refresh_every", self.refresh_every, 1)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A whole training run."""

    game: GameConfig = GameConfig()
    network: NetworkConfig = NetworkConfig()
    search: SearchConfig = SearchConfig()
    selfplay: SelfplayConfig = SelfplayConfig()
    replay: ReplayConfig = ReplayConfig()
    learn: LearnConfig = LearnConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    devices: DevicesConfig = DevicesConfig()
    iterations: int = 300  # of self-play and learning, in the whole run
    checkpoint_every: int = 50  # iterations
    keep_checkpoints: int = 3
    seed: int = 0
    init_from: str | None = None  # an agent whose parameters the run begins with, of any board for a resnet
    max_minutes: float = 0.0  # the run ends when they are spent, and the learning rate follows; 0 is no limit
    clock: Literal["wall", "cpu"] = "wall"  # what max_minutes counts; "cpu" is the process's, over all cores
    snapshot_every: int = 0  # iterations between agents kept for later; 0 keeps none
    other_rules: tuple[Rule, ...] = ()  # learned besides the game's, each from as many games of self-play

    def __post_init__(self):
        _require_int("iterations", self.iterations, 1)
        _require_between("max_minutes", self.max_minutes, 0.0, 1e6)
        _require_choice("clock", self.clock, ("wall", "cpu"))
        _require_int("snapshot_every", self.snapshot_every, 0)
        if self.init_from is not None:
            _require(isinstance(self.init_from, str), "init_from", self.init_from, "a path or a name")
        _require_int("checkpoint_every", self.checkpoint_every, 1)
        _require_int("keep_checkpoints", self.keep_checkpoints, 2)  # one to fall back to
        _require_int("seed", self.seed, 0, 2**32 - 1)
        points = self.game.height * self.game.width
        for name, stones in (
            ("selfplay.opening_stones", self.selfplay.opening_stones),
            ("evaluation.opening_stones", self.evaluation.opening_stones),
        ):
            _require(stones < points, name, stones, f"fewer than the board's {points} points")
        _require(
            self.selfplay.full_search_fraction == 1.0 or not self.search.reuse_tree,
            "selfplay.full_search_fraction",
            self.selfplay.full_search_fraction,
            "1 with search.reuse_tree, whose trees are all of one size",
        )
        _require(
            self.selfplay.full_search_fraction == 1.0
            or self.selfplay.fast_simulations <= self.search.num_simulations,
            "selfplay.fast_simulations",
            self.selfplay.fast_simulations,
            f"at most search.num_simulations = {self.search.num_simulations}",
        )
        self._check_rules()

    def _check_rules(self) -> None:
        if not self.other_rules:
            return
        name, others = "other_rules", self.other_rules
        different = len({self.game.rule, *others}) == 1 + len(others)
        allowed = f"a tuple of different rules, none of them the game's own, {self.game.rule}"
        _require(isinstance(others, tuple) and different, name, others, allowed)
        try:
            games = self.games
        except ValueError as error:
            raise ValueError(f"{name} = {others!r}: {error}") from None
        planes, num_games = self.network.planes, self.selfplay.num_games
        _require(planes == "rules", "network.planes", planes, f"'rules' with other_rules = {others!r}")
        allowed = f"a multiple of the run's {len(games)} rules"
        _require(num_games % len(games) == 0, "selfplay.num_games", num_games, allowed)

    @property
    def games(self) -> tuple[GameConfig, ...]:
        """What is learned: `game`, then its board under each of `other_rules`, with `forbidden` "illegal"."""
        others = (dataclasses.replace(self.game, rule=rule, forbidden="illegal") for rule in self.other_rules)
        return self.game, *others


C = TypeVar("C")


def to_dict(config: Any) -> dict[str, Any]:
    """A config as nested dicts of plain values, for JSON."""
    return dataclasses.asdict(config)


def from_dict(cls: type[C], values: Mapping[str, Any]) -> C:
    """The inverse of `to_dict`; an unknown key raises TypeError, a bad value ValueError.

    Missing keys take their defaults, so that files of older versions load.
    """
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise TypeError(
            f"{cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(sorted(hints))}"
        )
    fields = {}
    for name, value in values.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            value = from_dict(hint, value)
        elif typing.get_origin(hint) is tuple and not isinstance(hint, types.UnionType):
            value = tuple(value)
        fields[name] = value
    return cls(**fields)
