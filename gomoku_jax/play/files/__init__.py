"""Game files: SGF, Piskvork `.psq`, move strings, opening files.

>>> from gomoku_jax.game import Gomoku, format_moves
>>> file = read_game("(;GM[4]SZ[15]RU[Standard]PB[Ann];B[hh];W[ig])")
>>> str(file.game), file.black, format_moves(file.game, file.moves)
('15x15, 5 in a row, exact', 'Ann', 'h8i9')
>>> read_game("(;GM[4]SZ[15];B[hh];W[hh])")
Traceback (most recent call last):
gomoku_jax.play.files.gamefile.GameFileError: line 1, column 23: move 2, 'h8': h8 is taken
"""

from gomoku_jax.play.files.gamefile import GameFile, GameFileError, outcome
from gomoku_jax.play.files.openings import OpeningFile, read_openings, write_openings
from gomoku_jax.play.files.psq import read_psq, write_psq
from gomoku_jax.play.files.recognise import read_game, read_moves
from gomoku_jax.play.files.sgf import read_sgf, write_sgf
from gomoku_jax.play.files.writing import FORMATS, file_format, save_file, write_game

__all__ = [
    "FORMATS",
    "GameFile",
    "GameFileError",
    "OpeningFile",
    "file_format",
    "outcome",
    "read_game",
    "read_moves",
    "read_openings",
    "read_psq",
    "read_sgf",
    "save_file",
    "write_game",
    "write_openings",
    "write_psq",
    "write_sgf",
]
