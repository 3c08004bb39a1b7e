"""One iteration of a run: self-play and learning, and the numbers that tell how they went."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax import learn
from gomoku_jax.checkpoint import Progress, TrainingState, playing_params
from gomoku_jax.config import TrainConfig
from gomoku_jax.distributed import shared_time
from gomoku_jax.divergence import check_updates
from gomoku_jax.metrics import Clock
from gomoku_jax.profiling import phase
from gomoku_jax.programs import Programs, deal_positions
from gomoku_jax.replay import ReplayState
from gomoku_jax.selfplay import SelfplayState, SelfplayStats
from gomoku_jax.sharding import fetch, put, replicated


def share_spent(config: TrainConfig, progress: Progress) -> float:
    """How much of the run's time is spent, 0 to 1; 0 for runs without a limit."""
    if config.max_minutes == 0:
        return 0.0
    spent = progress.cpu_seconds if config.clock == "cpu" else progress.seconds
    return min(float(spent) / (60 * config.max_minutes), 1.0)


class _Played(NamedTuple):
    """What self-play and learning have left."""

    learner: learn.TrainState
    replay: ReplayState
    selfplay: SelfplayState
    actor_params: Any
    stats: SelfplayStats  # [devices, rules], on the host
    losses: dict[str, np.ndarray]  # empty where the buffer held too little to learn from
    selfplay_seconds: float


def _in_turn(
    config: TrainConfig, programs: Programs, state: TrainingState, keys: Any, clock: Clock
) -> _Played:
    """All devices play, then all learn."""
    with phase("self-play"):
        games, buffer, stats = programs.selfplay(
            playing_params(config, state), state.selfplay, state.replay, keys[0]
        )
        stats, sizes = fetch((stats, buffer.size), programs.mesh)
    selfplay_seconds = clock.seconds
    learner, losses = state.learner, {}
    if can_learn(config, sizes):
        with phase("learn"):
            learner, losses = programs.update(learner, buffer, keys[1])
            losses = _check(config, programs, state, losses, learner, buffer, keys[1])
    return _Played(learner, buffer, games, None, stats, losses, selfplay_seconds)


def _side_by_side(
    config: TrainConfig, programs: Programs, state: TrainingState, keys: Any, clock: Clock
) -> _Played:
    """Actors play while the learners learn from what was played before; then they hand over.

    So learning is an iteration behind, and nothing depends on who is ready first.
    """
    sizes = fetch(state.replay.size, programs.mesh)
    key = jax.random.wrap_key_data(jax.device_get(jax.random.key_data(keys[0])))
    key = put(key, replicated(programs.actors))
    games, positions, is_new, stats = programs.play(state.actor_params, state.selfplay, key)
    learner, losses, actor_params = state.learner, {}, state.actor_params
    if can_learn(config, sizes):
        before = int(learner.step)  # the learner is donated
        learner, losses = programs.update(learner, state.replay, keys[1])
    with phase("self-play"):
        stats = fetch(stats, programs.actors)
    selfplay_seconds = clock.seconds
    dealt = deal_positions(programs, positions, is_new)
    if losses:  # before the buffer changes
        with phase("learn"):
            losses = _check(config, programs, state, losses, learner, state.replay, keys[1])
    buffer = programs.add(state.replay, *dealt)
    if losses:
        every = config.devices.refresh_every
        if int(learner.step) // every > before // every:
            newest = jax.device_get(playing_params(config, state.replace(learner=learner)))
            actor_params = put(newest, replicated(programs.actors))
    return _Played(learner, buffer, games, actor_params, stats, losses, selfplay_seconds)


def _check(
    config: TrainConfig,
    programs: Programs,
    state: TrainingState,
    losses: Any,
    learner: Any,
    buffer: Any,
    key: Any,
) -> dict[str, np.ndarray]:
    """The losses on the host; raises DivergedError where something is not finite."""
    iteration = int(state.progress.iteration) + 1
    return check_updates(
        config.learn,
        losses,
        learner.step,
        iteration,
        key,
        lambda draw_key: fetch(programs.draw(buffer, draw_key), programs.mesh),
    )


def can_learn(config: TrainConfig, sizes: np.ndarray) -> bool:
    """Do the rings, int32 [S] positions each, hold enough to draw batches from?"""
    return bool(sizes.sum() >= config.replay.min_size and sizes.min() > 0)


def run_iteration(
    config: TrainConfig, programs: Programs, state: TrainingState
) -> tuple[TrainingState, dict[str, float]]:
    """Self-play and learning once. The arrays of the given state are donated: use the returned one.

    Raises:
        DivergedError: a loss, a gradient or the new parameters are not finite.
    """
    clock = Clock()
    key, *keys = jax.random.split(state.key, 3)
    if config.max_minutes > 0 and config.learn.schedule == "warmup_cosine":
        scale = learn.cosine_scale(config.learn, share_spent(config, state.progress))
        scales = jnp.full_like(state.learner.learning_rate_scale, scale)
        state = state.replace(learner=state.learner.replace(learning_rate_scale=scales))
    work = _side_by_side if programs.split else _in_turn
    played = work(config, programs, state, keys, clock)
    # All entries are counts but the entropy, a mean over equal shares.
    shares, losses, selfplay_seconds = played.stats, played.losses, played.selfplay_seconds
    stats = jax.tree.map(np.sum, shares).replace(target_entropy=shares.target_entropy.mean())
    seconds, cpu_seconds = shared_time(clock)
    progress = state.progress.replace(
        cpu_seconds=state.progress.cpu_seconds + cpu_seconds,
        iteration=state.progress.iteration + 1,
        games=state.progress.games + np.int64(stats.games),
        positions=state.progress.positions + np.int64(stats.positions),
        seconds=state.progress.seconds + seconds,
    )
    state = TrainingState(
        learner=played.learner,
        replay=played.replay,
        selfplay=played.selfplay,
        key=key,
        progress=progress,
        actor_params=played.actor_params,
    )
    metrics = {f"learn/{name}": float(value) for name, value in losses.items()}
    metrics |= {
        "selfplay/games": int(stats.games),
        "selfplay/positions": int(stats.positions),
        "selfplay/target_entropy": float(stats.target_entropy),
        "time/selfplay_seconds": selfplay_seconds,
        "time/learn_seconds": seconds - selfplay_seconds,
        "time/games_per_second": float(stats.games) / seconds,
        "time/moves_per_second": config.selfplay.num_games * config.selfplay.moves_per_iteration / seconds,
    }
    if stats.games > 0:
        metrics |= game_metrics(stats) | {"selfplay/distinct_positions": distinct_share(state.replay)}
    if config.other_rules:
        for i, game in enumerate(config.games):
            of_rule = jax.tree.map(lambda x, i=i: x[:, i].sum(), shares)
            metrics[f"selfplay/games_{game.rule}"] = int(of_rule.games)
            metrics |= game_metrics(of_rule, f"_{game.rule}")
    return state, metrics


def game_metrics(stats: SelfplayStats, suffix: str = "") -> dict[str, float]:
    """How the finished games of self-play went, by `selfplay/NAME` and the suffix; empty without games."""
    names = ("game_length", "black_wins", "white_wins", "draws") if stats.games > 0 else ()
    return {f"selfplay/{name}{suffix}": float(getattr(stats, name) / stats.games) for name in names}


@jax.jit
def _distinct_share(boards: jax.Array, size: jax.Array) -> jax.Array:
    """Share of different boards among the first `size` of [M, H, W], by a 32-bit hash."""
    flat = boards.reshape(len(boards), -1)
    weights = jax.random.bits(jax.random.key(0), flat.shape[1:], jnp.uint32)
    hashes = (flat.astype(jnp.uint32) * weights[None]).sum(-1, dtype=jnp.uint32)
    hashes = jnp.sort(jnp.where(jnp.arange(len(flat)) < size, hashes, jnp.uint32(0xFFFFFFFF)))
    changes = (hashes[1:] != hashes[:-1]) & (jnp.arange(1, len(flat)) < size)
    return (1 + changes.sum()) / jnp.maximum(size, 1)


def distinct_share(buffer: ReplayState) -> float:
    """How many of a sample of this process's positions are different boards: low when games repeat."""
    boards, size = (x.addressable_shards[0].data for x in (buffer.items.board, buffer.size))
    rows = min(4096, len(boards))
    return float(_distinct_share(boards[:rows], jnp.minimum(size[0], rows)))


def collapse_warnings(row: dict[str, Any]) -> list[str]:
    """Signs of collapse in one row of metrics, which a loss curve does not show."""
    warnings = []
    if row.get("learn/explained_variance", 1.0) < 0.01 and row.get("selfplay/games", 0) > 0:
        warnings.append(
            f"the value explains nothing: explained variance {row['learn/explained_variance']:.3f}"
        )
    if row.get("learn/entropy", 1.0) < 0.02:
        warnings.append(f"the policy has collapsed to one move: entropy {row['learn/entropy']:.3f} nats")
    if row.get("selfplay/distinct_positions", 1.0) < 0.2:
        share = row["selfplay/distinct_positions"]
        warnings.append(f"games repeat: only {share:.0%} of the positions in the buffer are different")
    return warnings
