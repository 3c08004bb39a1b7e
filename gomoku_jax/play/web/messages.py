"""What the page may ask, checked field by field: a text frame becomes a request, or an error to reply."""

import dataclasses
import json
from typing import Any

from gomoku_jax.config import OPENINGS, RULES
from gomoku_jax.game import Gomoku
from gomoku_jax.openings import NUM_ADDED, NUM_STONES, SWAPS, check_swap

MAX_FRAME = 64 * 1024  # bytes of a request
MAX_TEXT = 60_000  # characters of a game file
MAX_NAME = 200  # characters of a player's name
MAX_AGENT = 4096  # of an agent's, which may be the path that the server was started with
MAX_SECONDS = 60.0
MAX_PLAYOUTS = 1000
MAX_ID = 2**53  # JavaScript's exact integers
SIDES = (3, 26)
FORMATS = ("sgf", "psq", "moves")


class MessageError(Exception):
    """A request that is refused.

    Attributes:
        code: what kind of fault, for the page.
        message: a sentence for people.
        id: of the request, where it has a good one.
    """

    def __init__(self, code: str, message: str, id: int | None = None):
        super().__init__(message)
        self.code, self.message, self.id = code, message, id

    def reply(self) -> dict[str, Any]:
        """The frame that tells it."""
        return {"type": "error", "id": self.id, "code": self.code, "message": self.message}


@dataclasses.dataclass(frozen=True)
class Position:
    """Asks for the rules' view of a position."""

    id: int
    game: Gomoku
    moves: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Search:
    """Asks for a search of a position, up to some simulations, some seconds, or what the server allows."""

    id: int
    agent: str
    game: Gomoku
    moves: tuple[int, ...]
    simulations: int | None
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class Stop:
    """Asks to stop the search that runs."""

    id: int


@dataclasses.dataclass(frozen=True)
class Compare:
    """Asks for the network's view of a position and that of random playouts."""

    id: int
    agent: str
    game: Gomoku
    moves: tuple[int, ...]
    playouts: int


@dataclasses.dataclass(frozen=True)
class Values:
    """Asks for the network's value after each move of a game."""

    id: int
    agent: str
    game: Gomoku
    moves: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Opening:
    """Asks for an agent's part in swap or swap2: it places the first stones, or chooses after 3 or 5 of them.

    The simulations are those of the search of one position, the seconds of all that it searches.
    """

    id: int
    agent: str
    game: Gomoku
    moves: tuple[int, ...]
    swap: str
    simulations: int | None
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class Parse:
    """Asks to read a game file; `game` is the board where the text does not tell."""

    id: int
    text: str
    game: Gomoku | None


@dataclasses.dataclass(frozen=True)
class Export:
    """Asks for a game as a file."""

    id: int
    format: str
    game: Gomoku
    moves: tuple[int, ...]
    black: str
    white: str


Request = Position | Search | Stop | Compare | Values | Opening | Parse | Export


def decode(text: str, max_simulations: int) -> Request:
    """The request in a text frame. Unknown fields are ignored.

    Args:
        text: the frame.
        max_simulations: of a search.

    Raises:
        MessageError: what is wrong, with the value and what is allowed.
    """
    if len(text) > MAX_FRAME or len(text.encode("utf-8", "surrogatepass")) > MAX_FRAME:
        raise MessageError("too_much", f"a request of {len(text)} characters: at most {MAX_FRAME} bytes")
    try:
        message = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise MessageError("bad_message", "JSON nested too deeply") from None
    except ValueError as error:
        raise MessageError("bad_message", f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise MessageError("bad_message", f"a request is a JSON object, not {_shown(message)}")
    fields = _Fields(message)
    fields.id = fields.integer("id", 0, MAX_ID)
    try:
        return _request(fields, fields.id, max_simulations)
    except MessageError as error:
        error.id = fields.id
        raise


def _request(fields: "_Fields", id: int, max_simulations: int) -> Request:
    kind = fields.choice("type", _TYPES)
    if kind == "stop":
        return Stop(id)
    if kind == "parse":
        return Parse(id, fields.text("text", MAX_TEXT), fields.game() if fields.has("game") else None)
    game = fields.game()
    moves = fields.moves(game)
    if kind == "position":
        return Position(id, game, moves)
    if kind == "export":
        names = (fields.text(name, MAX_NAME) if fields.has(name) else "" for name in ("black", "white"))
        return Export(id, fields.choice("format", FORMATS), game, moves, *names)
    agent = fields.text("agent", MAX_AGENT)
    if kind == "values":
        return Values(id, agent, game, moves)
    if kind == "compare":
        playouts = fields.integer("playouts", 1, MAX_PLAYOUTS) if fields.has("playouts") else 100
        return Compare(id, agent, game, moves, playouts)
    simulations = fields.integer("simulations", 0, max_simulations) if fields.has("simulations") else None
    seconds = fields.seconds("seconds") if fields.has("seconds") else None
    if kind == "opening":
        swap = _swap(fields, game, len(moves))
        return Opening(id, agent, game, moves, swap, simulations, seconds)
    return Search(id, agent, game, moves, simulations, seconds)


def _swap(fields: "_Fields", game: Gomoku, num_stones: int) -> str:
    """The kind of opening, which must have something to decide after so many stones."""
    swap = fields.choice("swap", SWAPS)
    try:
        check_swap(swap, game)
    except ValueError as error:
        raise MessageError("bad_game", str(error)) from None
    decided = (0, NUM_STONES) if swap == "swap" else (0, NUM_STONES, NUM_STONES + NUM_ADDED)
    if num_stones not in decided:
        allowed = f"{', '.join(map(str, decided[:-1]))} or {decided[-1]}"
        raise MessageError("bad_message", f"{num_stones} moves: an agent is asked after {allowed} in {swap}")
    return swap


_TYPES = ("position", "search", "stop", "compare", "values", "opening", "parse", "export")


class _Fields:
    """A message's fields by type, with errors that name them."""

    def __init__(self, message: dict[str, Any]):
        self._message = message
        self.id: int | None = None

    def has(self, name: str) -> bool:
        """There, and not null."""
        return self._message.get(name) is not None

    def integer(self, name: str, least: int, most: int) -> int:
        value = self._value(name)
        allowed = f"an integer from {least} to {most}"
        if type(value) is not int or value < least:
            raise self._error(name, allowed)
        if value > most:
            raise MessageError("bad_message" if name == "id" else "too_much", self._text(name, allowed))
        return value

    def seconds(self, name: str) -> float:
        value = self._value(name)
        if type(value) not in (int, float) or not value > 0:
            raise self._error(name, f"more than 0, and at most {MAX_SECONDS:g}")
        if value > MAX_SECONDS:
            raise MessageError("too_much", self._text(name, f"at most {MAX_SECONDS:g}"))
        return float(value)

    def text(self, name: str, most: int) -> str:
        value = self._value(name)
        if type(value) is not str:
            raise self._error(name, "a text")
        if len(value) > most:
            raise MessageError("too_much", f"{name} has {len(value)} characters: at most {most}")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self._value(name)
        if type(value) is not str or value not in choices:
            raise self._error(name, f"one of {', '.join(choices)}")
        return value

    def game(self) -> Gomoku:
        value = self._value("game")
        if type(value) is not dict:
            raise MessageError("bad_game", self._text("game", "an object with height, width, k and rule"))
        board = _Fields(value)
        try:
            height = board.integer("height", *SIDES)
            width = board.integer("width", *SIDES)
            k = board.integer("k", 3, max(height, width))
            rule = board.choice("rule", RULES)
            opening = board.choice("opening", OPENINGS) if board.has("opening") else "free"
            return Gomoku(height, width, k, rule, opening=opening)  # type: ignore[arg-type]
        except MessageError as error:
            raise MessageError("bad_game", f"game: {error.message}") from None
        except ValueError as error:
            raise MessageError("bad_game", str(error)) from None

    def moves(self, game: Gomoku) -> tuple[int, ...]:
        """Actions on the board; whether they are legal in their order is for the rules."""
        value = self._value("moves")
        if type(value) is not list:
            raise self._error("moves", "a list of actions")
        if len(value) > game.num_actions:
            raise MessageError("too_much", f"{len(value)} moves: the board has {game.num_actions} points")
        for number, move in enumerate(value, 1):
            if type(move) is not int:
                raise MessageError("bad_message", f"move {number} is {_shown(move)}: an action is an integer")
            if not 0 <= move < game.num_actions:
                raise MessageError(
                    "illegal_move",
                    f"move {number}, {_shown(move)}: not on the board, "
                    f"actions are 0 to {game.num_actions - 1}",
                )
        return tuple(value)

    def _value(self, name: str) -> Any:
        if name not in self._message:
            raise MessageError("bad_message", f"{name} is missing")
        return self._message[name]

    def _text(self, name: str, allowed: str) -> str:
        return f"{name} = {_shown(self._message.get(name))}: {allowed}"

    def _error(self, name: str, allowed: str) -> MessageError:
        return MessageError("bad_message", self._text(name, allowed))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _shown(value: Any) -> str:
    """A value in a message, not longer than a line."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "something deeply nested"
    return text if len(text) <= 60 else text[:57] + "..."
