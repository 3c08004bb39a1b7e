"""Tree search: PUCT and Gumbel on mctx (its only importer), and pure MCTS with random playouts."""

from gomoku_jax.search.noise import add_root_noise, dirichlet_over_legal, draw_action, temper
from gomoku_jax.search.pure_mcts import pure_mcts
from gomoku_jax.search.tree_search import network_evaluator, search, search_with
from gomoku_jax.search.types import Evaluator, SearchOutput, mask_logits

__all__ = [
    "Evaluator",
    "SearchOutput",
    "add_root_noise",
    "dirichlet_over_legal",
    "draw_action",
    "mask_logits",
    "network_evaluator",
    "pure_mcts",
    "search",
    "search_with",
    "temper",
]
