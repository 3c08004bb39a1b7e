"""Policy-value networks: the tutorials' three convolutions, and a residual tower that fits any board."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from gomoku_jax.config import NetworkConfig
from gomoku_jax.conv import Conv3x3
from gomoku_jax.game import NUM_PLANES, Gomoku

Params = Any  # a pytree of float32 arrays


class NetworkOutput(NamedTuple):
    """What a network says of a batch of positions.

    Attributes:
        policy_logits: float32 [B, A], unmasked: illegal actions have logits too.
        value: float32 [B] in [-1, 1], from the view of the side to move.
    """

    policy_logits: jax.Array
    value: jax.Array


class ConvNetwork(nn.Module):
    """Three 3x3 convolutions and heads with dense layers, tied to one board size.

    As in https://github.com/junxiaosong/AlphaZero_Gomoku and the tutorials after it.
    """

    config: NetworkConfig

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        config, dtype = self.config, jnp.dtype(self.config.dtype)
        batch, height, width, _ = observation.shape
        x = observation.astype(dtype)
        for i, channels in enumerate(config.conv_channels):
            x = nn.relu(Conv3x3(channels, dtype, name=f"conv_{i}")(x))
        policy = nn.relu(nn.Dense(4, dtype=dtype, name="policy_conv")(x)).reshape(
            batch, -1
        )  # a 1x1 convolution
        policy_logits = nn.Dense(height * width, dtype=dtype, name="policy_dense")(policy)
        value = nn.relu(nn.Dense(2, dtype=dtype, name="value_conv")(x)).reshape(batch, -1)
        value = nn.relu(nn.Dense(config.value_hidden, dtype=dtype, name="value_hidden")(value))
        value = nn.Dense(1, dtype=dtype, name="value_dense")(value)[:, 0]
        return NetworkOutput(policy_logits.astype(jnp.float32), jnp.tanh(value.astype(jnp.float32)))


def pool(x: jax.Array) -> jax.Array:
    """[B, H, W, C] → [B, 2C]: mean and maximum over the board."""
    return jnp.concatenate([x.mean((1, 2)), x.max((1, 2))], axis=-1)


_Layer = Callable[[jax.Array], jax.Array]


def _block(x: jax.Array, first: _Layer, pooled_bias: _Layer | None, second: _Layer) -> jax.Array:
    """One residual block, [B, H, W, C] → [B, H, W, C]; with `pooled_bias` it sees the whole board."""
    y = first(nn.relu(x))
    if pooled_bias is not None:
        y = y + pooled_bias(pool(nn.relu(y)))[:, None, None]
    return x + second(nn.relu(y))


def _blocks_again(config: NetworkConfig, params: Any, x: jax.Array) -> jax.Array:
    """The tower of blocks, of which the backward pass finds only every second one's input in memory.

    Pairs of blocks, which are all alike, go through a scan that is rematerialized: beside blocks written one
    after the other, XLA for the CPU would recognize the second computation and keep the first's results.
    """
    channels, dtype = config.channels, jnp.dtype(config.dtype)

    def conv(layers: Any, name: str) -> _Layer:
        return functools.partial(Conv3x3(channels, dtype, parent=None).apply, {"params": layers[name]})  # type: ignore[return-value]

    def dense(layers: Any, name: str) -> _Layer:
        return functools.partial(nn.Dense(channels, dtype=dtype, parent=None).apply, {"params": layers[name]})  # type: ignore[return-value]

    def plain(x: jax.Array, layers: Any) -> jax.Array:
        return _block(x, conv(layers, "conv_0"), None, conv(layers, "conv_1"))

    def pair(x: jax.Array, layers: tuple[Any, Any]) -> tuple[jax.Array, None]:
        even, odd = layers
        x = plain(x, even)
        return _block(x, conv(odd, "conv_0"), dense(odd, "pool"), conv(odd, "conv_1")), None

    blocks = [
        {
            part: params[f"block_{i}_{part}"]
            for part in ("conv_0", "conv_1", "pool")
            if f"block_{i}_{part}" in params
        }
        for i in range(config.num_blocks)
    ]
    pairs = [(blocks[i], blocks[i + 1]) for i in range(0, config.num_blocks - 1, 2)]
    if pairs:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
        x, _ = jax.lax.scan(jax.checkpoint(pair, prevent_cse=False), x, stacked)
    if config.num_blocks % 2 == 1:
        x = jax.checkpoint(plain)(x, blocks[-1])
    return x


class ResidualNetwork(nn.Module):
    """Pre-activation residual tower with global pooling; no weight depends on the board's size.

    Residual branches end in a convolution that starts at zero, which takes the place of normalization
    (Zhang et al. 2019, https://arxiv.org/abs/1901.09321). Every second block and both heads see pooled
    features (Wu 2019, https://arxiv.org/abs/1902.10565).
    """

    config: NetworkConfig

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        config, dtype = self.config, jnp.dtype(self.config.dtype)
        channels = config.channels

        def dense(name: str, features: int = channels, **kwargs) -> nn.Dense:  # on a board, a 1x1 convolution
            return nn.Dense(features, dtype=dtype, name=name, **kwargs)

        x = Conv3x3(channels, dtype, name="stem")(observation.astype(dtype))
        if config.remat and not self.is_initializing():
            x = _blocks_again(config, self.variables["params"], x)
        else:
            for i in range(config.num_blocks):
                x = _block(
                    x,
                    Conv3x3(channels, dtype, name=f"block_{i}_conv_0"),
                    dense(f"block_{i}_pool") if i % 2 == 1 else None,
                    Conv3x3(channels, dtype, nn.initializers.zeros, name=f"block_{i}_conv_1"),
                )
        x = nn.relu(x)
        pooled = pool(x)
        policy = dense("policy_conv")(x)
        policy = policy + dense("policy_pool")(pooled)[:, None, None]
        # The first policy is nearly flat and the first value nearly 0.
        small = nn.initializers.variance_scaling(0.01, "fan_in", "truncated_normal")
        policy_logits = dense("policy_out", 1, use_bias=False, kernel_init=small)(nn.relu(policy))
        value = nn.relu(dense("value_hidden", config.value_hidden)(pooled))
        value = dense("value_dense", 1, kernel_init=small)(value)[:, 0]
        return NetworkOutput(
            policy_logits.reshape(observation.shape[0], -1).astype(jnp.float32),
            jnp.tanh(value.astype(jnp.float32)),
        )


def _module(config: NetworkConfig) -> nn.Module:
    return ConvNetwork(config) if config.kind == "conv" else ResidualNetwork(config)


def init_network(net_config: NetworkConfig, game: Gomoku, key: jax.Array) -> Params:
    """Fresh parameters, a pytree of float32 arrays. Consumes `key`."""
    observations = jnp.zeros((1, *game.shape, NUM_PLANES[net_config.planes]), jnp.float32)
    return _module(net_config).init(key, observations)["params"]


@jax.named_scope("network")
def apply_network(net_config: NetworkConfig, params: Params, observations: jax.Array) -> NetworkOutput:
    """Runs the network on a batch.

    Args:
        net_config: must be the one the parameters were made with.
        params: from `init_network`.
        observations: float32 [B, H, W, C], from `encode.observe`. The `resnet` takes any H and W, whatever
            board its parameters were made on.

    Returns:
        NetworkOutput(policy_logits float32 [B, A], value float32 [B]).
    """
    output = _module(net_config).apply({"params": params}, observations)
    assert isinstance(output, NetworkOutput)
    return output


def num_parameters(params: Params) -> int:
    """How many numbers the parameters hold."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def flops_per_position(net_config: NetworkConfig, game: Gomoku) -> int:
    """Multiplications and additions of one evaluation, counted over convolutions and dense layers."""
    shapes = jax.eval_shape(lambda: init_network(net_config, game, jax.random.key(0)))
    once = ("policy_dense", "policy_pool", "value_hidden", "value_dense")  # the others run at every point
    total = 0
    for name, layer in shapes.items():
        times = 1 if name in once or name.endswith("_pool") else game.num_actions
        total += 2 * math.prod(layer["kernel"].shape) * times
    return total
