"""The rules: state, step, win, legality, geometry tables, notation, pictures."""

from gomoku_jax.game.drawing import ascii_board, svg
from gomoku_jax.game.moves import ForbiddenMoveError, IllegalMoveError, legal_actions, play_move, replay_moves
from gomoku_jax.game.notation import (
    format_action,
    format_moves,
    parse_action,
    parse_board,
    parse_moves,
    to_sgf,
)
from gomoku_jax.game.playout import playout_winner, random_actions, random_opening, random_order
from gomoku_jax.game.rules import NUM_PLANES, Gomoku
from gomoku_jax.game.state import BLACK, NO_ACTION, WHITE, State

__all__ = [
    "BLACK",
    "NO_ACTION",
    "NUM_PLANES",
    "WHITE",
    "ForbiddenMoveError",
    "Gomoku",
    "IllegalMoveError",
    "State",
    "ascii_board",
    "format_action",
    "format_moves",
    "legal_actions",
    "parse_action",
    "parse_board",
    "parse_moves",
    "play_move",
    "playout_winner",
    "random_actions",
    "random_opening",
    "random_order",
    "replay_moves",
    "svg",
    "to_sgf",
]
