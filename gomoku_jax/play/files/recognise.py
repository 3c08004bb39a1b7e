"""Reads a game in any of the formats, and move strings."""

import re

from gomoku_jax.game import Gomoku, parse_action
from gomoku_jax.play.files.gamefile import (
    GameFile,
    GameFileError,
    Placed,
    check_moves,
    decode,
    outcome,
    position,
)
from gomoku_jax.play.files.psq import read_psq
from gomoku_jax.play.files.sgf import read_sgf

_POINT = re.compile(r"([a-zA-Z])\s*([1-9])\s*([0-9]?)", re.ASCII)
_SPACE = re.compile(r"[\s,]*")


def read_game(text: str | bytes, game: Gomoku | None = None) -> GameFile:
    """One game from an SGF file, a Piskvork `.psq` file or a move string.

    Args:
        text: the file's text or bytes.
        game: the board of a move string, 15x15x5 freestyle by default; and what another file does not tell,
            on a board of the same size.

    Raises:
        GameFileError: damaged, or moves that the rules do not allow; the message begins with line and column.
    """
    head, _ = decode(text)
    if re.match(r"\s*Piskvorky\b", head, re.IGNORECASE):
        return read_psq(text, game)
    if re.search(r"\(\s*;", head) or head.lstrip().startswith("("):
        return read_sgf(text, game)
    return read_moves(text, game)


def read_moves(text: str | bytes, game: Gomoku | None = None) -> GameFile:
    """A game from a move string such as `h8i9j10`; white space and commas are ignored.

    Raises:
        GameFileError: no move string, or moves that the rules do not allow.
    """
    text, warnings = decode(text)
    game = game or Gomoku()
    placed: list[Placed] = []
    offset = _next(text, 0)
    while offset < len(text):
        where = position(text, offset)
        match = _POINT.match(text, offset)
        if match is None:
            shown = text[offset : offset + 12].split("\n")[0]
            raise GameFileError(
                f"{shown!r} is neither a move such as h8, nor the start of an SGF or .psq file", *where
            )
        if len(placed) >= game.num_actions:
            raise GameFileError(f"more moves than the board has points, {game.num_actions}", *where)
        try:
            placed.append(Placed(parse_action(game, match[1] + match[2] + match[3]), *where))
        except ValueError as error:
            raise GameFileError(str(error), *where) from None
        offset = _next(text, match.end())
    result = outcome(check_moves(game, placed))
    moves = tuple(move.action for move in placed)
    return GameFile(game, moves, result=result, warnings=tuple(warnings), format="moves")


def _next(text: str, offset: int) -> int:
    """Where the next move can begin."""
    match = _SPACE.match(text, offset)
    return match.end() if match else offset
