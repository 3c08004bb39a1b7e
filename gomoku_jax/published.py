"""Reads the networks that junxiaosong/AlphaZero_Gomoku publishes, as agents: fixed opponents anyone can get.

https://github.com/junxiaosong/AlphaZero_Gomoku (MIT) keeps them as `best_policy_ROWS_COLUMNS_K.model`: a
pickle, written by Python 2, of 16 float32 arrays. The files are not part of this package.
"""

import io
import pathlib
import pickle
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.agent import Agent, AgentError
from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.game import Gomoku
from gomoku_jax.network import init_network

# As its authors play it: PUCT with c = 5 that does not grow, 400 playouts, the most visited move.
_SEARCH = SearchConfig(
    "puct", num_simulations=400, c_puct=5.0, c_puct_base=1e12, dirichlet_fraction=0.0, temperature=0.0
)
_CONV_CHANNELS = (32, 64, 128)
_VALUE_HIDDEN = 64


def _empty_array(*_: Any) -> np.ndarray:
    return np.ndarray.__new__(np.ndarray, (0,), "b")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
}


class _ArrayUnpickler(pickle.Unpickler):
    """A pickle can run code: this one builds NumPy arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not an array")
        return _ALLOWED[module, name]


def load_published(path: str | pathlib.Path, game: Gomoku | None = None) -> Agent:
    """The published network in a file, with the search its authors play it with.

    Args:
        path: the file.
        game: what it was trained on; by default from its name, `best_policy_ROWS_COLUMNS_K.model`.

    Raises:
        AgentError: the file does not read, holds something else, or is of another board.
    """
    path = pathlib.Path(path)
    if game is None:
        match = re.search(r"_(\d+)_(\d+)_(\d+)\.", path.name)
        if match is None:
            raise AgentError(f"{path}: the name does not tell the board, as best_policy_6_6_4.model does")
        try:
            game = Gomoku(int(match[1]), int(match[2]), int(match[3]))
        except ValueError as error:
            raise AgentError(f"{path}: {error}") from None
    try:
        arrays = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        arrays = [np.asarray(array, np.float32) for array in arrays]
    except Exception as error:  # a damaged pickle raises whatever it likes
        raise AgentError(f"{path} does not read as a published network: {error}") from error
    network = NetworkConfig("conv", conv_channels=_CONV_CHANNELS, value_hidden=_VALUE_HIDDEN, dtype="float32")
    if [array.shape for array in arrays] != _shapes(game):
        raise AgentError(f"{path} does not hold a published network for {game}")
    params = jax.tree.map(jnp.asarray, _convert(game, arrays))
    expected = jax.eval_shape(lambda: init_network(network, game, jax.random.key(0)))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(lambda x: x.shape, expected)
    return Agent(game, network, params, _SEARCH, {"source": path.name}, str(path))


def _shapes(game: Gomoku) -> list[tuple[int, ...]]:
    """What a file holds, in order."""
    points, shapes = game.num_actions, []
    for before, after in zip((4, *_CONV_CHANNELS), _CONV_CHANNELS, strict=False):
        shapes += [(after, before, 3, 3), (after,)]
    shapes += [(4, _CONV_CHANNELS[-1], 1, 1), (4,), (4 * points, points), (points,)]
    shapes += [(2, _CONV_CHANNELS[-1], 1, 1), (2,), (2 * points, _VALUE_HIDDEN), (_VALUE_HIDDEN,)]
    return [*shapes, (_VALUE_HIDDEN, 1), (1,)]


def _convert(game: Gomoku, arrays: list[np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Their arrays as our parameters.

    Theirs are true convolutions, over planes whose rows are reversed: kernels turned by 180 degrees, then
    mirrored top to bottom, which is mirrored left to right. Dense layers read channels before rows.
    """
    height, width = game.shape

    def dense(kernel: np.ndarray, bias: np.ndarray, channels: int) -> dict[str, np.ndarray]:
        kernel = kernel.reshape(channels, height, width, -1)[:, ::-1].transpose(1, 2, 0, 3)
        return {"kernel": kernel.reshape(height * width * channels, -1), "bias": bias}

    def pointwise(kernel: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
        return {"kernel": kernel[:, :, 0, 0].T, "bias": bias}

    params = {
        f"conv_{i}": {"kernel": arrays[2 * i][..., ::-1].transpose(2, 3, 1, 0), "bias": arrays[2 * i + 1]}
        for i in range(3)
    }
    return params | {
        "policy_conv": pointwise(arrays[6], arrays[7]),
        "policy_dense": dense(arrays[8], arrays[9], 4),
        "value_conv": pointwise(arrays[10], arrays[11]),
        "value_hidden": dense(arrays[12], arrays[13], 2),
        "value_dense": {"kernel": arrays[14], "bias": arrays[15]},
    }
