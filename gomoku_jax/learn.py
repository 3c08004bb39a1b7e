"""Loss and update, as pure functions of arrays: this module knows neither the game nor the search."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gomoku_jax.config import LearnConfig
from gomoku_jax.network import NetworkOutput

ApplyFn = Callable[[Any, jax.Array], NetworkOutput]  # (params, observation) -> NetworkOutput
Metrics = dict[str, jax.Array]

# What of an update must be finite, as bits of the metric "bad_parts"; the last are the new parameters.
CHECKED_PARTS = ("policy_loss", "value_loss", "l2_loss", "loss", "grad_norm", "update_norm", "parameters")
_KL_FACTOR = 1.5  # of the adaptive learning rate, as in the tutorials
_KL_SCALE_RANGE = (0.1, 10.0)  # how far the adaptive rate may run from its base


class Batch(NamedTuple):
    """What one update learns from.

    Attributes:
        observation: float32 [B, H, W, C].
        legal: bool [B, A].
        policy_target: float32 [B, A], sums to 1 over legal actions.
        policy_weight: float32 [B], 0 leaves a position out of the policy loss.
        value_target: float32 [B].
    """

    observation: jax.Array
    legal: jax.Array
    policy_target: jax.Array
    policy_weight: jax.Array
    value_target: jax.Array


class TrainState(struct.PyTreeNode):
    """Everything that learning changes.

    Attributes:
        params: the network's parameters, float32.
        ema_params: their exponential moving average; equal to `params` while `ema_decay` is 0.
        opt_state: the Optax chain's state.
        step: int32 [], batches learned from.
        learning_rate_scale: float32 [], the KL-adaptive factor, or the cosine's in runs that a clock ends;
            else 1.
    """

    params: Any
    ema_params: Any
    opt_state: Any
    step: jax.Array
    learning_rate_scale: jax.Array


def learning_rate_schedule(config: LearnConfig, total_updates: int | None) -> optax.Schedule:
    """Learning rate by optimizer step.

    `total_updates`: batches in the whole run. None where nobody knows, because a clock ends it:
    "warmup_cosine" is then its warmup only, and `cosine_scale` is for the rest.
    """
    if total_updates is None:
        if config.schedule == "warmup_cosine" and config.warmup_updates >= config.accumulation_steps:
            warmup = config.warmup_updates // config.accumulation_steps
            return optax.linear_schedule(0.0, config.learning_rate, warmup)
        return optax.constant_schedule(config.learning_rate)
    steps = max(total_updates // config.accumulation_steps, 1)
    if config.schedule == "warmup_cosine":
        warmup = min(config.warmup_updates // config.accumulation_steps, steps - 1)
        end = config.learning_rate * config.final_learning_rate_fraction
        return optax.warmup_cosine_decay_schedule(
            0.0 if warmup else config.learning_rate, config.learning_rate, warmup, steps, end
        )
    return optax.constant_schedule(config.learning_rate)


def cosine_scale(config: LearnConfig, share: float) -> float:
    """The factor on the learning rate when a share, from 0 to 1, of the run's time is spent."""
    end = config.final_learning_rate_fraction
    return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * min(max(share, 0.0), 1.0)))


def make_optimizer(config: LearnConfig, total_updates: int | None) -> optax.GradientTransformation:
    """The Optax chain: clipping, then Adam, AdamW or SGD; gradients averaged over accumulated batches."""
    schedule = learning_rate_schedule(config, total_updates)
    if config.optimizer == "adam":
        optimizer = optax.adam(schedule)
    elif config.optimizer == "adamw":
        optimizer = optax.adamw(schedule, weight_decay=config.weight_decay)
    else:
        optimizer = optax.sgd(schedule, momentum=config.momentum, nesterov=True)
    if config.max_grad_norm > 0:
        optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optimizer)
    if config.accumulation_steps > 1:
        return optax.MultiSteps(optimizer, config.accumulation_steps).gradient_transformation()
    return optimizer


def init_train_state(params: Any, optimizer: optax.GradientTransformation) -> TrainState:
    """Learning's state before the first update."""
    return TrainState(
        params=params,
        # A copy: a donated buffer must not be held twice.
        ema_params=jax.tree.map(jnp.array, params),
        opt_state=optimizer.init(params),
        step=jnp.int32(0),
        learning_rate_scale=jnp.float32(1.0),
    )


def log_policy(policy_logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Log-probabilities over legal actions, float32 [B, A].

    0 for illegal actions, whose logits get no gradient.
    """
    masked = jnp.where(legal, policy_logits, jnp.finfo(jnp.float32).min)
    return jnp.where(legal, jax.nn.log_softmax(masked, axis=-1), 0.0)


def loss_fn(params: Any, batch: Batch, apply_fn: ApplyFn, config: LearnConfig) -> tuple[jax.Array, Metrics]:
    """Policy cross-entropy over legal moves + value error + L2 (Silver et al. 2017, eq. 1).

    Returns:
        The loss, float32 [], and its parts.
    """
    output = apply_fn(params, batch.observation)
    log_probs = log_policy(output.policy_logits, batch.legal)
    weight = batch.policy_weight
    total_weight = jnp.maximum(weight.sum(), 1e-6)
    policy_loss = (-(batch.policy_target * log_probs).sum(-1) * weight).sum() / total_weight
    value_loss = jnp.square(output.value - batch.value_target).mean()
    l2_loss = config.l2 * sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(params))
    loss = policy_loss + config.value_loss_weight * value_loss + l2_loss
    entropy = -(jnp.exp(log_probs) * log_probs * batch.legal).sum(-1).mean()
    target_variance = jnp.var(batch.value_target)
    residual_variance = jnp.var(batch.value_target - output.value)
    metrics = {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "l2_loss": jnp.asarray(l2_loss, jnp.float32),
        "entropy": entropy,
        "explained_variance": 1.0 - residual_variance / jnp.maximum(target_variance, 1e-6),
    }
    return loss, metrics


def policy_kl(old_logits: jax.Array, new_logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Mean KL(old || new) of the policies over legal actions, float32 [], nats."""
    old, new = log_policy(old_logits, legal), log_policy(new_logits, legal)
    return (jnp.exp(old) * (old - new) * legal).sum(-1).mean()


@jax.named_scope("learn")
def train_step(
    train_state: TrainState,
    batch: Batch,
    key: jax.Array,
    *,
    apply_fn: ApplyFn,
    optimizer: optax.GradientTransformation,
    config: LearnConfig,
) -> tuple[TrainState, Metrics]:
    """One update. Pure; bind the keyword arguments with `functools.partial`.

    Args:
        train_state: before the update.
        batch: B positions.
        key: typed PRNG key for networks with randomness; those of this package have none and ignore it.
        apply_fn: `(params, observation) -> NetworkOutput`.
        optimizer: from `make_optimizer`.
        config: weights of the loss.
    """
    del key
    grads, metrics = jax.grad(loss_fn, has_aux=True)(train_state.params, batch, apply_fn, config)
    updates, opt_state = optimizer.update(grads, train_state.opt_state, train_state.params)
    updates = jax.tree.map(lambda u: u * train_state.learning_rate_scale, updates)
    params = optax.apply_updates(train_state.params, updates)
    if config.ema_decay > 0:
        # The decay grows with the steps taken, so that the average is not held back by the first parameters.
        step = train_state.step.astype(jnp.float32)
        decay = jnp.minimum(config.ema_decay, (1.0 + step) / (10.0 + step))
        ema_params = jax.tree.map(lambda e, p: decay * e + (1 - decay) * p, train_state.ema_params, params)
    else:
        ema_params = params
    metrics = metrics | {"grad_norm": optax.tree.norm(grads), "update_norm": optax.tree.norm(updates)}
    new_state = TrainState(
        params=params,
        ema_params=ema_params,
        opt_state=opt_state,
        step=train_state.step + 1,
        learning_rate_scale=train_state.learning_rate_scale,
    )
    return new_state, metrics


def adapt_learning_rate(scale: jax.Array, kl: jax.Array, kl_target: float) -> jax.Array:
    """The factor on the learning rate after an iteration whose updates moved the policy by `kl`.

    Divided by 1.5 above twice the target, multiplied by 1.5 below half of it, within [0.1, 10]: without
    bounds it runs away when the policy stops moving for another reason.
    """
    scale = jnp.where(
        kl > 2 * kl_target, scale / _KL_FACTOR, jnp.where(kl < kl_target / 2, scale * _KL_FACTOR, scale)
    )
    return jnp.clip(scale, *_KL_SCALE_RANGE)


def split_updates_key(key: jax.Array, config: LearnConfig) -> tuple[jax.Array, jax.Array]:
    """The key of an iteration's probe batch, and the keys [updates_per_iteration] of its updates.

    Each of these splits into the key that draws the batch and the key of the step.
    """
    probe_key, updates_key = jax.random.split(key)
    return probe_key, jax.random.split(updates_key, config.updates_per_iteration)


def first_bad_update(metrics: Metrics, params: Any, made: jax.Array) -> Metrics:
    """Which of an iteration's updates first gave a number that is not finite, and what was not.

    Args:
        metrics: of each update, [K].
        params: after the last one, which may overflow although its gradient did not.
        made: float32 [], updates made.

    Returns:
        "first_bad_update", int32 [], from 0, -1 where there is none; "bad_parts", int32 [], bits in the order
        of `CHECKED_PARTS`.
    """
    bad = jnp.stack([~jnp.isfinite(metrics[name]) for name in CHECKED_PARTS[:-1]], axis=-1)
    overflown = ~jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()
    first = jnp.where(bad.any(), bad.any(-1).argmax(), made.astype(jnp.int32) - 1)
    is_last = first == made.astype(jnp.int32) - 1
    parts = jnp.append(bad[first], overflown & is_last)
    bits = (parts * 2 ** jnp.arange(len(CHECKED_PARTS))).sum(dtype=jnp.int32)
    first = jnp.where(bits > 0, first, -1).astype(jnp.int32)
    return {"first_bad_update": first, "bad_parts": bits}


@jax.named_scope("learn")
def run_updates(
    train_state: TrainState,
    draw_batch: Callable[[jax.Array], Batch],
    key: jax.Array,
    *,
    apply_fn: ApplyFn,
    optimizer: optax.GradientTransformation,
    config: LearnConfig,
) -> tuple[TrainState, Metrics]:
    """One iteration's updates in one `lax.scan`. Pure and jittable; consumes `key`.

    The KL between the policy before the updates and after is measured on one more batch. Under the
    "kl_adaptive" schedule it is measured after every update, updates stop above four times the target, and
    the learning rate follows.

    Args:
        train_state: before the updates; under jit, donate it.
        draw_batch: `key -> Batch`.
        key: typed PRNG key.
        apply_fn: the network.
        optimizer: from `make_optimizer`.
        config: number of updates, loss, schedule.

    Returns:
        The state after, and metrics float32 []: means over the updates made; and those of
        `first_bad_update`.
    """
    probe_key, keys = split_updates_key(key, config)
    probe = draw_batch(probe_key)
    old_logits = apply_fn(train_state.params, probe.observation).policy_logits

    def kl_to_old(params: Any) -> jax.Array:
        return policy_kl(old_logits, apply_fn(params, probe.observation).policy_logits, probe.legal)

    def update(state: TrainState, key: jax.Array) -> tuple[TrainState, Metrics]:
        draw_key, step_key = jax.random.split(key)
        return train_step(
            state, draw_batch(draw_key), step_key, apply_fn=apply_fn, optimizer=optimizer, config=config
        )

    if config.schedule != "kl_adaptive":
        new_state, metrics = jax.lax.scan(update, train_state, keys)
        means = jax.tree.map(jnp.mean, metrics)
        made, kl = jnp.float32(config.updates_per_iteration), kl_to_old(new_state.params)
    else:
        shapes = jax.eval_shape(update, train_state, keys[0])[1]
        skipped = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

        def update_unless_stopped(carry, key):
            state, kl = carry
            stop = kl > 4 * config.kl_target
            new_state, metrics = jax.lax.cond(stop, lambda: (state, skipped), lambda: update(state, key))
            kl = jax.lax.cond(stop, lambda: kl, lambda: kl_to_old(new_state.params))
            return (new_state, kl), (metrics, ~stop)

        (new_state, kl), (metrics, ran) = jax.lax.scan(
            update_unless_stopped, (train_state, jnp.float32(0.0)), keys
        )
        made = ran.sum(dtype=jnp.float32)
        means = jax.tree.map(lambda x: x.sum() / jnp.maximum(made, 1.0), metrics)
        new_state = new_state.replace(
            learning_rate_scale=adapt_learning_rate(new_state.learning_rate_scale, kl, config.kl_target)
        )
    return new_state, means | first_bad_update(metrics, new_state.params, made) | {
        "kl": kl,
        "updates": made,
        "learning_rate_scale": new_state.learning_rate_scale,
    }
