"""Answers that need no search: what the rules, the network, random playouts and game files say."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gomoku_jax.game import Gomoku, IllegalMoveError, State
from gomoku_jax.openings import Opener, SwapOpening
from gomoku_jax.play.files import GameFileError, outcome, read_game, write_game
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.thinking import Analysis, NetworkView, RolloutView, Thinker, rollout_view
from gomoku_jax.play.web.messages import MAX_SECONDS, Export, MessageError, Opening, Parse

_DIGITS = 5


def replay(game: Gomoku, moves: tuple[int, ...]) -> GameRecord:
    """The game so far. Raises MessageError at an illegal move."""
    try:
        return GameRecord(game, moves)
    except IllegalMoveError as error:
        raise MessageError("illegal_move", str(error)) from None


def replay_unfinished(game: Gomoku, moves: tuple[int, ...]) -> GameRecord:
    """The game so far, which must go on. Raises MessageError."""
    record = replay(game, moves)
    if record.over:
        raise MessageError(
            "illegal_move", f"the game ended with move {len(moves)}: there is no move to look for"
        )
    return record


def begun_opening(request: Opening) -> SwapOpening:
    """How far an opening has come. Raises MessageError where its stones are illegal, or end the game."""
    opening = SwapOpening(request.game, request.swap)
    try:
        for stone in request.moves:
            if not opening.missing:
                opening.choose("add")
            opening.place(stone)
    except IllegalMoveError as error:
        raise MessageError("illegal_move", str(error)) from None
    return opening


def warm_up_rules(game: Gomoku) -> None:
    """Compiles what positions of a board need."""
    record = GameRecord(game)
    record.play(record.legal_actions[0])
    _ = record.winning_points, record.legal_actions


def warm_up_rollouts(game: Gomoku) -> None:
    """Compiles what random playouts on a board need."""
    rollout_view(game, game.init(), 1)


def position(game: Gomoku, moves: tuple[int, ...]) -> dict[str, Any]:
    """What the rules say of a position."""
    record = replay(game, moves)
    legal = np.zeros(game.num_actions, bool)
    legal[record.legal_actions] = True
    return {
        "type": "position",
        "to_play": record.to_play,
        "over": record.over,
        "winner": record.winner,
        "winning_points": record.winning_points if record.winner else [],
        "move_string": str(record),
        "legal": legal.tolist(),
    }


def values(thinker: Thinker, record: GameRecord) -> dict[str, Any]:
    """The network's value after each move, from black's view."""
    return {"type": "values", "values": _floats(thinker.game_values(record.states))}


def comparison(network: NetworkView, rollouts: RolloutView) -> dict[str, Any]:
    """The network's view beside the playouts', from the view of the side to move."""
    return {
        "type": "comparison",
        "to_play": network.to_play,
        "network": {
            "value": _float(network.value),
            "prior": _floats(network.prior),
            "move_values": _floats(network.move_values),
        },
        "rollouts": {
            "value": _float(rollouts.value),
            "playouts": rollouts.playouts,
            "move_values": _floats(rollouts.move_values),
        },
    }


class Rollouts:
    """Random playouts after every move of a position, in portions of about a tenth of a second."""

    def __init__(self, game: Gomoku, state: State, playouts: int, interval: Callable[[], float]):
        self._game, self._state, self._playouts, self._interval = game, state, playouts, interval
        self._done, self._portion, self._seconds = 0, 1, 0.0
        self._total = np.zeros(game.num_actions)

    @property
    def finished(self) -> bool:
        """All are played, or their time is over."""
        return self._done >= self._playouts or self._seconds >= MAX_SECONDS

    def step(self) -> None:
        """Plays some more."""
        count = min(self._portion, self._playouts - self._done)
        started = time.monotonic()
        view = rollout_view(self._game, self._state, count, seed=self._done)
        took = time.monotonic() - started
        self._total += count * view.move_values
        self._done += count
        self._seconds += took
        pace = count / max(took, 1e-6)
        self._portion = max(1, min(int(pace * self._interval()), 4 * count))

    def view(self) -> RolloutView:
        """What they have said so far; at least one portion must have been played."""
        means = self._total / self._done
        value = float(np.nanmean(means)) if np.isfinite(means).any() else 0.0
        return RolloutView(int(self._state.to_play), value, self._done, means)


def parsed(request: Parse) -> dict[str, Any]:
    """A game file's game. Raises MessageError with the line and the column of what is wrong."""
    try:
        file = read_game(request.text, request.game)
    except GameFileError as error:
        raise MessageError("bad_text", str(error)) from None
    except RecursionError:
        raise MessageError("bad_text", "the text is nested too deeply") from None
    return {
        "type": "parsed",
        "format": file.format,
        "game": file.game.facts(),
        "moves": list(file.moves),
        "black": file.black,
        "white": file.white,
        "warnings": list(file.warnings),
    }


def exported(request: Export) -> dict[str, Any]:
    """A game as a file's text."""
    result = outcome(replay(request.game, request.moves).state)
    suffix = "txt" if request.format == "moves" else request.format
    try:
        text = write_game(suffix, request.game, request.moves, request.black, request.white, result)
    except ValueError as error:
        raise MessageError("bad_text", str(error)) from None
    return {"type": "exported", "text": text, "filename": f"game.{suffix}"}


def opened(opening: SwapOpening, opener: Opener) -> dict[str, Any]:
    """What an agent does in an opening; the value is from White's view."""
    if opening.missing:
        return {"type": "opened", "kind": "place", "moves": list(opener.propose()), "value": None}
    choice = opener.choose(tuple(opening.stones), "add" in opening.choices)
    value = None if choice.value is None else _float(choice.value)
    return {"type": "opened", "kind": choice.kind, "moves": list(choice.stones), "value": value}


def analysis_frame(analysis: Analysis) -> dict[str, Any]:
    """A search so far."""
    visited = analysis.visits > 0
    return {
        "type": "analysis",
        "done": False,
        "simulations": analysis.num_simulations,
        "seconds": round(analysis.seconds, 3),
        "to_play": analysis.to_play,
        "action": analysis.action,
        "value": _float(analysis.value),
        "raw_value": _float(analysis.raw_value),
        "visits": analysis.visits.tolist(),
        "prior": _floats(analysis.prior),
        "q": _floats(np.where(visited, analysis.q, np.nan)),
        "candidates": [
            {
                "action": candidate.action,
                "visits": candidate.visits,
                "prior": _float(candidate.prior),
                "q": _float(candidate.q) if candidate.visits else None,
                "line": list(candidate.line),
            }
            for candidate in analysis.candidates
        ],
    }


def _float(value: float) -> float | None:
    """Rounded for the wire; None for what is no number."""
    return round(float(value), _DIGITS) if np.isfinite(value) else None


def _floats(values: np.ndarray) -> list[float | None]:
    return [_float(value) for value in values.tolist()]
