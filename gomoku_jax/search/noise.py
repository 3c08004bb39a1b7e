"""Randomness at the root: Dirichlet noise over legal moves, and the draw of the played move."""

import jax
import jax.numpy as jnp

from gomoku_jax.search.types import mask_logits


def dirichlet_over_legal(key: jax.Array, legal: jax.Array, alpha: float) -> jax.Array:
    """A draw of Dirichlet(alpha, ..., alpha) over the legal actions only. Consumes `key`.

    Noise over all actions would vanish as the board fills. Drawn as log-gammas and normalized by softmax,
    so that a small alpha does not underflow.

    Args:
        key: typed PRNG key.
        legal: bool [B, A].
        alpha: concentration.

    Returns:
        float32 [B, A], each row sums to 1; a row without legal actions is all 0.
    """
    log_gamma = jax.random.loggamma(key, alpha, legal.shape, jnp.float32)
    return jnp.where(legal, jax.nn.softmax(mask_logits(log_gamma, legal), axis=-1), 0.0)


def add_root_noise(
    key: jax.Array, policy_logits: jax.Array, legal: jax.Array, fraction: float, alpha: float
) -> jax.Array:
    """Logits [B, A] of (1 - fraction) * prior + fraction * noise, masked. Consumes `key`."""
    prior = jax.nn.softmax(mask_logits(policy_logits, legal), axis=-1)
    mixed = (1.0 - fraction) * prior + fraction * dirichlet_over_legal(key, legal, alpha)
    return mask_logits(jnp.log(jnp.maximum(mixed, jnp.finfo(jnp.float32).tiny)), legal)


def temper(weights: jax.Array, temperature: jax.typing.ArrayLike) -> jax.Array:
    """Log-probabilities proportional to weights ** (1 / temperature), float32 [B, A].

    Finite for every temperature, down to 0, which leaves the largest weights alone; an action of weight 0
    never gets a chance beside one that has any.

    Args:
        weights: [B, A], not negative.
        temperature: [] or [B].
    """
    weights = jnp.asarray(weights, jnp.float32)
    largest = weights.max(-1, keepdims=True)
    temperature = jnp.maximum(jnp.broadcast_to(temperature, weights.shape[:-1])[..., None], 1e-6)
    # Scaled by the largest first, so that no power overflows.
    log_weights = jnp.log(jnp.maximum(weights / jnp.maximum(largest, 1e-30), 1e-30))
    logits = jnp.where(weights > 0, jnp.maximum(log_weights / temperature, -1e30), -1e38)
    return jax.nn.log_softmax(logits, axis=-1)


def draw_action(key: jax.Array, weights: jax.Array, temperature: jax.typing.ArrayLike) -> jax.Array:
    """int32 [B]: actions drawn with probability proportional to weights ** (1 / temperature).

    Consumes `key`. Temperature 0 takes one of the largest weights.
    """
    return jax.random.categorical(key, temper(weights, temperature), axis=-1).astype(jnp.int32)
