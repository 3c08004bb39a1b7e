"""The networks' forward pass made for search: parameters are prepared once, then used by every simulation.

On accelerators this is the plain Flax module. On a CPU that shows as one device the same sums are arranged so
that XLA uses all cores. XLA hands convolutions to YNNPACK, one by one, and each runs on one core; but a chain
of them that ends in a reduction becomes one call, which spreads over the cores. So a chain here ends in a
reduction that changes nothing, the maximum of two equal numbers. docs/performance.md tells what this gives.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gomoku_jax.config import NetworkConfig
from gomoku_jax.conv import conv3x3
from gomoku_jax.network import NetworkOutput, Params, apply_network, pool
from gomoku_jax.system import num_cores


class Prepared(struct.PyTreeNode):
    """Parameters for `apply_prepared`.

    Attributes:
        params: the network's, in the dtype of the computation.
        ones: [2], all 1; an argument, so that XLA cannot know it.
    """

    params: Params
    ones: jax.Array


def prepare(net_config: NetworkConfig, params: Params) -> Prepared:
    """Makes parameters ready for `apply_prepared`; once after every update. Pure and jittable."""
    dtype = jnp.dtype(net_config.inference_dtype or net_config.dtype)
    return Prepared(params=jax.tree.map(lambda x: x.astype(dtype), params), ones=jnp.ones(2, dtype))


@jax.named_scope("network")
def apply_prepared(net_config: NetworkConfig, prepared: Prepared, observations: jax.Array) -> NetworkOutput:
    """`apply_network` with prepared parameters; equal to it but for rounding.

    Args:
        net_config: as for `apply_network`; computes in `inference_dtype`, or in `dtype` if that is None.
        prepared: from `prepare`.
        observations: float32 [B, H, W, C].

    Returns:
        NetworkOutput(policy_logits float32 [B, A], value float32 [B]).
    """
    dtype = net_config.inference_dtype or net_config.dtype
    config = dataclasses.replace(net_config, dtype=dtype, inference_dtype=None, remat=False)

    def chains(prepared: Prepared, observations: jax.Array) -> NetworkOutput:
        return apply_in_chains(config, prepared, observations)

    def plain(prepared: Prepared, observations: jax.Array) -> NetworkOutput:
        params = jax.tree.map(lambda x: x.astype(jnp.float32), prepared.params)
        return apply_network(config, params, observations)

    if not chains_pay(config, observations.shape):
        return plain(prepared, observations)
    return jax.lax.platform_dependent(prepared, observations, cpu=chains, default=plain)


def chains_pay(config: NetworkConfig, shape: tuple[int, ...]) -> bool:
    """Whether the arrangement in chains is the faster one on a CPU, by measurement.

    Args:
        config: the network.
        shape: (B, H, W, C) of the observations.
    """
    if jax.local_device_count() > 1:  # one device a core: each is busy with games of its own
        return False
    if num_cores() == 1:  # nothing to spread over
        return False
    if config.kind == "conv":
        return True
    batch, height, width, _ = shape
    layer_flops = 18 * config.channels**2 * batch * height * width
    # Small work is not spread; from 128 channels on, single convolutions are.
    return layer_flops >= 4e7 and (batch >= 32 or config.channels >= 48) and config.channels < 96


def apply_in_chains(config: NetworkConfig, prepared: Prepared, observations: jax.Array) -> NetworkOutput:
    """`apply_network` in the arrangement for the CPU; computes in `config.dtype`."""
    batch = observations.shape[0]
    x = observations.astype(config.dtype)
    # YNNPACK does not spread a chain whose batch is as large as one of its channels.
    channels = config.conv_channels if config.kind == "conv" else (config.channels,)
    padding = 0
    while batch + padding in channels:
        padding += 1
    if padding:
        x = jnp.pad(x, ((0, padding), (0, 0), (0, 0), (0, 0)))
    forward = _conv_network if config.kind == "conv" else _residual_network
    policy_logits, value = forward(config, prepared, x)
    return NetworkOutput(
        policy_logits[:batch].astype(jnp.float32), jnp.tanh(value[:batch].astype(jnp.float32))
    )


def _end_chain(x: jax.Array, ones: jax.Array) -> jax.Array:
    """x, [B, H, W, C], out of one call to YNNPACK with everything that leads to it."""
    pair = x[..., None] * ones.reshape(1, 1, 1, 1, 2)
    return jax.lax.optimization_barrier(pair.max(-1))


def _conv(x: jax.Array, layer: Any) -> jax.Array:
    return conv3x3(x, layer["kernel"]) + layer["bias"].reshape(1, 1, 1, -1)


def _dense(x: jax.Array, layer: Any) -> jax.Array:
    y = x @ layer["kernel"]
    return y + layer["bias"].reshape(*(1,) * (y.ndim - 1), -1) if "bias" in layer else y


def _conv_network(config: NetworkConfig, prepared: Prepared, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    layers, batch = prepared.params, x.shape[0]
    for i in range(len(config.conv_channels)):
        x = jax.nn.relu(_conv(x, layers[f"conv_{i}"]))
    heads = [layers["policy_conv"], layers["value_conv"]]
    kernel = jnp.concatenate([head["kernel"] for head in heads], axis=-1)
    bias = jnp.concatenate([head["bias"] for head in heads])
    x = _end_chain(jax.nn.relu(x @ kernel + bias.reshape(1, 1, 1, -1)), prepared.ones)
    num_policy = heads[0]["bias"].shape[0]
    policy, value = x[..., :num_policy].reshape(batch, -1), x[..., num_policy:].reshape(batch, -1)
    value = _dense(jax.nn.relu(_dense(value, layers["value_hidden"])), layers["value_dense"])
    return _dense(policy, layers["policy_dense"]), value[:, 0]


def _residual_network(config: NetworkConfig, prepared: Prepared, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    layers, relu = prepared.params, jax.nn.relu
    batch = x.shape[0]
    x = _conv(x, layers["stem"])
    for i in range(config.num_blocks):
        # A chain a block: longer ones compute more twice, at the seams of what each core takes.
        x = _end_chain(x, prepared.ones)
        if i % 2 == 1:  # the pool needs the whole board
            y = _end_chain(_conv(relu(x), layers[f"block_{i}_conv_0"]), prepared.ones)
            y = y + _dense(pool(relu(y)), layers[f"block_{i}_pool"])[:, None, None]
        else:
            y = _conv(relu(x), layers[f"block_{i}_conv_0"])
        x = x + _conv(relu(y), layers[f"block_{i}_conv_1"])
    x = relu(_end_chain(x, prepared.ones))
    pooled = pool(x)
    policy = _dense(x, layers["policy_conv"]) + _dense(pooled, layers["policy_pool"])[:, None, None]
    policy_logits = _dense(relu(policy), layers["policy_out"]).reshape(batch, -1)
    value = _dense(relu(_dense(pooled, layers["value_hidden"])), layers["value_dense"])
    return policy_logits, value[:, 0]
