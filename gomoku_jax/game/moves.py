"""Playing moves on the host, with errors where jitted code can only mask."""

import functools
import operator
from collections.abc import Iterable

import jax
import numpy as np

from gomoku_jax.config import OPENING_DISTANCE
from gomoku_jax.game import renju
from gomoku_jax.game.notation import format_action, parse_action, split_moves
from gomoku_jax.game.rules import Gomoku
from gomoku_jax.game.state import State


class IllegalMoveError(ValueError):
    """A move that the rules do not allow; the message names the move and the reason."""


class ForbiddenMoveError(IllegalMoveError):
    """A move on an empty point that renju forbids to Black."""


@functools.partial(jax.jit, static_argnums=0)
def _step(game: Gomoku, state: State, action: jax.Array) -> State:
    return game.step(state, action)


_ARTICLES = {"double-three": "a", "double-four": "a", "overline": "an"}
_foul = jax.jit(renju.foul)


@functools.partial(jax.jit, static_argnums=0)
def _legal(game: Gomoku, state: State) -> jax.Array:
    return game.legal_action_mask(state)


def legal_actions(game: Gomoku, state: State) -> list[int]:
    """The actions that may be played in one game, on the host; empty once it is over."""
    return [int(action) for action in np.flatnonzero(_legal(game, state))]


def play_move(game: Gomoku, state: State, move: int | str, number: int | None = None) -> State:
    """One move by action or name, checked.

    Args:
        game: the rules.
        state: one game.
        move: an action in 0..A-1 or a point's name such as "h8".
        number: of the move in its game, for the message.

    Raises:
        IllegalMoveError: off the board, on a stone, forbidden under renju, not where the opening has the
            stone, or after the game's end.
    """
    label = f"move {move!r}" if number is None else f"move {number}, {move!r}"
    if isinstance(move, str):
        try:
            action = parse_action(game, move)
        except ValueError as error:
            raise IllegalMoveError(f"{label}: {error}") from None
    else:
        try:
            action = operator.index(move)
        except TypeError:
            raise IllegalMoveError(f"{label}: neither an action nor a point's name") from None
    if not 0 <= action < game.num_actions:
        raise IllegalMoveError(f"{label}: not on the board, actions are 0 to {game.num_actions - 1}")
    if bool(state.terminated):
        raise IllegalMoveError(f"{label}: the game has ended")
    if int(np.asarray(state.board).reshape(-1)[action]) != 0:
        raise IllegalMoveError(f"{label}: {format_action(game, action)} is taken")
    after = _step(game, state, np.int32(action))
    if int(after.move_count) == int(state.move_count):
        if not bool(game.opening_mask(state)[action]):
            raise IllegalMoveError(f"{label}: {format_action(game, action)}: {_opening_rule(game, state)}")
        kind = renju.FOULS[int(_foul(state.board, np.int32(action))) - 1]
        raise ForbiddenMoveError(
            f"{label}: {format_action(game, action)} is forbidden, {_ARTICLES[kind]} {kind}"
        )
    return after


def _opening_rule(game: Gomoku, state: State) -> str:
    """What the opening asks of the next stone."""
    name = f"the {game.opening.replace('_', ' ')} opening"
    if int(state.move_count) == 0:
        points = [format_action(game, int(action)) for action in np.flatnonzero(game.opening_mask(state))]
        return f"{name} begins in the centre, at {' or '.join(points)}"
    away = OPENING_DISTANCE[game.opening]
    first = format_action(game, int(np.argmax(np.asarray(state.board) > 0)))
    return f"{name} has Black's second stone at least {away} points away from {first}, in row or column"


def replay_moves(game: Gomoku, actions: str | Iterable[int | str]) -> State:
    """The state after the moves, from the empty board.

    Args:
        game: the rules.
        actions: a move string such as "h8i9j10", or a list of actions or of points' names.

    Raises:
        IllegalMoveError: names the first illegal move and the reason.

    >>> int(replay_moves(Gomoku(15, 15, 5), "h8i9j10").move_count)
    3
    """
    if isinstance(actions, str):
        try:
            actions = split_moves(actions)
        except ValueError as error:
            raise IllegalMoveError(str(error)) from None
    state = game.init()
    for number, move in enumerate(actions, 1):
        state = play_move(game, state, move, number)
    return state
