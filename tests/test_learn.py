"""Loss, optimizers and schedules against their formulas in NumPy, and a small batch learned by heart."""

import functools
import itertools
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gomoku_jax import learn
from gomoku_jax.config import LearnConfig, NetworkConfig
from gomoku_jax.encode import legal_action_masks, observe
from gomoku_jax.game import Gomoku, replay_moves
from gomoku_jax.learn import Batch, TrainState
from gomoku_jax.network import NetworkOutput, apply_network, init_network

B, A, FEATURES = 6, 5, 4


def table_apply(params: Any, observation: jax.Array) -> NetworkOutput:
    """A network whose parameters are its answers, so that gradients by logits are gradients by parameters."""
    del observation
    return NetworkOutput(params["logits"], params["value"])


def linear_apply(params: Any, observation: jax.Array) -> NetworkOutput:
    x = observation.reshape(observation.shape[0], -1)
    return NetworkOutput(x @ params["policy"], jnp.tanh(x @ params["value"]))


def linear_params(seed: int = 0) -> dict[str, jax.Array]:
    rng = np.random.default_rng(seed)
    return {
        "policy": jnp.asarray(rng.normal(size=(FEATURES, A)), jnp.float32),
        "value": jnp.asarray(rng.normal(size=FEATURES), jnp.float32),
    }


def random_batch(seed: int = 0, one_hot: bool = False) -> Batch:
    """A batch with illegal actions, zeros among the targets, and different weights."""
    rng = np.random.default_rng(seed)
    legal = rng.random((B, A)) < 0.6
    legal[:, 2] = True
    target = rng.random((B, A)) * legal * (rng.random((B, A)) < 0.7)
    target[:, 2] += 0.1
    if one_hot:
        target = np.eye(A)[target.argmax(-1)]
    target /= target.sum(-1, keepdims=True)
    return Batch(
        observation=jnp.asarray(rng.normal(size=(B, 2, 2, 1)), jnp.float32),
        legal=jnp.asarray(legal),
        policy_target=jnp.asarray(target, jnp.float32),
        policy_weight=jnp.asarray([1, 0, 1, 0.5, 2, 0], jnp.float32),
        value_target=jnp.asarray(rng.choice([-1, 0, 1, 0.5], B), jnp.float32),
    )


def answers(seed: int = 0, scale: float = 2.0) -> dict[str, jax.Array]:
    rng = np.random.default_rng(seed)
    return {
        "logits": jnp.asarray(rng.normal(0, scale, (B, A)), jnp.float32),
        "value": jnp.asarray(rng.uniform(-1, 1, B), jnp.float32),
    }


def wide(x) -> np.ndarray:
    """float64, in which the formulas are worked out."""
    return np.asarray(x, np.float64)


def legal_softmax(logits: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Row by row, over the legal actions alone."""
    result = np.zeros(logits.shape)
    for row, mask, out in zip(np.asarray(logits, np.float64), np.asarray(legal), result, strict=True):
        powers = np.exp(row[mask] - row[mask].max())
        out[mask] = powers / powers.sum()
    return result


def numpy_loss(params, batch: Batch, config: LearnConfig) -> dict[str, float]:
    legal, target = np.asarray(batch.legal), wide(batch.policy_target)
    weight, goal = wide(batch.policy_weight), wide(batch.value_target)
    policy, value = legal_softmax(np.asarray(params["logits"]), legal), wide(params["value"])
    cross, entropy = [], []
    for p, t, mask in zip(policy, target, legal, strict=True):
        cross.append(-sum(t[a] * math.log(p[a]) for a in range(A) if mask[a] and t[a] > 0))
        entropy.append(-sum(p[a] * math.log(p[a]) for a in range(A) if mask[a]))
    policy_loss = sum(w * c for w, c in zip(weight, cross, strict=True)) / weight.sum()
    value_loss = np.mean((value - goal) ** 2)
    l2_loss = config.l2 * sum((wide(leaf) ** 2).sum() for leaf in params.values())
    numbers = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "l2_loss": l2_loss,
        "loss": policy_loss + config.value_loss_weight * value_loss + l2_loss,
        "entropy": np.mean(entropy),
        "explained_variance": 1 - np.var(goal - value) / np.var(goal),
    }
    return {name: float(x) for name, x in numbers.items()}


gradient = jax.jit(jax.grad(learn.loss_fn, has_aux=True), static_argnums=(2, 3))


def test_log_policy_is_the_log_softmax_over_legal_actions_and_0_elsewhere():
    batch, logits = random_batch(9), answers(9)["logits"]
    legal = np.asarray(batch.legal).copy()
    legal[4] = False  # no legal action at all: still no NaN, nor in the gradient
    policy = legal_softmax(np.asarray(logits)[:4], legal[:4])
    log_probs = np.asarray(learn.log_policy(logits, jnp.asarray(legal)))
    np.testing.assert_array_equal(log_probs[~legal], 0.0)
    np.testing.assert_allclose(np.exp(log_probs[:4])[legal[:4]], policy[legal[:4]], atol=1e-6)
    slope = jax.grad(lambda x: learn.log_policy(x, jnp.asarray(legal)).sum())(logits)
    assert bool(jnp.isfinite(slope).all())


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("l2, value_loss_weight", [(0.0, 1.0), (0.01, 0.25)])
def test_loss_and_gradient_by_formula(one_hot, l2, value_loss_weight):
    batch, params = random_batch(1, one_hot), answers(1)
    config = LearnConfig(l2=l2, value_loss_weight=value_loss_weight)
    grads, metrics = gradient(params, batch, table_apply, config)
    expected = numpy_loss(params, batch, config)
    assert {name: pytest.approx(value, abs=1e-5) for name, value in expected.items()} == {
        name: float(value) for name, value in metrics.items()
    }
    legal, weight = np.asarray(batch.legal), wide(batch.policy_weight)
    by_logits = legal_softmax(np.asarray(params["logits"]), legal) - wide(batch.policy_target)
    by_logits *= (weight / weight.sum())[:, None] * legal
    by_value = value_loss_weight * 2 * wide(params["value"] - batch.value_target) / B
    np.testing.assert_allclose(grads["logits"], by_logits + 2 * l2 * params["logits"], atol=1e-6)
    np.testing.assert_allclose(grads["value"], by_value + 2 * l2 * params["value"], atol=1e-6)


def test_illegal_logits_and_positions_without_weight_get_no_policy_gradient():
    batch, config = random_batch(2), LearnConfig(l2=0.0)
    grads, _ = gradient(answers(2), batch, table_apply, config)
    by_logits, legal = np.asarray(grads["logits"]), np.asarray(batch.legal)
    weightless = np.asarray(batch.policy_weight) == 0
    assert (~legal).sum() > 3
    np.testing.assert_array_equal(by_logits[~legal], 0.0)
    np.testing.assert_array_equal(by_logits[weightless], 0.0)
    assert (np.abs(by_logits[~weightless]).sum(-1) > 0).all()
    assert (np.asarray(grads["value"]) != 0).all(), "a position without a policy target still has an outcome"
    # What stands on an illegal point changes nothing at all.
    moved = answers(2)
    moved["logits"] = jnp.where(batch.legal, moved["logits"], 1e4)
    again, _ = gradient(moved, batch, table_apply, config)
    chex.assert_trees_all_equal(again, grads)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_one_hot_targets_stay_finite(scale):
    """0 * log 0: with logits this far apart all but one probability is exactly 0."""
    batch = random_batch(3, one_hot=True)
    grads, metrics = gradient(answers(3, scale), batch, table_apply, LearnConfig())
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((grads, metrics)))


def test_a_batch_without_policy_targets_is_finite():
    batch = random_batch(4)._replace(policy_weight=jnp.zeros(B))
    grads, metrics = gradient(answers(4), batch, table_apply, LearnConfig(l2=0.0))
    assert float(metrics["policy_loss"]) == 0.0
    np.testing.assert_array_equal(grads["logits"], np.zeros((B, A)))
    same = batch._replace(value_target=jnp.ones(B))  # no variance to explain
    _, metrics = gradient(answers(4), same, table_apply, LearnConfig())
    assert math.isfinite(metrics["explained_variance"])


def test_policy_kl_by_formula():
    batch = random_batch(5)
    old, new = answers(5)["logits"], answers(6)["logits"]
    p, q = (legal_softmax(np.asarray(x), np.asarray(batch.legal)) for x in (old, new))
    expected = sum(p[i] * math.log(p[i] / q[i]) for i in np.ndindex(B, A) if batch.legal[i]) / B
    kl = float(learn.policy_kl(old, new, batch.legal))
    assert kl == pytest.approx(expected, abs=1e-5) and kl > 0.1
    assert float(learn.policy_kl(old, old, batch.legal)) == 0.0
    shifted = jnp.where(batch.legal, old + 7.0, -50.0)  # the same policy over legal actions
    assert float(learn.policy_kl(old, shifted, batch.legal)) == pytest.approx(0.0, abs=1e-5)


# Optimizers.


def steps(
    config: LearnConfig, batches: list[Batch], scale: float = 1.0, total_updates: int = 1000
) -> tuple[list[TrainState], list[learn.Metrics]]:
    """The states before and after each update of the linear network, and each update's metrics."""
    optimizer = learn.make_optimizer(config, total_updates)
    step = jax.jit(
        functools.partial(learn.train_step, apply_fn=linear_apply, optimizer=optimizer, config=config)
    )
    state = learn.init_train_state(linear_params(), optimizer)
    states, metrics = [state.replace(learning_rate_scale=jnp.float32(scale))], []
    for batch in batches:
        state, numbers = step(states[-1], batch, jax.random.key(0))
        states.append(state)
        metrics.append(numbers)
    return states, metrics


def gradient_at(params, batch: Batch, config: LearnConfig) -> np.ndarray:
    grads, _ = gradient(params, batch, linear_apply, config)
    return flat(grads)


def flat(params) -> np.ndarray:
    return np.concatenate([wide(params["policy"]).ravel(), wide(params["value"])])


def numpy_updates(config: LearnConfig, states: list[TrainState], batches: list[Batch], scale: float):
    """The parameters after each update by the optimizers' published formulas."""
    x = flat(states[0].params)
    first, second = np.zeros_like(x), np.zeros_like(x)
    for t, (state, batch) in enumerate(zip(states, batches, strict=False), start=1):
        g = gradient_at(state.params, batch, config)
        norm = np.linalg.norm(g)
        if config.max_grad_norm > 0 and norm > config.max_grad_norm:
            g = g * config.max_grad_norm / norm
        if config.optimizer == "sgd":  # Nesterov's momentum
            first = config.momentum * first + g
            step = g + config.momentum * first
        else:
            first = 0.9 * first + 0.1 * g
            second = 0.999 * second + 0.001 * g * g
            step = (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
            if config.optimizer == "adamw":
                step = step + config.weight_decay * x
        x = x - scale * config.learning_rate * step
        yield x


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("max_grad_norm", [0.0, 0.3])
def test_optimizers_by_formula(optimizer, max_grad_norm):
    config = LearnConfig(
        optimizer,
        learning_rate=0.05,
        schedule="constant",
        weight_decay=0.1,
        momentum=0.8,
        max_grad_norm=max_grad_norm,
        l2=1e-3,
    )
    batches = [random_batch(seed) for seed in range(4)]
    scale = 0.5
    states, metrics = steps(config, batches, scale)
    for after, expected in zip(states[1:], numpy_updates(config, states, batches, scale), strict=True):
        np.testing.assert_allclose(flat(after.params), expected, atol=2e-6)
    norms = [np.linalg.norm(gradient_at(s.params, b, config)) for s, b in zip(states, batches, strict=False)]
    np.testing.assert_allclose([float(m["grad_norm"]) for m in metrics], norms, rtol=1e-4)
    assert min(norms) > 0.3, "the bound must bind"
    moved = [np.linalg.norm(flat(b.params) - flat(a.params)) for a, b in itertools.pairwise(states)]
    np.testing.assert_allclose([float(m["update_norm"]) for m in metrics], moved, rtol=1e-3)
    assert [int(state.step) for state in states] == [0, 1, 2, 3, 4]


def test_accumulated_batches_are_one_step_of_the_mean_gradient():
    config = LearnConfig(
        "sgd",
        learning_rate=0.1,
        schedule="constant",
        momentum=0.0,
        max_grad_norm=0.0,
        accumulation_steps=3,
        l2=1e-3,
    )
    batches = [random_batch(seed) for seed in range(6)]
    states, _ = steps(config, batches)
    points = [flat(state.params) for state in states]
    for i in (0, 1, 3, 4):
        np.testing.assert_array_equal(points[i + 1], points[i])
    for start in (0, 3):
        grads = [gradient_at(states[start].params, batch, config) for batch in batches[start : start + 3]]
        expected = points[start] - 0.1 * np.mean(grads, axis=0)
        np.testing.assert_allclose(points[start + 3], expected, atol=1e-6)
        assert np.abs(points[start + 3] - points[start]).max() > 1e-3


def rate_of(config: LearnConfig, total_updates: int):
    schedule: Any = learn.learning_rate_schedule(config, total_updates)
    return lambda step: float(schedule(step))


@pytest.mark.parametrize("accumulation", [1, 4])
def test_warmup_cosine_by_formula(accumulation):
    config = LearnConfig(
        learning_rate=0.4,
        schedule="warmup_cosine",
        warmup_updates=20,
        final_learning_rate_fraction=0.1,
        accumulation_steps=accumulation,
    )
    rate = rate_of(config, 120)
    warmup, total = 20 // accumulation, 120 // accumulation
    for t in range(total + 5):
        if t < warmup:
            expected = 0.4 * t / warmup
        else:
            done = min((t - warmup) / (total - warmup), 1.0)
            expected = 0.04 + (0.4 - 0.04) * 0.5 * (1 + math.cos(math.pi * done))
        assert rate(t) == pytest.approx(expected, rel=1e-5, abs=1e-8), t
    assert rate(warmup) == pytest.approx(0.4) and rate(total) == pytest.approx(0.04)


@pytest.mark.parametrize("total_updates", [1, 2, 5])
def test_runs_shorter_than_their_warmup_have_finite_rates(total_updates):
    config = LearnConfig(schedule="warmup_cosine", warmup_updates=100, learning_rate=0.4)
    rate = rate_of(config, total_updates)
    rates = [rate(t) for t in range(total_updates + 1)]
    assert all(0 <= r < 0.4001 for r in rates) and max(rates) > 0


def test_the_schedule_sets_the_size_of_the_steps():
    config = LearnConfig(
        "sgd", 0.4, "warmup_cosine", warmup_updates=2, momentum=0.0, max_grad_norm=0.0, l2=0.0
    )
    batches = [random_batch(0)] * 4
    states, metrics = steps(config, batches, total_updates=6)
    rate = rate_of(config, 6)
    sizes = [float(m["update_norm"] / m["grad_norm"]) for m in metrics]
    assert sizes == pytest.approx([rate(t) for t in range(4)], rel=1e-4)
    np.testing.assert_array_equal(flat(states[1].params), flat(states[0].params))  # grows from 0


@pytest.mark.parametrize("ema_decay", [0.0, 0.15, 0.9])
def test_average_of_parameters_by_formula(ema_decay):
    config = LearnConfig("sgd", 0.5, "constant", momentum=0.0, ema_decay=ema_decay)
    states, _ = steps(config, [random_batch(seed) for seed in range(4)])
    average = flat(states[0].params)
    for t, state in enumerate(states[1:]):
        decay = min(ema_decay, (1 + t) / (10 + t))
        average = decay * average + (1 - decay) * flat(state.params)
        np.testing.assert_allclose(flat(state.ema_params), average, atol=1e-6)
    same = np.array_equal(flat(states[-1].ema_params), flat(states[-1].params))
    assert same == (ema_decay == 0.0)


# An iteration's updates.


def test_adaptive_rate_by_formula():
    target = 0.02
    adapt = jax.jit(learn.adapt_learning_rate, static_argnums=2)
    for scale, kl, expected in [
        (1.0, 0.041, 1 / 1.5),
        (1.0, 0.039, 1.0),
        (1.0, 0.011, 1.0),
        (1.0, 0.009, 1.5),
        (3.0, 0.0, 4.5),
        (8.0, 0.0, 10.0),
        (10.0, 0.0, 10.0),
        (0.12, 1.0, 0.1),
        (0.1, 1e9, 0.1),
        (10.0, 1e9, 10 / 1.5),
    ]:
        assert float(adapt(jnp.float32(scale), jnp.float32(kl), target)) == pytest.approx(expected, rel=1e-6)


def run(config: LearnConfig, batch: Batch, scale: float = 1.0) -> tuple[TrainState, learn.Metrics]:
    """One iteration on one batch, whatever the key."""
    optimizer = learn.make_optimizer(config, 1000)
    state = learn.init_train_state(linear_params(), optimizer)
    state = state.replace(learning_rate_scale=jnp.float32(scale))
    update = functools.partial(
        learn.run_updates,
        apply_fn=linear_apply,
        optimizer=optimizer,
        config=config,
        draw_batch=lambda _: batch,
    )
    return jax.jit(lambda state, key: update(state, key=key))(state, jax.random.key(1))


def kl_between(old, new, batch: Batch) -> float:
    logits = [linear_apply(params, batch.observation).policy_logits for params in (old, new)]
    return float(learn.policy_kl(logits[0], logits[1], batch.legal))


def test_updates_stop_when_the_policy_has_moved_too_far():
    batch = random_batch(7)
    config = LearnConfig(
        "sgd", 0.05, "kl_adaptive", momentum=0.0, kl_target=0.02, updates_per_iteration=12, l2=0.0
    )
    fast = 8.0
    state, metrics = run(config, batch, fast)
    states, _ = steps(config, [batch] * 12, fast)
    kls = [kl_between(states[0].params, s.params, batch) for s in states[1:]]
    made = int(metrics["updates"])
    assert 1 < made < 12
    assert all(kl <= 4 * 0.02 for kl in kls[: made - 1]) and kls[made - 1] > 4 * 0.02
    np.testing.assert_allclose(flat(state.params), flat(states[made].params), atol=1e-6)
    assert float(metrics["kl"]) == pytest.approx(kls[made - 1], abs=1e-5)
    assert int(state.step) == made
    assert float(state.learning_rate_scale) == pytest.approx(fast / 1.5)
    # Means are over the updates that were made, not the skipped ones.
    losses = [numpy_linear_loss(s.params, batch, config) for s in states[:made]]
    assert float(metrics["loss"]) == pytest.approx(np.mean(losses), rel=1e-4)


def numpy_linear_loss(params, batch: Batch, config: LearnConfig) -> float:
    output = linear_apply(params, batch.observation)
    table = {"logits": np.asarray(output.policy_logits), "value": np.asarray(output.value)}
    return numpy_loss(table, batch, config)["loss"]


def test_adaptive_updates_all_run_and_the_rate_grows_when_the_policy_stands_still():
    config = LearnConfig("sgd", 1e-4, "kl_adaptive", updates_per_iteration=5, l2=0.0)
    batch = random_batch(7)
    state, metrics = run(config, batch)
    assert float(metrics["updates"]) == 5 and int(state.step) == 5
    assert float(state.learning_rate_scale) == pytest.approx(1.5) == float(metrics["learning_rate_scale"])
    assert 0 < float(metrics["kl"]) < 0.01


def test_updates_are_the_single_steps_in_a_row():
    config = LearnConfig("adam", 0.03, "constant", updates_per_iteration=5)
    batch = random_batch(8)
    state, metrics = run(config, batch)
    states, numbers = steps(config, [batch] * 5)
    chex.assert_trees_all_close(state, states[-1], atol=1e-6)
    for name in numbers[0]:
        mean = np.mean([float(step[name]) for step in numbers])
        assert float(metrics[name]) == pytest.approx(mean, rel=1e-4, abs=1e-6), name
    kl = kl_between(states[0].params, states[-1].params, batch)
    assert float(metrics["kl"]) == pytest.approx(kl, rel=1e-3) and kl > 0
    assert float(metrics["updates"]) == 5 and float(metrics["learning_rate_scale"]) == 1.0


def test_each_update_draws_a_batch_of_its_own():
    config = LearnConfig("sgd", 0.1, "constant", momentum=0.0, updates_per_iteration=4)
    optimizer = learn.make_optimizer(config, 1000)
    state = learn.init_train_state(linear_params(), optimizer)
    template = random_batch(0)

    def outcome(seed):
        drawn = []

        def draw_batch(key):
            observation = jax.random.normal(key, template.observation.shape)
            jax.debug.callback(lambda x: drawn.append(float(x)), observation[0, 0, 0, 0])
            return template._replace(observation=observation)

        after, _ = learn.run_updates(
            state, draw_batch, jax.random.key(seed), apply_fn=linear_apply, optimizer=optimizer, config=config
        )
        jax.effects_barrier()
        return flat(after.params), drawn

    (first, drawn), (again, _), (other, _) = outcome(0), outcome(0), outcome(1)
    assert len(set(drawn)) == 5  # one of them to measure the KL on
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# Purity, compilation, donation.


def test_train_step_is_pure_and_compiles_once():
    config = LearnConfig("adam", 0.1, "constant", ema_decay=0.9)
    optimizer = learn.make_optimizer(config, 10)
    traces = []

    def counted(state, batch, key):
        traces.append(batch)
        return learn.train_step(state, batch, key, apply_fn=linear_apply, optimizer=optimizer, config=config)

    step = jax.jit(counted)
    state = learn.init_train_state(linear_params(), optimizer)
    before = jax.tree.map(np.array, state)
    first, metrics = step(state, random_batch(0), jax.random.key(0))
    again, same = step(state, random_batch(0), jax.random.key(1))  # these networks have no randomness
    chex.assert_trees_all_equal((first, metrics), (again, same))
    chex.assert_trees_all_equal(jax.tree.map(np.array, state), before)
    # And the states it gives are of the types it takes: the second and third compile nothing.
    third, _ = step(step(first, random_batch(1), jax.random.key(2))[0], random_batch(2), jax.random.key(3))
    assert len(traces) == 1
    chex.assert_trees_all_equal_shapes_and_dtypes(third, state)
    assert all(not x.weak_type for x in jax.tree.leaves(third))


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_a_donated_state_cannot_be_used_again(ema_decay):
    config = LearnConfig("sgd", 0.1, "constant", ema_decay=ema_decay)
    optimizer = learn.make_optimizer(config, 10)
    step = jax.jit(
        functools.partial(learn.train_step, apply_fn=linear_apply, optimizer=optimizer, config=config),
        donate_argnums=0,
    )
    batch = random_batch(0)
    old = learn.init_train_state(linear_params(), optimizer)
    state = old
    for _ in range(3):  # no buffer may be held twice, or donating it raises
        state, _ = step(state, batch, jax.random.key(0))
    assert int(state.step) == 3
    with pytest.raises(RuntimeError, match="deleted"):
        _ = old.params["policy"] + 1


# Learning.


def test_a_small_batch_is_learned_by_heart():
    """300 updates of the residual network on 8 positions: the policy within 0.02 nats of its targets, the
    value explained to 99 %.
    """
    game = Gomoku(4, 4, 3)
    network = NetworkConfig(channels=8, num_blocks=1, value_hidden=8)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(16)[: 2 + i % 3].tolist() for i in range(8)]
    states = jax.tree.map(lambda *x: jnp.stack(x), *[replay_moves(game, order) for order in orders])
    legal = np.asarray(legal_action_masks(game, states))
    target = rng.dirichlet(np.full(16, 0.2), 8) * legal
    target /= target.sum(-1, keepdims=True)
    batch = Batch(
        observation=observe(game, states),
        legal=jnp.asarray(legal),
        policy_target=jnp.asarray(target, jnp.float32),
        policy_weight=jnp.ones(8),
        value_target=jnp.asarray([1, -1, 0, 1, -1, 0.5, -0.5, 1], jnp.float32),
    )
    config = LearnConfig("adam", 1e-2, "warmup_cosine", warmup_updates=10, updates_per_iteration=300, l2=0.0)
    optimizer = learn.make_optimizer(config, 300)
    apply_fn = functools.partial(apply_network, network)

    @jax.jit
    def learned(key):
        init_key, update_key = jax.random.split(key)
        state = learn.init_train_state(init_network(network, game, init_key), optimizer)
        state, _ = learn.run_updates(
            state, lambda _: batch, update_key, apply_fn=apply_fn, optimizer=optimizer, config=config
        )
        return learn.loss_fn(state.params, batch, apply_fn, config)[1]

    metrics = learned(jax.random.key(0))
    entropy = -np.sum(target * np.log(np.where(target > 0, target, 1)), axis=-1).mean()
    assert 0 <= float(metrics["policy_loss"]) - entropy < 0.02
    assert float(metrics["explained_variance"]) > 0.99


def test_runs_that_a_clock_ends_warm_up_and_leave_the_rest_to_the_clock():
    config = LearnConfig(learning_rate=0.4, warmup_updates=10, final_learning_rate_fraction=0.1)
    schedule: Any = learn.learning_rate_schedule(config, None)
    assert [float(schedule(step)) for step in (0, 5, 10, 99)] == pytest.approx([0.0, 0.2, 0.4, 0.4])
    # Half a cosine from 1 to the fraction: a quarter of the way at a third, half of it in the middle.
    shares = [learn.cosine_scale(config, share) for share in (-1.0, 0.0, 1 / 3, 0.5, 1.0, 7.0)]
    assert shares == pytest.approx([1.0, 1.0, 0.775, 0.55, 0.1, 0.1])
