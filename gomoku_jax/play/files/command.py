"""Converts game files: SGF, Piskvork .psq, move strings. What comes in is recognised by itself.

Try:
  gomoku-jax convert game.sgf game.psq
  gomoku-jax convert game.psq game.sgf --force
  gomoku-jax convert game.sgf - --to txt           the move string on standard output
  echo c3d4c4 | gomoku-jax convert - game.sgf --board 6x6x4
"""

import dataclasses
import sys
from typing import Annotated, Literal

import tyro

from gomoku_jax.config import Rule
from gomoku_jax.game import parse_board
from gomoku_jax.play.files import GameFile, GameFileError, file_format, read_game, save_file, write_game


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The command line."""

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="IN")]
    """The file to read; - is standard input."""
    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="OUT")]
    """The file to write, its format told by .sgf, .psq or .txt (a move string); - is standard output."""
    to: Literal["sgf", "psq", "txt"] | None = None
    """The format to write; needed for standard output."""
    board: str | None = None
    """ROWSxCOLUMNSxK of a move string, and of a file that does not tell; by default 15x15x5."""
    rule: Rule | None = None
    """The rule where the file does not tell; by default freestyle."""
    force: bool = False
    """Replace a file that is there."""


def lost(file: GameFile, kind: str) -> str:
    """What a format has no place for, of what a file holds; empty where nothing is lost."""
    parts = []
    if kind == "txt":
        parts = ["board and rule"] + ["names"] * bool(file.black or file.white)
    if kind != "sgf":
        parts += ["setup"] * bool(file.num_setup) + ["comment"] * bool(file.comment)
    return ", ".join(parts)


def convert(arguments: Arguments) -> None:
    """Reads and writes; raises ValueError or OSError where that cannot be."""
    if arguments.to is None and arguments.target == "-":
        raise ValueError("for standard output, give the format: --to sgf, --to psq or --to txt")
    kind = arguments.to or file_format(arguments.target)
    game = None
    if arguments.board is not None or arguments.rule is not None:
        game = parse_board(arguments.board or "15x15x5", arguments.rule or "freestyle")
    if arguments.source == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(arguments.source, "rb") as source:
            data = source.read()
    if not data.strip():
        raise ValueError(f"{arguments.source}: the file is empty")
    try:
        file = read_game(data, game)
    except GameFileError as error:
        raise ValueError(f"{arguments.source}: {error}") from None
    warnings = list(file.warnings)
    if missing := lost(file, kind):
        warnings.append(f"a .{kind} file has no place for: {missing}")
    text = write_game(
        kind, file.game, file.moves, file.black, file.white, file.result, file.num_setup, file.comment
    )
    if arguments.target == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))  # as the file says of itself
        sys.stdout.buffer.flush()
    else:
        try:
            save_file(arguments.target, text, replace=arguments.force)
        except FileExistsError:
            raise ValueError(f"{arguments.target} is there: give another name, or --force") from None
    for warning in warnings:
        print(f"warning: {arguments.source}: {warning}", file=sys.stderr)
    if arguments.target != "-":
        print(f"{arguments.target}: {_count(len(file.moves))} on {file.game}", file=sys.stderr)


def _count(moves: int) -> str:
    return "1 move" if moves == 1 else f"{moves} moves"


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    arguments = tyro.cli(Arguments, args=argv, description=__doc__, prog="gomoku-jax convert")
    try:
        convert(arguments)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
