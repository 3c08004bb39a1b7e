"""Matches on the host, one game after another: for players outside, such as other engines."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from gomoku_jax.arena import MatchResult, check_match, recorded_opening, warn_of_repeats
from gomoku_jax.game import BLACK, Gomoku, IllegalMoveError
from gomoku_jax.openings import FIRST, SECOND, SwapOpening, check_swap
from gomoku_jax.play.opponents import ForfeitError, HostPlayer
from gomoku_jax.play.record import GameRecord


@dataclasses.dataclass(frozen=True)
class Forfeit:
    """A game lost without a winning line.

    Attributes:
        game: its number, from 0.
        player: the name of who has lost it.
        by_a: whether that is player `a`.
        reason: a crash, a time-out, an illegal move.
    """

    game: int
    player: str
    by_a: bool
    reason: str

    def __str__(self) -> str:
        return f"game {self.game}: {self.player} forfeits: {self.reason}"


@dataclasses.dataclass(frozen=True)
class HostMatchResult(MatchResult):
    """A match's score, and the games in it that were forfeited, which count as losses.

    Attributes:
        forfeits: in the order of the games.
    """

    forfeits: tuple[Forfeit, ...] = ()

    def outcome(self, index: int) -> str:
        """As SGF's RE says it, with F after a forfeit: B+F."""
        forfeited = any(forfeit.game == index for forfeit in self.forfeits)
        return super().outcome(index) + ("F" if forfeited else "")


def play_host_match(
    a: HostPlayer,
    b: HostPlayer,
    game: Gomoku,
    num_games: int = 100,
    seed: int = 0,
    opening_stones: int = 0,
    on_game: Callable[[int, GameRecord, Forfeit | None], None] | None = None,
    openings: Sequence[Sequence[int]] | None = None,
    swap: str | None = None,
) -> HostMatchResult:
    """A match of two players on the host, colours swapped on each opening.

    Args:
        a: the player whose score is told.
        b: its opponent.
        game: the rules.
        num_games: an odd number plays the last opening once.
        seed: of the openings, which are those of `arena.play_match`.
        opening_stones: random stones on the board before each pair of games. Two players without randomness
            need some, or all games are the same two.
        on_game: is called after each game with its number, its record and how it was forfeited, if it was.
        openings: as for `arena.play_match`.
        swap: "swap" or "swap2" instead of openings: the players place the first stones and take colours; `a`
            begins in games 0, 2, 4, ...

    Raises:
        ValueError: see `arena.check_match` and `openings.check_swap`; or a player that does not play swap.
    """
    check_match(game, num_games, opening_stones, openings)
    if swap is not None:
        check_swap(swap, game)
        if opening_stones or openings is not None:
            raise ValueError(f"swap = {swap!r}: not together with openings or opening_stones")
        for player in (a, b):
            if player.opener is None:
                raise ValueError(f"swap = {swap!r}: {player.name} takes no part in it")
            player.opener.check(swap)
    num_pairs = -(-num_games // 2)
    if openings is None:
        starts = _openings(game, seed, num_pairs, opening_stones)
    else:
        starts = [list(openings[i % len(openings)]) for i in range(num_pairs)]
    records, winners, a_is_black, stones, forfeits = [], [], [], [], []
    for number in range(num_games):
        for player in (a, b):
            player.new_game()
        if swap is None:
            record, forfeit = GameRecord(game, starts[number // 2]), None
            # In the first game of a pair `a` makes the first move of its own.
            a_color = record.to_play if number % 2 == 0 else -record.to_play
        else:
            record, a_color, forfeit = _open(game, swap, a, b, number)
        stones.append(len(record))
        if forfeit is None:
            winner, forfeit = _play(record, {a_color: a, -a_color: b}, number, a_color)
        else:
            winner = -a_color if forfeit.by_a else a_color
        records.append(record)
        winners.append(winner)
        a_is_black.append(a_color > 0)
        if forfeit is not None:
            forfeits.append(forfeit)
        if on_game is not None:
            on_game(number, record, forfeit)
    result = _count(records, winners, a_is_black, stones, forfeits)
    if openings is not None:
        warn_of_repeats(result, openings)
    return result


def _play(
    record: GameRecord, players: dict[int, HostPlayer], number: int, a_color: int
) -> tuple[int, Forfeit | None]:
    """Plays one game to its end; its winner, and how it was forfeited."""
    while not record.over:
        color = record.to_play
        try:
            record.play(players[color].choose(record))
        except (ForfeitError, IllegalMoveError) as error:
            return -color, Forfeit(number, players[color].name, color == a_color, str(error))
    return record.winner, None


def _open(
    game: Gomoku, swap: str, a: HostPlayer, b: HostPlayer, number: int
) -> tuple[GameRecord, int, Forfeit | None]:
    """The opening of a game by swap: its stones, the colour of `a`, and how it was forfeited.

    Who forfeits it has black where it was to place the first stones, white where not.
    """
    opening = SwapOpening(game, swap)
    a_side = FIRST if number % 2 == 0 else SECOND
    first, second = (a, b) if a_side == FIRST else (b, a)
    assert first.opener is not None and second.opener is not None
    try:
        opening.play(first.opener, second.opener)
        forfeit = None
    except (ForfeitError, IllegalMoveError) as error:
        by_a = opening.turn == a_side
        forfeit = Forfeit(number, (a if by_a else b).name, by_a, str(error))
    color = opening.first_color or BLACK
    return GameRecord(game, opening.stones), color if a_side == FIRST else -color, forfeit


def _openings(game: Gomoku, seed: int, count: int, stones: int) -> list[list[int]]:
    """The same openings as in the arena, as moves."""
    if stones == 0:
        return [[] for _ in range(count)]
    key, _ = jax.random.split(jax.random.key(seed))
    draw = jax.jit(jax.vmap(lambda k: recorded_opening(game, k, stones)[1]))
    rows = np.asarray(draw(jax.random.split(key, count)))
    return [row[row >= 0].tolist() for row in rows]


def _count(
    records: list[GameRecord],
    winners: list[int],
    a_is_black: list[bool],
    opening_stones: list[int],
    forfeits: list[Forfeit],
) -> HostMatchResult:
    scores = [winner if black else -winner for winner, black in zip(winners, a_is_black, strict=True)]

    def count(chosen: list[int]) -> tuple[int, int, int]:
        return chosen.count(1), chosen.count(0), chosen.count(-1)

    wins, draws, losses = count(scores)
    return HostMatchResult(
        wins=wins,
        draws=draws,
        losses=losses,
        as_black=count([score for score, black in zip(scores, a_is_black, strict=True) if black]),
        as_white=count([score for score, black in zip(scores, a_is_black, strict=True) if not black]),
        distinct_games=len({tuple(record.moves) for record in records}),
        games=[list(record.moves) for record in records],
        opening_stones=opening_stones,
        a_is_black=a_is_black,
        winners=winners,
        forfeits=tuple(forfeits),
    )
