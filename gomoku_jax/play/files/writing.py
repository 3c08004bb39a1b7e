"""Writes a game in any of the formats, and files that replace no other unasked."""

import os
import pathlib
from collections.abc import Sequence

from gomoku_jax.game import Gomoku, format_moves
from gomoku_jax.play.files.psq import write_psq
from gomoku_jax.play.files.sgf import write_sgf

FORMATS = ("sgf", "psq", "txt")  # names of the formats, and the endings of files


def file_format(path: str | pathlib.Path) -> str:
    """The format that a file's ending means. Raises ValueError for any other ending."""
    ending = pathlib.Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        allowed = ", ".join(f".{name}" for name in FORMATS)
        raise ValueError(f"file {str(path)!r}: its ending tells the format, one of {allowed}")
    return ending


def write_game(
    kind: str,
    game: Gomoku,
    moves: Sequence[int],
    black: str = "",
    white: str = "",
    result: str = "",
    num_setup: int = 0,
    comment: str = "",
) -> str:
    """One game as text: SGF, Piskvork's `.psq`, or a move string, which holds the moves only.

    Raises:
        ValueError: no such format, or a game that it cannot hold.
    """
    if kind == "txt":
        return format_moves(game, moves) + "\n"
    writers = {"sgf": write_sgf, "psq": write_psq}
    if kind not in writers:
        raise ValueError(f"format {kind!r}: choose one of {', '.join(FORMATS)}")
    return writers[kind](game, moves, black, white, result, num_setup, comment)


def save_file(path: str | pathlib.Path, text: str, replace: bool = False) -> None:
    """Writes a file in UTF-8, whole or not at all.

    Raises:
        FileExistsError: there is one, and `replace` is False.
        OSError: it cannot be written.
    """
    path = pathlib.Path(path)
    data = text.encode("utf-8", "replace")
    if not replace:
        with path.open("xb") as file:
            file.write(data)
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
