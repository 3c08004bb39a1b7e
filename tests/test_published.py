"""The reader of published networks, on files made here: a NumPy forward pass in their own conventions."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import gomoku_jax as gj
from gomoku_jax.agent import AgentError, parse_player
from gomoku_jax.published import load_published


def arrays_for(height: int, width: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    points = height * width
    shapes = [(32, 4, 3, 3), (32,), (64, 32, 3, 3), (64,), (128, 64, 3, 3), (128,)]
    shapes += [(4, 128, 1, 1), (4,), (4 * points, points), (points,)]
    shapes += [(2, 128, 1, 1), (2,), (2 * points, 64), (64,), (64, 1), (1,)]
    return [rng.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]


def true_convolution(planes: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """[C, H, W] and [D, C, 3, 3] → [D, H, W]: the kernel is turned, as the mathematical convolution does."""
    _, height, width = planes.shape
    padded = np.pad(planes, ((0, 0), (1, 1), (1, 1)))
    out = np.zeros((len(kernel), height, width))
    for row in range(height):
        for col in range(width):
            window = padded[:, row : row + 3, col : col + 3][:, ::-1, ::-1]
            out[:, row, col] = (kernel * window[None]).sum((1, 2, 3)) + bias
    return out


def their_forward(arrays: list[np.ndarray], board: np.ndarray, to_play: int, last: int):
    """Policy probabilities and value as the authors' program computes them."""
    height, width = board.shape
    planes = np.zeros((4, height, width))
    planes[0], planes[1] = board == to_play, board == -to_play
    if last >= 0:
        planes[2].ravel()[last] = 1
    planes[3] = to_play == 1
    x = planes[:, ::-1]
    for i in range(3):
        x = np.maximum(true_convolution(x, arrays[2 * i], arrays[2 * i + 1]), 0)
    policy = np.maximum(np.einsum("chw,dc->dhw", x, arrays[6][:, :, 0, 0]) + arrays[7][:, None, None], 0)
    logits = policy.ravel() @ arrays[8] + arrays[9]
    value = np.maximum(np.einsum("chw,dc->dhw", x, arrays[10][:, :, 0, 0]) + arrays[11][:, None, None], 0)
    hidden = np.maximum(value.ravel() @ arrays[12] + arrays[13], 0)
    powers = np.exp(logits - logits.max())
    return powers / powers.sum(), np.tanh(hidden @ arrays[14] + arrays[15])[0]


@pytest.mark.parametrize("shape, name", [((6, 6), "best_policy_6_6_4.model"), ((4, 5), "net_4_5_3.model")])
def test_the_network_is_theirs(tmp_path, shape, name):
    arrays = arrays_for(*shape, seed=1)
    path = tmp_path / name
    path.write_bytes(pickle.dumps(arrays, protocol=2))
    agent = load_published(path)
    assert (agent.game.shape, agent.game.k) == (shape, int(name.split("_")[-1][0]))
    rng = np.random.default_rng(2)
    state = agent.game.init()
    for _ in range(4):
        output = gj.apply_network(agent.network, agent.params, agent.game.observe(state)[None])
        policy, value = their_forward(
            arrays, np.asarray(state.board), int(state.to_play), int(state.last_action)
        )
        logits = np.asarray(output.policy_logits[0], np.float64)
        powers = np.exp(logits - logits.max())
        np.testing.assert_allclose(powers / powers.sum(), policy, atol=1e-5)
        assert float(output.value[0]) == pytest.approx(value, abs=1e-5)
        empty = np.flatnonzero(np.asarray(state.board).ravel() == 0)
        state = agent.game.step(state, jnp.int32(rng.choice(empty)))
    assert (agent.search.c_puct, agent.search.num_simulations) == (5.0, 400)
    spec = parse_player(f"{path}@7")
    assert spec.agent is not None and spec.name.endswith("@7")


class Evil:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_what_is_no_published_network_is_refused(tmp_path, capsys):
    def refused(name: str, content: bytes, reason: str):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(AgentError, match=reason) as caught:
            load_published(path)
        assert name in str(caught.value)

    good = pickle.dumps(arrays_for(6, 6, 0), protocol=2)
    refused("run_6_6_4.model", pickle.dumps(Evil()), "does not read")
    assert "must not run" not in capsys.readouterr().out
    refused("half_6_6_4.model", good[: len(good) // 2], "does not read")
    refused("text_6_6_4.model", b"hello", "does not read")
    refused("other_8_8_5.model", good, "does not hold a published network for 8x8")
    refused("noname.model", good, "does not tell the board")
    refused("best_policy_6_6_9.model", good, "k = 9")
    with pytest.raises(AgentError, match="missing_6_6_4"):
        load_published(tmp_path / "missing_6_6_4.model")
