"""Maximum-likelihood Elo of a pool: Bradley-Terry with draws, intervals by the bootstrap over opening pairs.

With d the difference of two ratings in natural units (400 Elo are ln 10), the odds of win : draw : loss are
exp(d/2) : nu : exp(-d/2), with one nu for the pool (Davidson 1970, "On extending the Bradley-Terry model to
accommodate ties"). So 400 points are ten wins to a loss, whatever the draws between. With `black_advantage`,
black's d is greater by one more parameter (Davidson and Beaver 1977).
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from gomoku_jax.rating.pairing import PAIR_RESULTS, Pairing, merge_pairings, pair_points

ELO_PER_UNIT = 400 / math.log(10)
_LETTERS = "WDL"
# [15, 2, 3]: what each pair result adds to (a is black, a is white) x (won, drawn, lost).
_GAMES_OF_PAIR = np.array([[[float(x == y) for y in _LETTERS] for x in kind] for kind in PAIR_RESULTS])
_SHARES = np.array([pair_points(kind)[0] / pair_points(kind)[1] for kind in PAIR_RESULTS])
_ALL_WON, _ALL_LOST = PAIR_RESULTS.index("WW"), PAIR_RESULTS.index("LL")
_ITERATIONS = 100


@dataclasses.dataclass(frozen=True)
class PlayerRating:
    """One player's strength.

    Attributes:
        name: of the player.
        elo: its rating.
        low, high: the interval; infinite where the games set no bound: nobody (directly or through others)
            on the anchor's side scored against it, or it against them.
        games: games it played.
        score: its points per game, over all opponents.
        opponents: how many it met.
    """

    name: str
    elo: float
    low: float
    high: float
    games: int
    score: float
    opponents: int


@dataclasses.dataclass(frozen=True, eq=False)
class Ratings:
    """The ratings of a pool.

    Attributes:
        players: strongest first.
        anchor: who has 0 by definition; None where the mean is 0.
        draw_odds: nu: draws to a win, between equals.
        black_elo: black's advantage; 0 where it was not asked for.
        log_likelihood: of the games, natural logarithm, without the prior.
        pairings: what was rated, one per two players who met.
        confidence: of the players' intervals.
        samples: float64 [R, P], Elo of `players` in each bootstrap replicate.
        warnings: what a reader has to know, in sentences.
    """

    players: tuple[PlayerRating, ...]
    anchor: str | None
    draw_odds: float
    black_elo: float
    log_likelihood: float
    pairings: tuple[Pairing, ...]
    confidence: float
    samples: np.ndarray
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> PlayerRating:
        return self.players[self._index(name)]

    def difference(self, a: str, b: str) -> tuple[float, float, float]:
        """Elo of `a` above `b`: the estimate and its interval, narrower than the two ratings' own.

        The ends are NaN without replicates. Where the games set no bound to the distance, the prior does.
        """
        i, j = self._index(a), self._index(b)
        estimate = self.players[i].elo - self.players[j].elo
        if not len(self.samples):
            return estimate, math.nan, math.nan
        low, high = _percentiles(self.samples[:, i] - self.samples[:, j], self.confidence)
        return estimate, float(min(low, estimate)), float(max(high, estimate))

    def expected_score(self, a: str, b: str) -> float:
        """Points a game that `a` takes off `b`, colours swapped."""
        d = (self[a].elo - self[b].elo) / ELO_PER_UNIT
        g = self.black_elo / ELO_PER_UNIT
        delta = np.array([math.log(self.draw_odds) if self.draw_odds > 0 else -np.inf])
        p = np.exp(_log_probabilities(np.array([[d + g, d - g]]), delta))[0]
        return float((p[:, 0] + p[:, 1] / 2).mean())

    def _index(self, name: str) -> int:
        for i, player in enumerate(self.players):
            if player.name == name:
                return i
        raise KeyError(f"{name!r} is not rated; rated are {', '.join(p.name for p in self.players)}")


def fit_elo(
    pairings: Iterable[Pairing],
    anchor: str | None = "random",
    *,
    prior_games: float = 0.5,
    black_advantage: bool = False,
    replicates: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Ratings:
    """Rates a pool by maximum likelihood.

    Who won or lost everything has no maximum-likelihood rating. As in BayesElo, a weak prior keeps it finite:
    `prior_games` more games for every two players who met, half of them won and half lost, on either colour.
    Its interval is then open on that side, and a warning says so.

    Each bootstrap replicate draws, within every pairing, as many opening pairs as it has, with replacement.
    Where all pairs gave the same points, drawing them again would claim certainty: there the share of pairs
    that would have gone otherwise is drawn from Beta(1, n), whose quantiles are Clopper and Pearson's limits
    for none seen in n.

    Args:
        pairings: the games; several of the same two players are added up.
        anchor: the player at 0; None puts the mean of the pool at 0.
        prior_games: 0 is no prior.
        black_advantage: estimate one for the whole pool. It helps where colours were not swapped. Where they
            were, it cancels, and one advantage for weak and strong players alike would fit neither.
        replicates: of the bootstrap; 0 gives no intervals (NaN).
        confidence: of the intervals, percentiles of the replicates.
        seed: of the bootstrap.

    Raises:
        ValueError: no games; an anchor that did not play; two groups that never met; or, without a prior, a
            player or a group that scored nothing, or everything, against the others.
    """
    merged = merge_pairings(pairings)
    if not merged:
        raise ValueError("no games to rate")
    if not prior_games >= 0:
        raise ValueError(f"prior_games = {prior_games}: 0 or more")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence}: between 0 and 1")
    names = list(dict.fromkeys(name for pairing in merged for name in (pairing.a, pairing.b)))
    if anchor is not None and anchor not in names:
        raise ValueError(f"anchor {anchor!r} has no game; players are {', '.join(names)}")
    origin = names.index(anchor) if anchor is not None else 0
    _check_connected(names, merged, origin)
    scores_on = _score_graph(names, merged)
    above, below = _reached(scores_on, origin), _reached(scores_on.T, origin)
    if anchor is None and not (above & below).all():
        above, below = np.zeros_like(above), np.zeros_like(below)  # the mean moves with the unbounded ones
    if prior_games == 0 and not (above & below).all():
        _refuse_without_prior(names, scores_on)

    design = _design(names, merged, origin, black_advantage)
    pairs = np.stack([pairing.pair_counts for pairing in merged]).astype(float)
    counts = _game_counts(pairs[None])
    start = np.zeros((1, design.shape[1] + 1))
    estimate = _fit(counts, design, prior_games, start)
    drawn = _resample(pairs, replicates, np.random.default_rng(seed))
    samples = _fit(_game_counts(drawn), design, prior_games, np.repeat(estimate, len(drawn), axis=0))

    def elos(parameters: np.ndarray) -> np.ndarray:
        theta = np.insert(parameters[:, : len(names) - 1], origin, 0.0, axis=1)
        if anchor is None:
            theta = theta - theta.mean(axis=1, keepdims=True)
        return ELO_PER_UNIT * theta

    elo, sampled = elos(estimate)[0], elos(samples)
    low, high = _percentiles(sampled, confidence) if len(sampled) else np.full((2, len(names)), np.nan)
    low, high = np.minimum(low, elo), np.maximum(high, elo)  # NaN stays
    if len(sampled):
        low, high = np.where(below, low, -np.inf), np.where(above, high, np.inf)
    players = []
    order = sorted(range(len(names)), key=lambda i: (-elo[i], names[i]))
    for i in order:
        mine = [p if p.a == names[i] else p.swapped() for p in merged if names[i] in (p.a, p.b)]
        games = sum(pairing.num_games for pairing in mine)
        points = sum(pairing.points for pairing in mine)
        ends = (float(low[i]), float(high[i]))
        players.append(PlayerRating(names[i], float(elo[i]), *ends, games, points / games, len(mine)))
    delta = estimate[:, -1]
    log_p = _log_probabilities(estimate[:, :-1] @ design.T, delta)
    return Ratings(
        players=tuple(players),
        anchor=anchor,
        draw_odds=float(np.exp(delta[0])),
        black_elo=float(ELO_PER_UNIT * estimate[0, -2]) if black_advantage else 0.0,
        log_likelihood=float(np.where(counts > 0, counts * np.maximum(log_p, -1e9), 0.0).sum()),
        pairings=tuple(merged),
        confidence=confidence,
        samples=sampled[:, order],
        warnings=_bound_warnings(names, names[origin], above, below),
    )


# The likelihood.


def _design(names: list[str], pairings: Sequence[Pairing], origin: int, black: bool) -> np.ndarray:
    """[2K, n]: the parameters that make up d in the games of each pairing, a as black and then as white."""
    design = np.zeros((len(pairings), 2, len(names) + 1))
    for k, pairing in enumerate(pairings):
        design[k, :, names.index(pairing.a)] += 1
        design[k, :, names.index(pairing.b)] -= 1
    design[:, :, -1] = [1, -1]
    design = np.delete(design.reshape(-1, len(names) + 1), origin, axis=1)
    return design if black else design[:, :-1]


def _game_counts(pairs: np.ndarray) -> np.ndarray:
    """Wins, draws and losses [R, 2K, 3] from pair counts [R, K, 15]."""
    return np.einsum("rkc,cij->rkij", pairs, _GAMES_OF_PAIR).reshape(len(pairs), 2 * pairs.shape[1], 3)


def _log_probabilities(d: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Natural logarithms [R, M, 3] of win, draw, loss, for differences [R, M] and ln nu [R]."""
    logits = np.stack([d / 2, np.broadcast_to(delta[:, None], d.shape), -d / 2], axis=-1)
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def _fit(counts: np.ndarray, design: np.ndarray, prior_games: float, start: np.ndarray) -> np.ndarray:
    """Newton's method on R concave likelihoods at once.

    Args:
        counts: [R, M, 3] wins, draws, losses.
        design: [M, n].
        prior_games: for every two rows of the design.
        start: [R, n + 1], where to begin; ln nu is the last.

    Returns:
        [R, n + 1]; ln nu is -inf where nothing was drawn.
    """
    if not len(counts):
        return start
    counts = counts + prior_games * np.array([0.25, 0.0, 0.25])
    totals, n = counts.sum(-1), design.shape[1]
    undrawn = counts[:, :, 1].sum(-1) == 0  # nu = 0 is the maximum, and no parameter

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        log_p = _log_probabilities(x[:, :n] @ design.T, x[:, n])
        return np.where(counts > 0, counts * np.maximum(log_p, -1e9), 0.0).sum((1, 2))

    outer = np.einsum("mi,mj->mij", design, design).reshape(len(design), -1)
    x = start.copy()
    x[:, n] = np.where(undrawn, -np.inf, np.where(np.isfinite(x[:, n]), x[:, n], 0.0))
    value = log_likelihood(x)
    for _ in range(_ITERATIONS):
        p = np.exp(_log_probabilities(x[:, :n] @ design.T, x[:, n]))
        mean = (p[..., 0] - p[..., 2]) / 2  # of a game's derivative by d: +1/2 won, 0 drawn, -1/2 lost
        by_d = (counts[..., 0] - counts[..., 2]) / 2 - totals * mean
        by_draw = counts[..., 1] - totals * p[..., 1]
        gradient = np.concatenate([by_d @ design, by_draw.sum(-1, keepdims=True)], axis=1)
        if np.abs(gradient).max() < 1e-9 * (1 + totals.sum(-1).max()):
            return x
        hessian = np.zeros((len(x), n + 1, n + 1))
        spread = totals * ((p[..., 0] + p[..., 2]) / 4 - mean**2)
        hessian[:, :n, :n] = (spread @ outer).reshape(-1, n, n)
        hessian[:, :n, n] = hessian[:, n, :n] = -(totals * mean * p[..., 1]) @ design
        # One where nu is no parameter: its gradient is zero, and so is its step.
        hessian[:, n, n] = np.where(undrawn, 1.0, (totals * p[..., 1] * (1 - p[..., 1])).sum(-1))
        try:
            step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        length = np.ones(len(x))
        for _ in range(40):  # shorter until it does not lead down
            proposal = x + length[:, None] * step
            proposed = log_likelihood(proposal)
            worse = proposed < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        x, value = proposal, proposed
    raise ValueError("the ratings do not converge: too few games, or all of them alike, without a prior")


# The bootstrap.


def _resample(pairs: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Pair counts [R, K, 15] of replicates of [K, 15]."""
    drawn = np.zeros((replicates, *pairs.shape))
    for k, counts in enumerate(pairs):
        number = int(counts.sum())
        drawn[:, k] = rng.multinomial(number, counts / number, size=replicates)
        shares = set(_SHARES[counts > 0].tolist())
        if len(shares) > 1:
            continue
        unseen = number * rng.beta(1, number, replicates)
        other = rng.choice([_ALL_WON, _ALL_LOST], replicates)
        if shares == {1.0}:
            other[:] = _ALL_LOST
        elif shares == {0.0}:
            other[:] = _ALL_WON
        drawn[:, k] *= (1 - unseen / number)[:, None]
        drawn[np.arange(replicates), k, other] += unseen
    return drawn


def _percentiles(samples: np.ndarray, confidence: float) -> np.ndarray:
    """Both ends of the interval, [2, ...], over the first axis."""
    return np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)


# Who met whom, and who scored against whom (Ford 1957).


def _reached(graph: np.ndarray, origin: int) -> np.ndarray:
    """bool [P]: who can be reached from `origin` along graph[from, to], itself included."""
    reached = np.zeros(len(graph), bool)
    reached[origin] = True
    while True:
        more = reached | graph[reached].any(0)
        if (more == reached).all():
            return reached
        reached = more


def _score_graph(names: list[str], pairings: Sequence[Pairing]) -> np.ndarray:
    """bool [P, P]: whether the row's player took any point off the column's."""
    graph = np.zeros((len(names), len(names)), bool)
    for pairing in pairings:
        a, b = names.index(pairing.a), names.index(pairing.b)
        graph[a, b], graph[b, a] = pairing.points > 0, pairing.points < pairing.num_games
    return graph


def _check_connected(names: list[str], pairings: Sequence[Pairing], origin: int) -> None:
    met = _score_graph(names, pairings)
    inside = _reached(met | met.T, origin)
    if not inside.all():
        groups = [", ".join(n for n, x in zip(names, inside, strict=True) if x == side) for side in (1, 0)]
        raise ValueError(
            f"two groups never met, so nothing compares them: ({groups[0]}) and ({groups[1]}); "
            "play a match between them"
        )


def _refuse_without_prior(names: list[str], scores_on: np.ndarray) -> None:
    for i in range(len(names)):
        upper = ~_reached(scores_on, i)  # nobody whom i reaches scored on them
        if upper.any():
            one, other = (
                ", ".join(n for n, x in zip(names, upper, strict=True) if x == side) for side in (True, False)
            )
            raise ValueError(
                f"({other}) never scored against ({one}), whose maximum-likelihood rating above them is "
                "infinite; a prior (prior_games) makes it finite"
            )


def _bound_warnings(names: list[str], anchor: str, above: np.ndarray, below: np.ndarray) -> tuple[str, ...]:
    """Sentences on the players whose distance from the anchor is bounded on one side only."""

    def listed(mask: np.ndarray) -> str:
        return ", ".join(name for name, chosen in zip(names, mask, strict=True) if chosen)

    warnings = []
    for bounded, scorers, losers, word in (
        (above, above, ~above, "lower"),
        (below, ~below, below, "upper"),
    ):
        if not bounded.all() and bounded.any():
            warnings.append(
                f"({listed(scorers)}) took no point off ({listed(losers)}): the distance between the two "
                f"groups has only a bound, and the ratings of ({listed(~bounded)}), counted from {anchor}, "
                f"are {word} bounds. More games, or a player between the groups, would tell"
            )
        elif not bounded.any():
            warnings.append("some players never scored against the others: all intervals are open")
            break
    return tuple(warnings)
