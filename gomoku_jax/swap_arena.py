"""Matches that begin with swap or swap2: each player places in half of the games, chooses in the others."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gomoku_jax.agent import PlayerSpec
from gomoku_jax.arena import (
    MatchResult,
    Player,
    check_match,
    count_games,
    padded_openings,
    play_games_jit,
    replayed_opening,
)
from gomoku_jax.game import BLACK, WHITE, Gomoku
from gomoku_jax.openings import FIRST, NUM_ADDED, NUM_STONES, SECOND, Judge, Opener, SwapOpening, check_swap
from gomoku_jax.players import Values

_JUDGED_AT_ONCE = 64


def batch_judge(game: Gomoku, values: Values, seed: int = 0) -> Judge:
    """A judge that asks a pure function, about one position or `_JUDGED_AT_ONCE`: two sizes compile."""

    @jax.jit
    def ask(key: jax.Array, openings: jax.Array) -> jax.Array:
        states, _ = jax.vmap(lambda moves: replayed_opening(game, moves))(openings)
        return values(key, states)

    def judge(openings: Sequence[Sequence[int]]) -> np.ndarray:
        rows = np.asarray(padded_openings(openings, NUM_STONES + NUM_ADDED))
        size = 1 if len(rows) == 1 else _JUDGED_AT_ONCE
        rows = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size, axis=0)])
        parts = [
            np.asarray(ask(jax.random.fold_in(jax.random.key(seed), i), rows[i : i + size]))
            for i in range(0, len(rows), size)
        ]
        return np.concatenate(parts)[: len(openings)]

    return judge


def spec_opener(spec: PlayerSpec, game: Gomoku, seed: int = 0) -> Opener:
    """How a player that plays in batches opens: by its values, or by lot where it has none."""
    judge = None if spec.make_values is None else batch_judge(game, spec.make_values(game), seed)
    quick = None
    if spec.agent is not None and spec.simulations != 0:
        quick = batch_judge(game, spec.agent.values(0, game), seed)
    return Opener(game, judge, seed, quick)


def open_games(a: Opener, b: Opener, game: Gomoku, swap: str, num_games: int) -> list[SwapOpening]:
    """The openings of a match, played to their end; `a` is the first player of those with an even number."""
    openings = [SwapOpening(game, swap) for _ in range(num_games)]
    players = [{FIRST: a, SECOND: b}, {FIRST: b, SECOND: a}]  # of the games by their number modulo 2
    proposals = {0: a.proposals(-(-num_games // 2)), 1: b.proposals(num_games // 2)}
    for number, opening in enumerate(openings):
        for stone in proposals[number % 2][number // 2]:
            opening.place(stone)
    while not all(opening.over for opening in openings):
        for player in (a, b):
            mine = [
                opening
                for number, opening in enumerate(openings)
                if not opening.over and players[number % 2][opening.turn] is player
            ]
            if mine:
                stones = [tuple(opening.stones) for opening in mine]
                choices = player.choose_all(stones, ["add" in opening.choices for opening in mine])
                for opening, choice in zip(mine, choices, strict=True):
                    opening.apply(choice)
    return openings


def play_swap_match(
    a: Player,
    b: Player,
    game: Gomoku,
    swap: str,
    a_opener: Opener,
    b_opener: Opener,
    num_games: int = 100,
    seed: int = 0,
) -> MatchResult:
    """A match of two players whose games begin with swap or swap2.

    Args:
        a: a player, `(key, states [B]) -> actions [B]`; places the stones of games 0, 2, 4, ...
        b: a player; places those of the others.
        game: the rules.
        swap: "swap" or "swap2".
        a_opener: places and chooses for `a`; `batch_judge` makes its judge from a function of states.
        b_opener: the same for `b`.
        num_games: in all.
        seed: of the players.

    Raises:
        ValueError: see `check_swap` and `arena.check_match`.
    """
    check_swap(swap, game)
    check_match(game, num_games, 0)
    openings = open_games(a_opener, b_opener, game, swap, num_games)
    a_colors = [
        opening.first_color if number % 2 == 0 else -opening.first_color
        for number, opening in enumerate(openings)
    ]
    # White moves next. A row has the games in which one player does; the shorter one is filled with more of
    # the longer's stones, which nobody counts.
    rows = [[i for i, color in enumerate(a_colors) if color == mover] for mover in (WHITE, BLACK)]
    length = -(-max(map(len, rows)) // 8) * 8  # few lengths compile, batch after batch
    filled = [row + [(row or rows[1 - i])[0]] * (length - len(row)) for i, row in enumerate(rows)]
    moves = padded_openings([openings[i].stones for row in filled for i in row], NUM_STONES + NUM_ADDED)
    games = jax.device_get(
        play_games_jit(a, b, game, jax.random.key(seed), length, 0, jnp.reshape(moves, (2, length, -1)))
    )
    place = np.zeros((num_games, 2), np.int64)
    for which, row in enumerate(rows):
        place[row] = np.stack([np.full(len(row), which), np.arange(len(row))], axis=-1)
    winner, a_color, actions, stones = (
        np.asarray(x)[place[:, 0], place[:, 1]]
        for x in (games.winner, games.a_color, games.actions, games.opening_stones)
    )
    return count_games(winner, a_color, actions, stones)
