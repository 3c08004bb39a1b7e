"""Learning that gives numbers which are not finite: the run stops, and says with which batch it began."""

import contextlib
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from gomoku_jax import learn
from gomoku_jax.checkpoint import CHECKPOINT_FOLDER, checkpoint_steps
from gomoku_jax.config import LearnConfig
from gomoku_jax.distributed import is_main
from gomoku_jax.files import reason_of, write_atomically

_NAMES = {
    "policy_loss": "the policy loss",
    "value_loss": "the value loss",
    "l2_loss": "the L2 loss",
    "loss": "the loss",
    "grad_norm": "the gradient",
    "update_norm": "the step",
    "parameters": "the new parameters",
}


class DivergedError(RuntimeError):
    """A loss, a gradient or the parameters are not finite.

    Attributes:
        iteration: in which it happened, from 1.
        update: of this iteration, from 1.
        num_updates: of an iteration.
        step: update of the whole run, from 1.
        parts: what was not finite, names of `learn.CHECKED_PARTS`.
        batch: what the update learned from, on the host.
    """

    def __init__(
        self, iteration: int, update: int, num_updates: int, step: int, parts: list[str], batch: learn.Batch
    ):
        self.iteration, self.update, self.num_updates, self.step = iteration, update, num_updates, step
        self.parts, self.batch = parts, batch
        names = ", ".join(_NAMES[name] for name in parts)
        super().__init__(
            f"training diverged: not finite in iteration {iteration}, update {update} of {num_updates} "
            f"(update {step} of the run): {names}"
        )


def check_updates(
    config: LearnConfig,
    metrics: dict[str, Any],
    step: jax.Array,
    iteration: int,
    key: jax.Array,
    draw: Callable[[jax.Array], learn.Batch],
) -> dict[str, np.ndarray]:
    """The metrics of an iteration's updates, on the host, if all is finite.

    Args:
        config: of learning.
        metrics: from `learn.run_updates`.
        step: int32 [], the learner's after them.
        iteration: which this is, from 1.
        key: what the updates were made with.
        draw: `key -> Batch`, on the host, from the buffer as the updates saw it; the batch that went wrong is
            drawn again.

    Raises:
        DivergedError: something is not finite. The learner is of no use any more.
    """
    metrics = jax.device_get(metrics)
    first, bits = int(metrics.pop("first_bad_update")), int(metrics.pop("bad_parts"))
    if first < 0:
        return metrics
    parts = [name for i, name in enumerate(learn.CHECKED_PARTS) if bits >> i & 1]
    draw_key, _ = jax.random.split(learn.split_updates_key(key, config)[1][first])
    before = int(step) - int(metrics["updates"])
    raise DivergedError(
        iteration,
        first + 1,
        config.updates_per_iteration,
        before + first + 1,
        parts,
        jax.device_get(draw(draw_key)),
    )


def batch_file(error: DivergedError) -> str:
    """The name of the file that keeps the batch."""
    return f"diverged_iteration_{error.iteration:06d}_update_{error.update:02d}.npz"


@contextlib.contextmanager
def naming_the_batch(workdir: pathlib.Path) -> Iterator[None]:
    """Writes the batch of a `DivergedError` into the run folder; the message tells where, and how to go on.

    The file is one of `numpy.load`: a field of `learn.Batch` each, and "iteration", "update", "step".
    """
    try:
        yield
    except DivergedError as error:
        text = str(error)
        if is_main():
            text += f". {_write_batch(workdir / batch_file(error), error)}"
        steps = checkpoint_steps(workdir)
        if steps:
            folder = workdir / CHECKPOINT_FOLDER / str(steps[0])
            text += (
                f". The last good checkpoint is of iteration {steps[0]}, {folder}; --resume goes on from "
                "there, and as it did before unless something is changed, such as a lower "
                "--learn.learning-rate"
            )
        else:
            text += f". There is no checkpoint yet in {workdir}"
        error.args = (text,)
        raise


def _write_batch(path: pathlib.Path, error: DivergedError) -> str:
    """Writes it; a sentence that says where."""
    data = io.BytesIO()
    np.savez_compressed(
        data, **error.batch._asdict(), iteration=error.iteration, update=error.update, step=error.step
    )
    try:
        write_atomically(path, data.getvalue())
    except OSError as failure:
        return f"Its batch could not be written to {path}: {reason_of(failure)}"
    return f"Its batch: {path}"
