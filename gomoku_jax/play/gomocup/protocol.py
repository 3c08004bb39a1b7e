"""The Gomocup (Piskvork) protocol: what lines mean, and how answers are written.

Source: https://plastovicka.github.io/protocl2en.htm and, for SWAP2BOARD, https://gomocup.org/detail-information/.
Coordinates are `x,y` from 0; x is the column, and y counts from the top, as Piskvork draws its boards: y 0 is
the highest row, which has the largest row number here.
"""

import dataclasses
import re

from gomoku_jax.play.gomocup.board import STONES_IN_A_ROW

MIN_SIDE, MAX_SIDE = 3, 26
RULES = {0: "freestyle", 1: "exact", 4: "renju", 8: "caro_overline", 9: "caro"}
_RULE_BITS = {1: "exactly five", 2: "continuous game", 4: "renju", 8: "caro"}
_RULE_WORDS = "0 is freestyle, 1 exactly five, 4 renju, 8 caro with overlines, 9 caro"
_LONGEST_ECHO = 60

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_POINT = re.compile(r"([+-]?[0-9]{1,6})\s*,\s*([+-]?[0-9]{1,6})", re.ASCII)
_STONE = re.compile(r"([+-]?[0-9]{1,6})\s*,\s*([+-]?[0-9]{1,6})\s*,\s*([0-9]{1,6})", re.ASCII)


class CommandError(Exception):
    """What cannot be done; the text follows ERROR."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A board.

    Attributes:
        width: columns.
        height: rows.
    """

    width: int
    height: int

    def __post_init__(self):
        for name, side in (("width", self.width), ("height", self.height)):
            if not MIN_SIDE <= side <= MAX_SIDE:
                raise CommandError(f"{name} {side}: boards have {MIN_SIDE} to {MAX_SIDE} points a side")
        if max(self.width, self.height) < STONES_IN_A_ROW:
            raise CommandError(f"board {self.width}x{self.height}: no room for {STONES_IN_A_ROW} in a row")


def split(line: str) -> tuple[str, str]:
    """The command in upper case and the rest of the line."""
    word, _, rest = line.strip().partition(" ")
    return word.upper(), rest.strip()


def parse_number(text: str) -> int | None:
    """A whole number; None for anything else."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else None


def parse_start(text: str) -> Size:
    """The argument of START."""
    side = parse_number(text)
    if side is None:
        raise CommandError(f"START takes a board's side, such as START 15, not {echo(text)}")
    return Size(side, side)


def parse_rectstart(text: str) -> Size:
    """The arguments of RECTSTART: the width comes first."""
    match = _POINT.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"RECTSTART takes WIDTH,HEIGHT, such as RECTSTART 20,15, not {echo(text)}")
    return Size(int(match[1]), int(match[2]))


def parse_point(text: str) -> tuple[int, int]:
    """`x,y`."""
    match = _POINT.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{echo(text)} is no point: write x,y, such as 7,7")
    return int(match[1]), int(match[2])


def parse_stone(text: str) -> tuple[int, int, int | None]:
    """A line of BOARD, `x,y,field`, or of SWAP2BOARD, which has no field."""
    match = _STONE.fullmatch(text.strip())
    if match is not None:
        return int(match[1]), int(match[2]), int(match[3])
    return *parse_point(text), None


def rule_name(code: int) -> str:
    """The rule of INFO's bits.

    Raises:
        CommandError: one that is not played here.
    """
    if code in RULES:
        return RULES[code]
    names = [name for bit, name in _RULE_BITS.items() if code > 0 and code & bit]
    what = f" ({', '.join(names)})" if names else ""
    raise CommandError(f"rule {code}{what} is not played here: {_RULE_WORDS}")


def echo(text: str) -> str:
    """A text in quotes, short enough and printable, for a message."""
    shown = text.strip()[:_LONGEST_ECHO].encode("ascii", "backslashreplace").decode()
    return repr(shown)


def about(version: str) -> str:
    """The answer to ABOUT."""
    return (
        f'name="gomoku_jax", version="{version}", author="the gomoku_jax contributors", '
        'country="", www="", email=""'
    )
