"""Results as JSON lines: the scripts' results files, and the command that a row tells."""

import json
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from gomoku_jax.play.opponents import ENGINE_PREFIX

Row = dict[str, Any]


def read_rows(path: pathlib.Path) -> list[Row]:
    """The rows of a file, none where there is no file; a line cut short is left out with a warning."""
    rows = []
    if not path.exists():
        return rows
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            if line.strip():
                print(f"warning: {path}, line {number}: cut short, left out", file=sys.stderr)
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def append_row(path: pathlib.Path, row: Row) -> None:
    """One more line, after a line cut short too."""
    text = path.read_text() if path.exists() else ""
    with path.open("a") as file:
        file.write(("\n" if text and not text.endswith("\n") else "") + json.dumps(row) + "\n")


def command_line(script: str, argv: Sequence[str]) -> str:
    """The command that repeats a row, without the folders of this machine: absolute paths lose theirs."""

    def shorten(word: str) -> str:
        path = word.removeprefix(ENGINE_PREFIX)
        parts = [pathlib.PurePath(p).name if p.startswith(("/", "~")) else p for p in path.split(" ")]
        return word[: len(word) - len(path)] + " ".join(parts)

    return shlex.join([script, *(shorten(word) for word in argv)])
