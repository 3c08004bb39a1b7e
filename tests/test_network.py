"""Networks and their convolution, against direct sums in NumPy and counts in closed form."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gomoku_jax.config import NetworkConfig, Planes, from_dict, same_network, to_dict
from gomoku_jax.conv import _kernel_gradient_by_conv, _kernel_gradient_by_product, conv3x3
from gomoku_jax.encode import observe
from gomoku_jax.game import Gomoku, State, replay_moves
from gomoku_jax.network import apply_network, init_network, num_parameters

SMALL = NetworkConfig(channels=8, num_blocks=2, value_hidden=16)
TINY = NetworkConfig(channels=8, num_blocks=1, value_hidden=8)
CONV = NetworkConfig(kind="conv")

apply = jax.jit(apply_network, static_argnums=0)


def positions(game: Gomoku, batch: int, planes: Planes = "all", seed: int = 0) -> jax.Array:
    """Observations of a batch of positions after different numbers of random moves."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(game.num_actions)[: rng.integers(0, 5)].tolist() for _ in range(batch)]
    states: State = jax.tree.map(lambda *x: jnp.stack(x), *[replay_moves(game, order) for order in orders])
    return observe(game, states, planes)


def shapes_of(config: NetworkConfig, game: Gomoku):
    """The parameters' shapes and types, without the seconds that compiling their initializers takes."""
    return jax.eval_shape(lambda: init_network(config, game, jax.random.key(0)))


def drawn(config: NetworkConfig, game: Gomoku, scale: float = 1.0, seed: int = 0):
    """Parameters of the network's shapes, none of them zero."""
    rng = np.random.default_rng(seed)

    def draw(x):
        return jnp.asarray(
            scale * rng.normal(0, 1 / np.sqrt(max(x.size // x.shape[-1], 4)), x.shape), x.dtype
        )

    return jax.tree.map(draw, shapes_of(config, game))


@pytest.fixture(scope="module")
def fresh():
    """Freshly initialized parameters of `TINY`, by key, made on 6x6."""
    jitted = jax.jit(init_network, static_argnums=(0, 1))
    return functools.cache(lambda seed: jitted(TINY, Gomoku(6, 6, 4), jax.random.key(seed)))


def direct_convolution(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Every output as the sum that defines it, in float64."""
    batch, height, width, _ = x.shape
    y = np.zeros((batch, height, width, kernel.shape[-1]))
    for row in range(height):
        for col in range(width):
            for i in range(3):
                for j in range(3):
                    r, c = row + i - 1, col + j - 1
                    if 0 <= r < height and 0 <= c < width:
                        y[:, row, col] += x[:, r, c].astype(np.float64) @ kernel[i, j].astype(np.float64)
    return y


def direct_gradients(x, kernel, grad) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of sum(convolution * grad), from the same sums."""
    height, width = x.shape[1:3]
    x_grad, kernel_grad = np.zeros(x.shape), np.zeros(kernel.shape)
    for row in range(height):
        for col in range(width):
            for i in range(3):
                for j in range(3):
                    r, c = row + i - 1, col + j - 1
                    if 0 <= r < height and 0 <= c < width:
                        x_grad[:, r, c] += grad[:, row, col] @ kernel[i, j].T.astype(np.float64)
                        kernel_grad[i, j] += x[:, r, c].T.astype(np.float64) @ grad[:, row, col]
    return x_grad, kernel_grad


def plain_convolution(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )


@pytest.mark.parametrize("height, width, channels, features", [(3, 3, 1, 1), (5, 7, 3, 4), (8, 3, 4, 2)])
def test_convolution_and_its_gradients(height, width, channels, features):
    rng = np.random.default_rng(height * width)
    x = rng.normal(size=(3, height, width, channels)).astype(np.float32)
    kernel = rng.normal(size=(3, 3, channels, features)).astype(np.float32)
    grad = rng.normal(size=(3, height, width, features)).astype(np.float32)
    y, pullback = jax.vjp(conv3x3, x, kernel)
    x_grad, kernel_grad = pullback(jnp.asarray(grad))
    np.testing.assert_allclose(y, direct_convolution(x, kernel), atol=1e-4)
    expected_x, expected_kernel = direct_gradients(x, kernel, grad)
    np.testing.assert_allclose(x_grad, expected_x, atol=1e-4)
    np.testing.assert_allclose(kernel_grad, expected_kernel, atol=3e-4)
    # And JAX's own derivative, of which the CPU's and the accelerators' ways must both be a copy.
    auto_x, auto_kernel = jax.vjp(plain_convolution, x, kernel)[1](jnp.asarray(grad))
    np.testing.assert_allclose(x_grad, auto_x, atol=1e-4)
    for way in (_kernel_gradient_by_product, _kernel_gradient_by_conv):
        np.testing.assert_allclose(way(jnp.asarray(x), jnp.asarray(grad)), auto_kernel, atol=3e-4)


def test_convolution_gradients_in_bfloat16_keep_the_type():
    x, kernel = jnp.ones((1, 3, 4, 2), jnp.bfloat16), jnp.ones((3, 3, 2, 5), jnp.bfloat16)
    y, pullback = jax.vjp(conv3x3, x, kernel)
    x_grad, kernel_grad = pullback(jnp.ones_like(y))
    assert y.dtype == x_grad.dtype == kernel_grad.dtype == jnp.bfloat16
    # Ones everywhere: a corner is reached by 4 of the 9 taps, an edge by 6, the middle by 9.
    np.testing.assert_array_equal(y[0, 0, :, 0].astype(np.float32), 2 * np.array([4, 6, 6, 4]))
    np.testing.assert_array_equal(x_grad[0, 1, :, 0].astype(np.float32), 5 * np.array([6, 9, 9, 6]))
    np.testing.assert_array_equal(
        kernel_grad[:, :, 0, 0].astype(np.float32), [[6, 8, 6], [9, 12, 9], [6, 8, 6]]
    )


@pytest.mark.parametrize("kind", ["resnet", "conv"])
@pytest.mark.parametrize("planes, channels", [("all", 4), ("stones", 2)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shapes_and_types(kind, planes, channels, dtype):
    game = Gomoku(4, 6, 4)
    config = NetworkConfig(
        kind, channels=8, num_blocks=1, conv_channels=(4, 8), value_hidden=8, planes=planes, dtype=dtype
    )
    params = drawn(config, game)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    assert params["stem" if kind == "resnet" else "conv_0"]["kernel"].shape[2] == channels
    for batch in (1, 5):
        observation = jax.ShapeDtypeStruct((batch, 4, 6, channels), jnp.float32)
        output = jax.eval_shape(lambda x: apply_network(config, params, x), observation)
        assert output.policy_logits.shape == (batch, 24) and output.policy_logits.dtype == jnp.float32
        assert output.value.shape == (batch,) and output.value.dtype == jnp.float32
    loss = jax.grad(lambda p: apply_network(config, p, jnp.ones((2, 4, 6, channels))).value.sum())
    grads = jax.eval_shape(loss, params)
    assert {leaf.dtype for leaf in jax.tree.leaves(grads)} == {jnp.dtype("float32")}


def test_planes_stones_are_the_first_two_planes():
    game = Gomoku(5, 4, 3)
    np.testing.assert_array_equal(positions(game, 6, "stones"), positions(game, 6, "all")[..., :2])


@pytest.mark.parametrize("height, width", [(6, 6), (4, 9)])
@pytest.mark.parametrize("planes, inputs", [("all", 4), ("stones", 2)])
def test_conv_network_has_the_tutorials_layers(height, width, planes, inputs):
    points, filters, hidden = height * width, (32, 64, 128), 64
    config = NetworkConfig(kind="conv", planes=planes)
    params = shapes_of(config, Gomoku(height, width, 4))
    shapes = jax.tree.map(lambda x: x.shape, params)
    assert shapes == {
        "conv_0": {"kernel": (3, 3, inputs, 32), "bias": (32,)},
        "conv_1": {"kernel": (3, 3, 32, 64), "bias": (64,)},
        "conv_2": {"kernel": (3, 3, 64, 128), "bias": (128,)},
        "policy_conv": {"kernel": (128, 4), "bias": (4,)},
        "policy_dense": {"kernel": (4 * points, points), "bias": (points,)},
        "value_conv": {"kernel": (128, 2), "bias": (2,)},
        "value_hidden": {"kernel": (2 * points, hidden), "bias": (hidden,)},
        "value_dense": {"kernel": (hidden, 1), "bias": (1,)},
    }
    tower = sum(9 * i * o + o for i, o in zip((inputs, *filters), filters, strict=False))
    policy = (128 * 4 + 4) + (4 * points * points + points)
    value = (128 * 2 + 2) + (2 * points * hidden + hidden) + (hidden + 1)
    assert num_parameters(params) == tower + policy + value


def test_conv_network_computes_its_layers():
    """The whole forward pass once more in NumPy."""
    game = Gomoku(4, 5, 4)
    config = NetworkConfig(kind="conv", conv_channels=(3, 5), value_hidden=7)
    params = drawn(config, game)
    observation = positions(game, 3)
    output = apply(config, params, observation)

    def dense(name, x):
        return x @ np.float64(params[name]["kernel"]) + np.float64(params[name]["bias"])

    def relu(x):
        return np.maximum(x, 0)

    x = np.asarray(observation, np.float64)
    for name in ("conv_0", "conv_1"):
        x = relu(direct_convolution(x, np.asarray(params[name]["kernel"])) + np.float64(params[name]["bias"]))
    logits = dense("policy_dense", relu(dense("policy_conv", x)).reshape(3, -1))
    value = dense("value_dense", relu(dense("value_hidden", relu(dense("value_conv", x)).reshape(3, -1))))
    np.testing.assert_allclose(output.policy_logits, logits, atol=1e-5)
    np.testing.assert_allclose(output.value, np.tanh(value[:, 0]), atol=1e-5)
    assert logits.std() > 0.01 and value.std() > 0.001


def test_resnet_computes_its_layers():
    game = Gomoku(3, 5, 4)
    params = drawn(SMALL, game)
    observation = positions(game, 4)
    output = apply(SMALL, params, observation)

    def dense(name, x):
        bias = np.float64(params[name]["bias"]) if "bias" in params[name] else 0.0
        return x @ np.float64(params[name]["kernel"]) + bias

    def conv(name, x):
        return direct_convolution(x, np.asarray(params[name]["kernel"])) + np.float64(params[name]["bias"])

    def relu(x):
        return np.maximum(x, 0)

    def pool(x):
        return np.concatenate([x.mean((1, 2)), x.max((1, 2))], axis=-1)

    x = conv("stem", np.float64(observation))
    x = x + conv("block_0_conv_1", relu(conv("block_0_conv_0", relu(x))))
    y = conv("block_1_conv_0", relu(x))
    y = y + dense("block_1_pool", pool(relu(y)))[:, None, None]
    x = relu(x + conv("block_1_conv_1", relu(y)))
    policy = dense("policy_conv", x) + dense("policy_pool", pool(x))[:, None, None]
    logits = dense("policy_out", relu(policy)).reshape(4, -1)
    value = dense("value_dense", relu(dense("value_hidden", pool(x))))[:, 0]
    np.testing.assert_allclose(output.policy_logits, logits, atol=1e-4)
    np.testing.assert_allclose(output.value, np.tanh(value), atol=1e-5)
    assert logits.std() > 0.01 and value.std() > 0.001


def test_resnet_parameters_fit_any_board():
    params = drawn(SMALL, Gomoku(6, 6, 4))
    for height, width in ((9, 9), (5, 7)):
        game = Gomoku(height, width, 3)
        assert jax.tree.map(jnp.shape, shapes_of(SMALL, game)) == jax.tree.map(jnp.shape, params)
        output = apply(SMALL, params, positions(game, 2))
        assert output.policy_logits.shape == (2, height * width) and output.value.shape == (2,)
        assert bool(jnp.isfinite(output.policy_logits).all() & jnp.isfinite(output.value).all())
    # Its weights do depend on width and depth: stem, blocks of two convolutions with a pooled bias in
    # every second, and heads.
    c, v, blocks = 8, 16, 2
    tower = (9 * 4 * c + c) + blocks * 2 * (9 * c * c + c) + (blocks // 2) * (2 * c * c + c)
    heads = (c * c + c) + (2 * c * c + c) + c + (2 * c * v + v) + (v + 1)
    assert num_parameters(params) == tower + heads


def test_resnet_policy_follows_a_shifted_pattern():
    """Logits are laid out as actions, `row * W + col`: a stone's surroundings move with the stone."""
    params = drawn(SMALL, Gomoku(6, 6, 4))
    game = Gomoku(15, 17, 5)
    states = [replay_moves(game, [row * 17 + col]) for row, col in ((6, 6), (6, 7), (7, 6))]
    observation = observe(game, jax.tree.map(lambda *x: jnp.stack(x), *states))
    here, right, up = np.asarray(apply(SMALL, params, observation).policy_logits).reshape(3, 15, 17)
    # Five 3x3 convolutions see five points away; windows that stay clear of the edges.
    window = here[5:8, 5:8]
    np.testing.assert_allclose(right[5:8, 6:9], window, atol=1e-4)
    np.testing.assert_allclose(up[6:9, 5:8], window, atol=1e-4)
    assert np.abs(right[5:8, 5:8] - window).max() > 1e-2


@pytest.mark.parametrize("config", [SMALL, CONV], ids=["resnet", "conv"])
def test_logits_are_unmasked_and_values_in_range(config):
    game = Gomoku(4, 4, 3)
    state = replay_moves(game, [0, 5, 1])
    output = apply(config, drawn(config, game), observe(game, jax.tree.map(lambda x: x[None], state)))
    # Occupied points have ordinary logits: masking is the work of the search and the loss.
    assert float(jnp.abs(output.policy_logits).max()) < 10 and bool((output.policy_logits != 0).all())
    output = apply(config, drawn(config, game, scale=30), positions(game, 8))
    assert bool((jnp.abs(output.value) <= 1).all()) and float(jnp.abs(output.value).max()) > 0.9
    assert bool(jnp.isfinite(output.policy_logits).all())


@pytest.mark.parametrize("kind", ["resnet", "conv"])
def test_bfloat16_is_close_to_float32(kind):
    game = Gomoku(5, 5, 4)
    full = NetworkConfig(kind, channels=8, num_blocks=2, conv_channels=(8, 16), value_hidden=16)
    half = NetworkConfig(
        kind, channels=8, num_blocks=2, conv_channels=(8, 16), value_hidden=16, dtype="bfloat16"
    )
    params = drawn(full, game)
    exact, rounded = apply(full, params, positions(game, 8)), apply(half, params, positions(game, 8))
    difference = np.abs(np.asarray(exact.policy_logits - rounded.policy_logits))
    scale = float(jnp.abs(exact.policy_logits).max())
    assert 0 < difference.max() < 0.03 * scale  # eight bits of mantissa, some layers deep
    assert float(jnp.abs(exact.value - rounded.value).max()) < 0.03
    assert rounded.policy_logits.dtype == rounded.value.dtype == jnp.float32


def test_initial_policy_is_nearly_flat_and_keys_matter(fresh):
    params = fresh(0)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), params) == jax.tree.map(
        lambda x: (x.shape, x.dtype), shapes_of(TINY, Gomoku(6, 6, 4))
    )
    output = apply(TINY, params, positions(Gomoku(6, 6, 4), 4))
    probabilities = jax.nn.softmax(output.policy_logits)
    assert 1 / 36 < float(probabilities.max()) < 1.5 / 36
    assert 0 < float(jnp.abs(output.value).max()) < 0.2
    stems = [np.asarray(fresh(seed)["stem"]["kernel"]) for seed in (0, 1)]
    assert not np.array_equal(stems[0], stems[1])


@pytest.mark.parametrize("num_blocks, dtype", [(5, "float32"), (2, "bfloat16")])
def test_rematerialized_blocks_compute_the_same(num_blocks, dtype):
    game = Gomoku(4, 5, 4)
    plain = NetworkConfig(channels=8, num_blocks=num_blocks, value_hidden=8, dtype=dtype)
    again = dataclasses.replace(plain, remat=True)
    assert shapes_of(again, game) == shapes_of(plain, game)
    params, observations = drawn(plain, game), positions(game, 3)

    def loss(config, params):
        output = apply_network(config, params, observations)
        return jnp.square(output.policy_logits).mean() + output.value.mean(), output

    run = jax.jit(jax.grad(loss, argnums=1, has_aux=True), static_argnums=0)
    (grads, output), (grads_again, output_again) = run(plain, params), run(again, params)
    tolerance = 1e-5 if dtype == "float32" else 0.03
    for ours, theirs in zip(
        jax.tree.leaves((grads_again, output_again)), jax.tree.leaves((grads, output)), strict=True
    ):
        scale = float(jnp.abs(theirs).max())
        assert scale > 0
        np.testing.assert_allclose(ours, theirs, atol=tolerance * scale)


def test_rematerialized_parameters_start_alike(fresh):
    again = dataclasses.replace(TINY, remat=True)
    params = jax.jit(init_network, static_argnums=(0, 1))(again, Gomoku(6, 6, 4), jax.random.key(0))
    chex.assert_trees_all_equal(params, fresh(0))


def test_a_deep_network_learns_in_less_memory_rematerialized():
    game = Gomoku(6, 6, 4)
    plain = NetworkConfig(channels=8, num_blocks=8, value_hidden=8)
    observations = jnp.zeros((64, 6, 6, 4))

    def temporary_bytes(config):
        def loss(params):
            output = apply_network(config, params, observations)
            return output.policy_logits.mean() + output.value.mean()

        compiled = jax.jit(jax.grad(loss)).lower(shapes_of(config, game)).compile()
        analysis = compiled.memory_analysis()
        assert analysis is not None
        return analysis.temp_size_in_bytes

    assert temporary_bytes(dataclasses.replace(plain, remat=True)) < 0.7 * temporary_bytes(plain)


def test_networks_are_the_same_but_for_rematerialization():
    plain = NetworkConfig(channels=8)
    assert same_network(plain, dataclasses.replace(plain, remat=True))
    assert not same_network(plain, NetworkConfig(channels=16, remat=True))
    values = to_dict(plain)
    del values["remat"]  # as in files from before there was such a field
    assert from_dict(NetworkConfig, values) == plain
    with pytest.raises(ValueError, match=r"network\.remat = True: for the blocks of a resnet only"):
        NetworkConfig("conv", remat=True)


@pytest.mark.parametrize(
    "field, value",
    [
        ("kind", "transformer"),
        ("channels", 0),
        ("num_blocks", -1),
        ("num_blocks", 1.5),
        ("conv_channels", ()),
        ("conv_channels", (32, 0)),
        ("value_hidden", 0),
        ("planes", "some"),
        ("dtype", "float16"),
        ("remat", "yes"),
    ],
)
def test_a_bad_config_names_field_and_value(field, value):
    with pytest.raises(ValueError, match=rf"network\.{field}") as error:
        NetworkConfig(**{field: value})
    shown = 0 if value == (32, 0) else value
    assert repr(shown) in str(error.value)


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="channel"):
        NetworkConfig(channel=8)  # pyright: ignore[reportCallIssue]
