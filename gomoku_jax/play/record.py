"""A game on the host, as people play it: moves, taken back and played again."""

from collections.abc import Iterable

import numpy as np

from gomoku_jax.game import Gomoku, State, format_moves, legal_actions, play_move


class GameRecord:
    """The moves of one game and the states between them.

    Args:
        game: the rules.
        moves: actions or points' names, or a move string's points, already played.

    Raises:
        IllegalMoveError: names the first illegal move and the reason.
    """

    def __init__(self, game: Gomoku, moves: Iterable[int | str] = ()):
        self.game = game
        self.moves: list[int] = []
        self._states: list[State] = [game.init()]
        self._undone: list[int] = []
        for move in moves:
            self.play(move)

    def __len__(self) -> int:
        return len(self.moves)

    @property
    def state(self) -> State:
        """The position now."""
        return self._states[-1]

    @property
    def states(self) -> list[State]:
        """The positions after 0, 1, ... moves, up to now."""
        return list(self._states)

    @property
    def to_play(self) -> int:
        """+1 black, -1 white: who moves next."""
        return int(self.state.to_play)

    @property
    def over(self) -> bool:
        """Somebody won, the board is full, or renju left black no move."""
        return bool(self.state.terminated)

    @property
    def winner(self) -> int:
        """+1 black, -1 white; 0 for a draw and while the game goes on."""
        return int(self.state.winner)

    @property
    def can_undo(self) -> int:
        """How many moves can be taken back."""
        return len(self.moves)

    @property
    def can_redo(self) -> int:
        """How many moves taken back can be played again."""
        return len(self._undone)

    @property
    def winning_points(self) -> list[int]:
        """Actions of the stones that won; empty otherwise."""
        line = np.asarray(self.game.winning_line(self.state)).reshape(-1)
        return [int(action) for action in np.nonzero(line)[0]]

    @property
    def legal_actions(self) -> list[int]:
        """Actions that may be played; empty once the game is over."""
        return legal_actions(self.game, self.state)

    def play(self, move: int | str) -> int:
        """Plays a move, and gives its action. Another move than the one taken back forgets what followed.

        Raises:
            IllegalMoveError: off the board, on a stone, forbidden, or after the game's end; nothing changes.
        """
        state = play_move(self.game, self.state, move, len(self.moves) + 1)
        action = int(state.last_action)
        self.moves.append(action)
        self._states.append(state)
        if self._undone and self._undone[-1] == action:
            self._undone.pop()
        else:
            self._undone.clear()
        return action

    def undo(self, count: int = 1) -> int:
        """Takes back up to `count` moves; gives how many."""
        count = max(0, min(count, self.can_undo))
        for _ in range(count):
            self._undone.append(self.moves.pop())
            self._states.pop()
        return count

    def redo(self, count: int = 1) -> int:
        """Plays up to `count` moves again; gives how many."""
        count = max(0, min(count, self.can_redo))
        for _ in range(count):
            self.play(self._undone[-1])
        return count

    def __str__(self) -> str:
        """The move string, such as `h8i9j10`."""
        return format_moves(self.game, self.moves)
