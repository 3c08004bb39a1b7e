"""The whole training state, and saving and restoring it with orbax.

A checkpoint holds everything: parameters, optimizer, replay, running games, keys, counters. Resuming equals
never having stopped. Each array's checksum is kept beside it: a file that was cut short must not come back
as zeros. A checkpoint that does not read falls back to the one before.

Several processes write one checkpoint together, each the parts of arrays that its devices hold, in a folder
that all see. Each reads the whole of it, and takes its own parts when the state is placed: so a run goes on
with any number of devices and processes.
"""

import contextlib
import json
import logging
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax import struct

from gomoku_jax import learn
from gomoku_jax.config import TrainConfig, from_dict, same_network, to_dict
from gomoku_jax.files import write_atomically
from gomoku_jax.game import Gomoku
from gomoku_jax.network import init_network
from gomoku_jax.replay import ReplayState
from gomoku_jax.replay_rings import init_rings
from gomoku_jax.selfplay import Positions, SelfplayState
from gomoku_jax.selfplay_rules import init_selfplay_of_rules

CHECKPOINT_FOLDER = "checkpoints"
CONFIG_FILE = "config.json"
_MANIFEST_FILE = "manifest.json"  # of each checkpoint: sizes and checksums of its files


class CheckpointError(Exception):
    """No checkpoint to restore, or one of another board, rules or network."""


class Progress(struct.PyTreeNode):
    """Counters of a run, and where its evaluation stands; NumPy scalars.

    Attributes:
        iteration: int64, iterations done.
        games: int64, finished in self-play.
        positions: int64, given to the replay buffer.
        seconds: float64, wall time spent so far, compilation included.
        cpu_seconds: float64, CPU time of the process over all its cores so far.
        num_playouts: int64, pure MCTS's playouts in the next evaluation.
        best_score: float64, the best evaluation's score at these playouts; -1 before the first.
        best_iteration: int64, iteration of the best agent; 0 before the first.
    """

    iteration: np.ndarray
    games: np.ndarray
    positions: np.ndarray
    seconds: np.ndarray
    cpu_seconds: np.ndarray
    num_playouts: np.ndarray
    best_score: np.ndarray
    best_iteration: np.ndarray


class TrainingState(struct.PyTreeNode):
    """Everything that a run needs to go on.

    Attributes:
        learner: what learning changes.
        replay: the buffer, in a ring a device (see `replay_rings`).
        selfplay: the running games.
        key: typed PRNG key [].
        progress: counters.
        actor_params: what the actors play with; None where all devices both play and learn.
    """

    learner: learn.TrainState
    replay: ReplayState
    selfplay: SelfplayState
    key: jax.Array
    progress: Progress
    actor_params: Any = None


def total_updates(config: TrainConfig) -> int | None:
    """Batches in the whole run, which the learning rate schedule spans; None where a clock ends the run."""
    if config.max_minutes > 0:
        return None
    return config.iterations * config.learn.updates_per_iteration


def init_progress(config: TrainConfig) -> Progress:
    """The counters before the first iteration."""
    return Progress(
        iteration=np.asarray(0, np.int64),
        games=np.asarray(0, np.int64),
        positions=np.asarray(0, np.int64),
        seconds=np.asarray(0.0, np.float64),
        cpu_seconds=np.asarray(0.0, np.float64),
        num_playouts=np.asarray(config.evaluation.num_playouts, np.int64),
        best_score=np.asarray(-1.0, np.float64),
        best_iteration=np.asarray(0, np.int64),
    )


def init_training_state(
    config: TrainConfig, rings: int = 1, sharding: jax.sharding.Sharding | None = None
) -> TrainingState:
    """The state before the first iteration.

    Args:
        config: the run.
        rings: devices that share the replay buffer.
        sharding: where its rows go: the buffer is made there, as it may not fit elsewhere.
    """
    game = Gomoku.from_config(config.game)
    key, network_key, selfplay_key = jax.random.split(jax.random.key(config.seed), 3)
    optimizer = learn.make_optimizer(config.learn, total_updates(config))
    example = Positions(
        board=jnp.zeros(game.shape, jnp.int8),
        to_play=jnp.zeros((), jnp.int8),
        last_action=jnp.zeros((), jnp.int32),
        policy_target=jnp.zeros(game.num_actions, jnp.float32),
        policy_weight=jnp.zeros((), jnp.float32),
        value_target=jnp.zeros((), jnp.float32),
        rule=jnp.zeros((), jnp.int8) if config.other_rules else None,
    )
    games = [Gomoku.from_config(game) for game in config.games]
    learner = learn.init_train_state(init_network(config.network, game, network_key), optimizer)
    return TrainingState(
        learner=learner,
        replay=init_rings(config.replay.capacity, example, rings, sharding),
        selfplay=init_selfplay_of_rules(games, config.selfplay, selfplay_key),
        key=key,
        progress=init_progress(config),
        actor_params=jax.tree.map(jnp.array, learner.params) if config.devices.actors > 0 else None,
    )


def playing_params(config: TrainConfig, state: TrainingState) -> Any:
    """The newest parameters to play with: the averaged ones where an average is kept."""
    return state.learner.ema_params if config.learn.ema_decay > 0 else state.learner.params


def _manager(folder: pathlib.Path, keep: int | None) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep, enable_async_checkpointing=False, create=keep is not None, read_only=keep is None
    )
    return ocp.CheckpointManager(folder.absolute(), options=options)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Orbax and absl report every step at INFO and warn of things that are meant."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _to_arrays(state: TrainingState) -> dict[str, Any]:
    """The leaves by path; typed keys as their data, since orbax does not store them.

    On the host where this process has all of them; else as they lie on the devices of all processes.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    arrays = {}
    for path, leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        whole = not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        arrays[name] = np.asarray(jax.device_get(leaf)) if whole else leaf
    return arrays


def _from_arrays(arrays: dict[str, np.ndarray], like: TrainingState) -> TrainingState:
    """The state with NumPy leaves: `Programs.place` takes them to the devices."""
    _mend_older(arrays)
    first_actors = like.actor_params is not None and not any(n.startswith("actor_params/") for n in arrays)
    if first_actors:  # the run had none until now
        like = like.replace(actor_params=None)
    leaves, treedef = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if name not in arrays:
            raise CheckpointError(f"{name} is not in the checkpoint")
        array = arrays[name]
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            restored.append(jax.random.wrap_key_data(jnp.asarray(array)))
            continue
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise CheckpointError(f"{name}: {array.dtype}{array.shape}, expected {leaf.dtype}{leaf.shape}")
        restored.append(array)
    state = jax.tree_util.tree_unflatten(treedef, restored)
    return state.replace(actor_params=state.learner.ema_params) if first_actors else state


def _mend_older(arrays: dict[str, np.ndarray]) -> None:
    """What checkpoints of earlier versions lack: CPU time, and rings in the replay buffer."""
    arrays.setdefault("progress/cpu_seconds", np.asarray(0.0))
    for name in ("replay/next_row", "replay/size"):
        arrays[name] = np.atleast_1d(arrays[name])


def save_checkpoint(workdir: str | pathlib.Path, config: TrainConfig, state: TrainingState) -> pathlib.Path:
    """Writes a checkpoint of the iteration the state is at, and drops the oldest beyond those to keep.

    With several processes, all call this together.

    Returns:
        The checkpoint's folder. It appears under its name only once it is whole.
    """
    folder = pathlib.Path(workdir) / CHECKPOINT_FOLDER
    arrays = _to_arrays(state)
    step = int(state.progress.iteration)
    meta = {
        "config": to_dict(config),
        "checksums": {
            name: zlib.crc32(np.ascontiguousarray(array).tobytes())
            for name, array in arrays.items()
            if isinstance(array, np.ndarray)
        },
        "shapes": {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()},
    }
    with _quiet(), _manager(folder, config.keep_checkpoints) as manager:
        if step in manager.all_steps():
            manager.delete(step)
        manager.save(
            step, args=ocp.args.Composite(state=ocp.args.StandardSave(arrays), meta=ocp.args.JsonSave(meta))
        )
    if jax.process_index() == 0:  # all have written when `save` returns
        files = {n: [path.stat().st_size, _file_checksum(path)] for n, path in _files(folder / str(step))}
        with contextlib.suppress(OSError):  # the checkpoint is whole without it
            write_atomically(folder / str(step) / _MANIFEST_FILE, json.dumps(files))
    return folder / str(step)


def _files(folder: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """The files below a checkpoint's folder and their names in its manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _MANIFEST_FILE)
    return [(path.relative_to(folder).as_posix(), path) for path in paths]


def _file_checksum(path: pathlib.Path) -> int:
    return zlib.crc32(path.read_bytes())


def _check_files(folder: pathlib.Path) -> None:
    """Raises ValueError where a file is missing or changed, before orbax trips over it in its threads.

    A process killed between the checkpoint and its manifest leaves none; then the arrays' checksums decide.
    """
    manifest = folder / _MANIFEST_FILE
    if not manifest.exists():
        return
    files = dict(_files(folder))
    for name, (size, checksum) in json.loads(manifest.read_text()).items():
        if name not in files:
            raise ValueError(f"{name} is missing")
        if files[name].stat().st_size != size or _file_checksum(files[name]) != checksum:
            raise ValueError(f"{name} is damaged")


def _read(folder: pathlib.Path, step: int) -> tuple[TrainConfig, dict[str, np.ndarray]]:
    """One checkpoint, verified. Raises whatever is wrong with it."""
    _check_files(folder / str(step))
    with _quiet(), _manager(folder, None) as manager:
        meta = manager.restore(step, args=ocp.args.Composite(meta=ocp.args.JsonRestore()))["meta"]
        shapes = {name: np.empty(shape, dtype) for name, (dtype, shape) in meta["shapes"].items()}
        restored = manager.restore(step, args=ocp.args.Composite(state=ocp.args.StandardRestore(shapes)))
    arrays = {name: np.asarray(array) for name, array in restored["state"].items()}
    for name, checksum in meta["checksums"].items():
        if zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes()) != checksum:
            raise ValueError(f"{name} does not match its checksum")
    return from_dict(TrainConfig, meta["config"]), arrays


def _check_same(config: TrainConfig, saved: TrainConfig, path: pathlib.Path) -> None:
    """Refuses a checkpoint whose arrays mean something else."""
    for name in ("game", "network", "other_rules"):
        ours, theirs = getattr(config, name), getattr(saved, name)
        if not (same_network(ours, theirs) if name == "network" else ours == theirs):
            raise CheckpointError(f"the checkpoint in {path} has {name} {theirs}, this run has {ours}")


def holds_run(workdir: str | pathlib.Path) -> bool:
    """Has a run begun in this folder?"""
    folder = pathlib.Path(workdir)
    return (folder / CONFIG_FILE).exists() or (folder / CHECKPOINT_FOLDER).exists()


def checkpoint_steps(workdir: str | pathlib.Path) -> list[int]:
    """The iterations of a run folder's checkpoints, newest first."""
    folder = pathlib.Path(workdir) / CHECKPOINT_FOLDER
    return sorted((int(p.name) for p in folder.glob("*") if p.is_dir() and p.name.isdigit()), reverse=True)


def restore_checkpoint(
    workdir: str | pathlib.Path, config: TrainConfig | None = None
) -> tuple[TrainConfig, TrainingState, list[str]]:
    """The newest checkpoint that reads.

    Args:
        workdir: a run folder.
        config: what the run is about to use, checked against the checkpoint; None takes the checkpoint's.

    Returns:
        The checkpoint's config, the state, and a message for each newer checkpoint that was passed over.

    Raises:
        CheckpointError: there is none, none reads, or it is of another board, rules or network.
    """
    folder = pathlib.Path(workdir) / CHECKPOINT_FOLDER
    steps = checkpoint_steps(workdir)
    if not steps:
        raise CheckpointError(f"no checkpoint in {folder}")
    messages: list[str] = []
    for step in steps:
        try:
            saved, arrays = _read(folder, step)
        except Exception as error:  # whatever orbax, tensorstore or JSON find wrong in damaged files
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            messages.append(f"checkpoint {folder / str(step)} does not read ({reason}): passed over")
            continue
        if config is not None:
            _check_same(config, saved, folder / str(step))
        like = _abstract_state(saved if config is None else config, rings=arrays["replay/size"].size)
        return saved, _from_arrays(arrays, like), messages
    raise CheckpointError("\n".join([f"no checkpoint in {folder} reads", *messages]))


def _abstract_state(config: TrainConfig, rings: int) -> TrainingState:
    """Shapes and dtypes of a run's state, without making it."""

    def build():
        state = init_training_state(config, rings)
        return state.replace(progress=None)

    return jax.eval_shape(build).replace(progress=init_progress(config))


def load_checkpoint(path: str | pathlib.Path) -> TrainingState:
    """The newest full training state of a run folder, as a pytree of NumPy arrays and a typed key.

    Raises:
        CheckpointError: no checkpoint there that reads.
    """
    return restore_checkpoint(path)[1]


def write_config(workdir: str | pathlib.Path, config: TrainConfig) -> None:
    """Writes the run's `config.json`."""
    path = pathlib.Path(workdir) / CONFIG_FILE
    write_atomically(path, json.dumps(to_dict(config), indent=2) + "\n")


def read_config(workdir: str | pathlib.Path) -> TrainConfig:
    """Reads a run's `config.json`. Raises CheckpointError where there is none or it does not parse."""
    path = pathlib.Path(workdir) / CONFIG_FILE
    try:
        values: Any = json.loads(path.read_text())
        return from_dict(TrainConfig, values)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file, so {workdir} is not a run folder") from None
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: {error}") from None
