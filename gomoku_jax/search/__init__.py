"""Tree search: PUCT and Gumbel on mctx (its only importer), and pure MCTS with random playouts."""

from gomoku_jax.search.anytime import ResumableSearch, anytime_search, prepare_params
from gomoku_jax.search.noise import add_root_noise, dirichlet_over_legal, draw_action, temper
from gomoku_jax.search.pure_mcts import playout_tree, pure_mcts
from gomoku_jax.search.tree import SearchTree, to_mctx
from gomoku_jax.search.tree_search import (
    advance_tree,
    init_tree,
    network_evaluator,
    run_simulations,
    search,
    search_output,
    search_with,
    summarize,
)
from gomoku_jax.search.types import Evaluator, SearchOutput, SearchSummary, mask_logits

__all__ = [
    "Evaluator",
    "ResumableSearch",
    "SearchOutput",
    "SearchSummary",
    "SearchTree",
    "add_root_noise",
    "advance_tree",
    "anytime_search",
    "dirichlet_over_legal",
    "draw_action",
    "init_tree",
    "mask_logits",
    "network_evaluator",
    "playout_tree",
    "prepare_params",
    "pure_mcts",
    "run_simulations",
    "search",
    "search_output",
    "search_with",
    "summarize",
    "temper",
    "to_mctx",
]
