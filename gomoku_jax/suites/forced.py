"""Exact short forced wins, in plain Python: which moves win with so many stones against every defence?

Only moves that can matter are tried, but every one of them: the answers are those of a search of all moves.

* A side wins at once where k - 1 of its stones and one empty point fill a line.
* After a move that leaves the other side no such point, two of them win, since one reply cannot take both.
* With one of them the reply is forced. With none, the move must threaten: were the other side to pass, there
  would be a win left. Replies that neither touch that win nor make a four then change nothing.

So it is with up to three own moves. With more, only wins by moves that threaten to win in two are found.
Words as for five in a row: a "four" lacks one stone of a line, whatever k is.
"""

from collections.abc import Iterable

from gomoku_jax.game import Gomoku
from gomoku_jax.game.tables import line_end_table, line_table


class ForcedWins:
    """A board with stones to put and take, and the forced wins on it.

    Args:
        game: the board and rule, freestyle or exact.
        stones: (action, colour) of the stones on it.

    Raises:
        ValueError: another rule.
    """

    def __init__(self, game: Gomoku, stones: Iterable[tuple[int, int]] = ()):
        if game.rule not in ("freestyle", "exact"):
            raise ValueError(f"rule = {game.rule!r}: forced wins are proved here under freestyle and exact")
        self.game = game
        self.cells = [0] * game.num_actions
        self._lines: list[list[int]] = line_table(game.height, game.width, game.k).tolist()
        self._ends: list[list[int]] = line_end_table(game.height, game.width, game.k).tolist()
        self._through: list[list[int]] = [[] for _ in self.cells]
        for i, line in enumerate(self._lines):
            for cell in line:
                self._through[cell].append(i)
        self._counts = {color: [0] * len(self._lines) for color in (1, -1)}
        # Lines without a stone of the other colour, by how many of the own; those of fewer than k - 3 are
        # never asked for.
        self._fewest = max(game.k - 3, 0)
        self._alive: dict[int, list[set[int]]] = {
            color: [set() for _ in range(game.k + 1)] for color in (1, -1)
        }
        if self._fewest == 0:
            for alive in self._alive.values():
                alive[0].update(range(len(self._lines)))
        self._words = {1: 0, -1: 0}  # the stones as bits
        self._known: dict[tuple[int, int, int, int], bool] = {}
        for action, color in stones:
            self.place(action, color)

    def place(self, action: int, color: int) -> None:
        """Puts a stone on an empty point."""
        own, other = self._counts[color], self._counts[-color]
        alive, dead, fewest = self._alive[color], self._alive[-color], self._fewest
        self.cells[action] = color
        self._words[color] ^= 1 << action
        for i in self._through[action]:
            count, others = own[i], other[i]
            own[i] = count + 1
            if not others and count + 1 >= fewest:
                alive[count].discard(i)
                alive[count + 1].add(i)
            if not count and others >= fewest:
                dead[others].discard(i)

    def remove(self, action: int) -> None:
        """Takes a stone away again."""
        color = self.cells[action]
        own, other = self._counts[color], self._counts[-color]
        alive, dead, fewest = self._alive[color], self._alive[-color], self._fewest
        self.cells[action] = 0
        self._words[color] ^= 1 << action
        for i in self._through[action]:
            count, others = own[i] - 1, other[i]
            own[i] = count
            if not others and count + 1 >= fewest:
                alive[count + 1].discard(i)
                if count >= fewest:
                    alive[count].add(i)
            if not count and others >= fewest:
                dead[others].add(i)

    @property
    def empty(self) -> list[int]:
        """The empty points."""
        return [action for action, color in enumerate(self.cells) if not color]

    def has_line(self, color: int) -> bool:
        """Are there k stones or more in a row?"""
        return bool(self._alive[color][self.game.k])

    def winning_points(self, color: int) -> set[int]:
        """Where one more stone of this colour wins."""
        cells, points = self.cells, set()
        for i in self._alive[color][self.game.k - 1]:
            if self.game.rule == "exact" and any(
                end < len(cells) and cells[end] == color for end in self._ends[i]
            ):
                continue
            points.update(cell for cell in self._lines[i] if not cells[cell])
        return points

    def four_moves(self, color: int) -> set[int]:
        """Moves that may make a four: under "freestyle" all of them do."""
        cells = self.cells
        return {
            cell for i in self._alive[color][self.game.k - 2] for cell in self._lines[i] if not cells[cell]
        }

    def wins(self, color: int, moves: int) -> bool:
        """Does `color`, to move, win with at most so many stones, whatever the other side does?

        Exact up to 3; with more, True is a proof and False is none.
        """
        if self.winning_points(color):
            return True
        if moves < 3:
            return moves > 1 and self._tries(color, moves)
        key = (self._words[1], self._words[-1], color, moves)
        if key not in self._known:
            self._known[key] = self._tries(color, moves)
        return self._known[key]

    def _tries(self, color: int, moves: int) -> bool:
        return any(self._wins_with(action, color, moves) for action in self._candidates(color, moves))

    def winning_moves(self, color: int, moves: int) -> set[int]:
        """All first moves of `color` that win with at most so many stones (1 to 3), this one included."""
        points = self.winning_points(color)
        if moves == 1:
            return points
        return points | {
            action
            for action in self._candidates(color, moves)
            if action not in points and self._wins_with(action, color, moves)
        }

    def wins_after(self, action: int, color: int, other_moves: int) -> bool:
        """Does the other side, to move after this stone of `color`, win with at most so many stones?"""
        self.place(action, color)
        result = self.wins(-color, other_moves)
        self.remove(action)
        return result

    def wins_by_fours(self, color: int, moves: int = 8) -> bool:
        """Does `color`, to move, win by a row of fours, each with one reply, and at most so many stones?"""
        return bool(self.winning_points(color)) or any(
            self.wins_by_four(action, color, moves) for action in self.four_moves(color)
        )

    def wins_by_four(self, action: int, color: int, moves: int = 8) -> bool:
        """The same with the first stone given, where `color` has no winning point yet."""
        if moves < 2:
            return False
        self.place(action, color)
        points = self.winning_points(color)
        if not points or self.winning_points(-color):
            won = False
        elif len(points) > 1:
            won = True
        else:
            (reply,) = points
            self.place(reply, -color)
            won = self.wins_by_fours(color, moves - 1)
            self.remove(reply)
        self.remove(action)
        return won

    def replies(self, color: int) -> set[int] | None:
        """The moves of the other side that may stop a win of `color` in 2: all others leave it as it is.

        Asked where neither side has a winning point. None where `color` does not threaten to win in 2.
        """
        threat = next((a for a in self._candidates(color, 2) if self._wins_with(a, color, 2)), None)
        if threat is None:
            return None
        self.place(threat, color)
        touching = {threat} | self.winning_points(color)
        self.remove(threat)
        return touching | self.four_moves(-color)

    def _candidates(self, color: int, moves: int) -> Iterable[int]:
        """The moves that can win with at most so many stones (at least 2), those that win at once aside."""
        threats = self.winning_points(-color)
        if len(threats) > 1:
            return ()
        if threats:
            return threats
        if self.winning_points(color) or (moves > 2 and self.wins(color, 2)):
            return self.empty  # the win that is there may outlive any reply to any move
        if moves == 2:
            return self.four_moves(color)
        cells, alive = self.cells, self._alive[color]
        return {
            cell
            for count in range(self._fewest, self.game.k)
            for i in alive[count]
            for cell in self._lines[i]
            if not cells[cell]
        }

    def _wins_with(self, action: int, color: int, moves: int) -> bool:
        self.place(action, color)
        result = self._holds(color, moves - 1)
        self.remove(action)
        return result

    def _holds(self, color: int, moves: int) -> bool:
        """Does `color` win with so many stones when the other side, which cannot win at once, is to move?"""
        points = self.winning_points(color)
        if len(points) > 1:
            return True
        if moves == 1:
            return False
        replies = points or self.replies(color)
        return replies is not None and all(self._wins_despite(reply, color, moves) for reply in replies)

    def _wins_despite(self, reply: int, color: int, moves: int) -> bool:
        self.place(reply, -color)
        result = self.wins(color, moves)
        self.remove(reply)
        return result
