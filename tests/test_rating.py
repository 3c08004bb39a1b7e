"""Ratings: against an optimizer on the written-out likelihood, closed forms, players of known strength."""

import dataclasses
import itertools
import json
import math
import re

import jax
import numpy as np
import pytest
import scipy.optimize
import test_scripts
from rows import command_line

import gomoku_jax as gj
from gomoku_jax.agent import save_agent
from gomoku_jax.arena import MatchResult
from gomoku_jax.config import GameConfig
from gomoku_jax.play.files.openings import read_openings
from gomoku_jax.rating import (
    Pairing,
    crosstable,
    fit_elo,
    merge_pairings,
    pair_outcomes,
    pair_table,
    pentanomial,
    rating_table,
    run_sprt,
    sprt,
)
from gomoku_jax.rating.sprt import expected_score
from gomoku_jax.symmetry import canonical_position

UNIT = 400 / math.log(10)
STRENGTHS = {"random": 0.0, "b": 130.0, "c": 350.0, "d": 420.0}


def simulated(strengths, draw_odds, pairs, seed, black=0.0) -> list[Pairing]:
    """Matches of everyone with everyone, every game drawn from the model."""
    rng = np.random.default_rng(seed)
    found = []
    names = list(strengths)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            letters = []
            for advantage in (black, -black):
                d = (strengths[a] - strengths[b] + advantage) / UNIT
                odds = np.array([math.exp(d / 2), draw_odds, math.exp(-d / 2)])
                letters.append(rng.choice(list("WDL"), size=pairs, p=odds / odds.sum()))
            outcomes = tuple(x + y for x, y in zip(*letters, strict=True))
            found.append(Pairing(a, b, outcomes, 2 * pairs))
    return found


def plain_log_likelihood(pairings, elo, draw_odds, black) -> float:
    """Game by game, as the model is defined."""
    total = 0.0
    for pairing in pairings:
        for outcome in pairing.outcomes:
            for letter, side in zip(outcome, (1, -1), strict=True):
                if letter != "-":
                    d = (elo[pairing.a] - elo[pairing.b] + side * black) / UNIT
                    odds = {"W": math.exp(d / 2), "D": draw_odds, "L": math.exp(-d / 2)}
                    total += math.log(odds[letter] / sum(odds.values()))
    return total


# Pairings.


def test_outcomes_of_a_match_are_told_by_colour():
    # a is black, white; white, black; black.
    winners, black = [1, 1, 1, 1, 0], [True, False, False, True, True]
    assert pair_outcomes(winners, black) == ["WL", "WL", "D-"]
    assert pair_outcomes([-1], [False]) == ["-W"]
    with pytest.raises(ValueError, match="the same colours twice"):
        pair_outcomes([1, 1], [True, True])


def test_pairings_of_the_same_players_are_added_up():
    one, other = Pairing("a", "b", ("WL", "W-"), 3), Pairing("b", "a", ("WD", "LL"), 2)
    (merged,) = merge_pairings([one, other])
    assert merged.outcomes == ("WL", "W-", "DL", "WW") and merged.distinct_games == 5
    assert merged.results == (4, 1, 2) and merged.swapped().results == (2, 1, 4)
    assert merged.swapped().as_black == (2, 0, 1) and merged.as_white == (1, 0, 2)
    for outcomes in (("WX",), ("--",), ("W",), ()):
        with pytest.raises(ValueError):
            Pairing("a", "b", outcomes)
    with pytest.raises(ValueError, match="itself"):
        Pairing("a", "a", ("WL",))


# Maximum likelihood.


@pytest.mark.parametrize("wins, losses", [(30, 10), (1, 7), (20, 20)])
def test_two_players_without_draws_have_the_log_odds(wins, losses):
    outcomes = ("W-",) * wins + ("L-",) * losses
    ratings = fit_elo([Pairing("b", "random", outcomes)], prior_games=0, replicates=0)
    assert ratings["b"].elo == pytest.approx(400 * math.log10(wins / losses), abs=1e-6)
    assert ratings["random"].elo == 0 and ratings.draw_odds == 0


def test_draws_in_closed_form():
    """With two players the three shares are fitted exactly: nu = D / sqrt(WL), d = ln(W / L)."""
    outcomes = ("WW",) * 9 + ("DD",) * 12 + ("LL",) * 4
    ratings = fit_elo([Pairing("b", "random", outcomes)], prior_games=0, replicates=0)
    assert ratings.draw_odds == pytest.approx(12 / 6, rel=1e-6)
    assert ratings["b"].elo == pytest.approx(400 * math.log10(9 / 4), rel=1e-6)
    assert ratings.expected_score("b", "random") == pytest.approx((9 + 6) / 25, rel=1e-6)


@pytest.mark.parametrize("black", [False, True])
@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_fit_agrees_with_a_plain_optimizer(black, prior):
    pairings = simulated(STRENGTHS, 0.4, pairs=12, seed=3, black=60.0)
    names = list(STRENGTHS)
    quarter = [
        Pairing(p.a, p.b, ("W-", "L-", "-W", "-L")) for p in pairings if prior
    ]  # the prior is an eighth of each, weighed below

    def loss(x):
        elo = dict(zip(names, [0.0, *x[:3] * UNIT], strict=True))
        advantage = x[4] * UNIT if black else 0.0
        value = plain_log_likelihood(pairings, elo, math.exp(x[3]), advantage)
        if prior:
            value += prior / 2 * 0.5 * plain_log_likelihood(quarter, elo, math.exp(x[3]), advantage)
        return -value

    best = scipy.optimize.minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7}).x
    ratings = fit_elo(pairings, prior_games=prior, black_advantage=black, replicates=0)
    for name, theta in zip(names[1:], best[:3], strict=True):
        assert ratings[name].elo == pytest.approx(theta * UNIT, abs=0.02)
    assert ratings.draw_odds == pytest.approx(math.exp(best[3]), rel=1e-3)
    assert ratings.black_elo == pytest.approx(best[4] * UNIT if black else 0.0, abs=0.02)
    elo = {name: ratings[name].elo for name in names}
    exact = plain_log_likelihood(pairings, elo, ratings.draw_odds, ratings.black_elo)
    assert ratings.log_likelihood == pytest.approx(exact, rel=1e-9)


def test_known_strengths_are_recovered_and_lie_in_their_intervals():
    inside, differences = 0, 0
    for seed in range(30):
        ratings = fit_elo(simulated(STRENGTHS, 0.5, pairs=60, seed=seed), replicates=200, seed=seed)
        for name in ("b", "c", "d"):
            inside += ratings[name].low <= STRENGTHS[name] <= ratings[name].high
        _, low, high = ratings.difference("d", "c")
        differences += low <= 70 <= high
    assert 0.87 < inside / 90 < 0.995 and differences >= 25
    ratings = fit_elo(simulated(STRENGTHS, 0.5, pairs=4000, seed=1, black=80), black_advantage=True)
    for name, elo in STRENGTHS.items():
        assert ratings[name].elo == pytest.approx(elo, abs=12)
    assert ratings.draw_odds == pytest.approx(0.5, abs=0.03) and abs(ratings.black_elo - 80) < 8
    assert [player.name for player in ratings.players] == ["d", "c", "b", "random"]


def test_ratings_do_not_depend_on_order_or_side():
    pairings = simulated(STRENGTHS, 0.3, pairs=20, seed=0)
    one = fit_elo(pairings, replicates=0)
    other = fit_elo([p.swapped() for p in reversed(pairings)], replicates=0)
    shifted = fit_elo(pairings, None, replicates=0)
    for name in STRENGTHS:
        assert one[name].elo == pytest.approx(other[name].elo, abs=1e-5)
        assert shifted[name].elo - shifted["b"].elo == pytest.approx(one[name].elo - one["b"].elo, abs=1e-5)
    assert sum(player.elo for player in shifted.players) == pytest.approx(0, abs=1e-6)


def test_opening_pairs_are_drawn_whole():
    """Black wins every game: pair by pair the two are equal, game by game they would seem uncertain."""
    rng = np.random.default_rng(0)
    split = Pairing("b", "random", tuple(rng.choice(["WL", "WL", "WW", "LL"], 200)))
    mixed = Pairing(
        "b", "random", tuple(x + y for x, y in zip(*rng.choice(list("WL"), (2, 200)), strict=True))
    )
    widths = [np.ptp([r.low, r.high]) for r in (fit_elo([p])["b"] for p in (split, mixed))]
    # A pair's points have variance 2 here: (1/4)(4) + ... = 0.5 for split, 0.5 for two independent games.
    all_split = fit_elo([Pairing("b", "random", ("WL",) * 190 + ("WW",) * 5 + ("LL",) * 5)])["b"]
    assert widths[0] == pytest.approx(widths[1], rel=0.25)
    assert np.ptp([all_split.low, all_split.high]) < 0.4 * widths[1]
    assert fit_elo([split], seed=4).samples.tolist() == fit_elo([split], seed=4).samples.tolist()
    assert fit_elo([split], seed=4).samples.tolist() != fit_elo([split], seed=5).samples.tolist()


def test_who_won_everything_has_a_finite_rating_and_an_open_interval():
    ratings = fit_elo([Pairing("random", "b", ("LL",) * 50), Pairing("b", "c", ("WL", "LW", "DL", "LL"))])
    two = fit_elo([Pairing("random", "b", ("LL",) * 50)])
    # Half a game more, half of it won: a quarter of a win in 100 games and a half.
    assert two["b"].elo == pytest.approx(400 * math.log10(100.25 / 0.25), rel=1e-6)
    # Of no pair lost in 50, Clopper and Pearson's limit; the prior is a quarter of a game on either side.
    lost = 100 * (1 - 0.025 ** (1 / 50))
    assert two["b"].low == pytest.approx(400 * math.log10((100.25 - lost) / (lost + 0.25)), abs=25)
    for name in ("b", "c"):
        assert math.isinf(ratings[name].high) and 0 < ratings[name].low < ratings[name].elo < 3000
        assert (
            "lower bounds" in ratings.warnings[0]
            and "(random) took no point off (b, c)" in ratings.warnings[0]
        )
    assert ratings["random"].low == ratings["random"].high == 0
    below = fit_elo([Pairing("random", "b", ("WW",) * 50)])
    assert math.isinf(below["b"].low) and below["b"].elo == pytest.approx(-two["b"].elo)
    assert "upper bounds" in below.warnings[0]
    mean = fit_elo([Pairing("random", "b", ("WW",) * 50)], None)
    assert math.isinf(mean["b"].low) and math.isinf(mean["b"].high) and "open" in mean.warnings[0]
    assert fit_elo(simulated(STRENGTHS, 0.3, 20, 0), replicates=50).warnings == ()


def test_what_cannot_be_rated_is_refused():
    lost = Pairing("random", "b", ("LL",) * 9)
    cases: list[tuple[list[Pairing], str, str]] = [
        ([], "random", "no games"),
        ([lost], "c", "anchor 'c' has no game; players are random, b"),
        ([lost, Pairing("c", "d", ("WL",))], "random", "(random, b) and (c, d)"),
    ]
    for pairings, anchor, message in cases:
        with pytest.raises(ValueError, match=re.escape(message)):
            fit_elo(pairings, anchor)
    with pytest.raises(ValueError, match=re.escape("(random) never scored against (b)")):
        fit_elo([lost], prior_games=0)
    with pytest.raises(ValueError, match="do not converge"):  # black won everything
        fit_elo([Pairing("random", "b", ("WL",) * 9)], prior_games=0, black_advantage=True)
    with pytest.raises(ValueError, match="prior_games = -1"):
        fit_elo([lost], prior_games=-1)


def test_tables_tell_every_match():
    pairings = simulated(STRENGTHS, 0.4, pairs=10, seed=0)[:-1]  # c and d did not meet
    ratings = fit_elo(pairings, replicates=50)
    text, markdown = crosstable(ratings), crosstable(ratings, markdown=True)
    for pairing in pairings:
        for one in (pairing, pairing.swapped()):
            cell = f"{one.score:.2f} ({'-'.join(map(str, one.results))})"
            assert cell in text and cell in markdown
    assert all(line.count("|") == 6 for line in markdown.splitlines())
    assert len(pair_table(ratings).splitlines()) == 6 and " 20  " in pair_table(ratings)
    table = rating_table(ratings, markdown=True).splitlines()
    assert table[-1].startswith("| random | 0 | 0 by definition | 60 |") and "95 % interval" in table[0]


# The sequential test.


def test_log_likelihood_ratio_against_an_optimizer():
    """The likeliest distributions of the two means, by a general optimizer with constraints."""
    counts = np.array([12, 20, 55, 30, 18])
    scores = np.array([0, 0.25, 0.5, 0.75, 1])
    best = []
    for elo in (0, 40):
        constraints = [
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "eq", "fun": lambda p, elo=elo: p @ scores - 1 / (1 + 10 ** (-elo / 400))},
        ]
        found = scipy.optimize.minimize(
            lambda p: -(counts * np.log(p)).sum(),
            counts / counts.sum(),
            bounds=[(1e-6, 1)] * 5,
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-12},
        )
        best.append(-found.fun)
    state = sprt(counts, 0, 40)
    assert state.llr == pytest.approx(best[1] - best[0], abs=1e-4)
    assert state.upper == pytest.approx(math.log(0.95 / 0.05)) == -state.lower
    assert sprt(counts[::-1], -40, 0).llr == pytest.approx(-state.llr, abs=1e-9)
    assert sprt([0] * 5, 0, 40).llr == 0


def test_log_likelihood_ratio_of_two_kinds_of_pair_is_the_binomial_one():
    """Pairs won or lost whole are coin throws: n_i ln(s1 / s0)."""
    s0, s1 = expected_score(0), expected_score(60)
    exact = 70 * math.log(s1 / s0) + 30 * math.log((1 - s1) / (1 - s0))
    assert sprt([30, 0, 0, 0, 70], 0, 60).llr == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("true_elo, wrong", [(0, "H1"), (60, "H0")])
def test_error_rates_of_the_sequential_test(true_elo, wrong):
    rng = np.random.default_rng(true_elo)
    score = expected_score(true_elo)
    # Two games of a pair on an opening that favours black, and one draw in ten.
    errors, pairs, runs = 0, 0, 600
    for _ in range(runs):

        def play(number, count):
            black = rng.random((count, 2)) < np.array([min(1, score + 0.2), score - 0.2])
            letters = np.where(rng.random((count, 2)) < 0.1, "D", np.where(black, "W", "L"))
            return ["".join(row) for row in letters]

        # Draws pull the score towards 1/2, so the hypotheses are put where the players are.
        elo = [-400 * math.log10(1 / (0.9 * expected_score(e) + 0.05) - 1) for e in (0, 60)]
        result = run_sprt(play, *elo, alpha=0.1, beta=0.1, max_pairs=3000, batch_pairs=20)
        assert result.state.decision is not None
        errors += result.state.decision == wrong
        pairs += result.num_pairs
    assert errors / runs < 0.13  # 0.1 and two and a half standard errors
    assert pairs / runs < 250  # a fixed number with these error rates would take more


def test_the_driver_stops_early_and_at_its_maximum():
    asked, seen = [], []

    def play(outcomes):
        def batch(number, count):
            asked.append((number, count))
            return [outcomes[i % len(outcomes)] for i in range(count)]

        return batch

    won = run_sprt(play(["WW", "WD"]), 0, 50, on_batch=lambda pairs, state: seen.append(pairs))
    assert won.state.decision == "H1" and won.num_pairs < 100 and "H1 accepted (elo >= 50)" in str(won)
    assert seen == [20 * (i + 1) for i in range(len(seen))] and [n for n, _ in asked] == list(
        range(len(seen))
    )
    asked.clear()
    # Half way between the hypotheses nothing is decided.
    unclear = run_sprt(play(["WW", "LL"]), -20, 20, max_pairs=50, batch_pairs=20)
    assert unclear.state.decision is None and unclear.num_pairs == 50 and "no decision" in str(unclear)
    assert asked == [(0, 20), (1, 20), (2, 10)]
    stopped = run_sprt(play(["WL"]), -5, 5, on_batch=lambda pairs, state: True)
    assert stopped.num_pairs == 20
    assert run_sprt(play(["LL"]), 0, 50).state.decision == "H0"
    assert pentanomial(["WW", "WD", "DD", "LW", "LD", "LL", "L-"]).tolist() == [1, 1, 2, 1, 1]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1] * 5, 50, 0), "elo0 = 50, elo1 = 0"),
        (([1] * 5, 0, 50, 0.0), "alpha = 0.0"),
        (([1] * 5, 0, 50, 0.05, 0.7), "beta = 0.7"),
        (([1] * 3, 0, 50), "five numbers"),
    ],
)
def test_a_test_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sprt(*arguments)


# The scripts.


def drawn_match(a, b, game, num_games, seed, opening_stones, openings) -> MatchResult:
    """In place of `play_match`, which compiles: colours swapped, winners drawn."""
    black = [i % 2 == 0 for i in range(num_games)]
    winners = np.random.default_rng(seed).integers(-1, 2, num_games).tolist()
    scores = [w if is_black else -w for w, is_black in zip(winners, black, strict=True)]

    def count(chosen):
        return chosen.count(1), chosen.count(0), chosen.count(-1)

    total, games = count(scores), [[i, seed] for i in range(num_games)]
    sides = count(scores[::2]), count(scores[1::2])
    return MatchResult(*total, *sides, num_games, games, [2] * num_games, black, winners)


def test_rate_plays_what_is_missing_and_goes_on(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("gomoku_jax.arena.play_match", drawn_match)
    results, tables = tmp_path / "results.jsonl", tmp_path / "tables.md"
    base = ["--base", "random", "tactical", "mcts:4", "mcts:8", "--games", "12", "--replicates", "20"]
    argv = [*base, "--board", "4x4x3", "--results", str(results)]
    everyone = [*argv, "--pairs", "all", "--markdown", str(tables)]
    code, out = test_scripts.status_and_error(capsys, "rate", everyone)
    assert code == 0, out
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    met = {(row["a"], row["b"]) for row in rows}
    assert len(rows) == 6 and met == set(
        itertools.combinations(("random", "tactical", "mcts:4", "mcts:8"), 2)
    )
    for row in rows:
        pairing = Pairing(row["a"], row["b"], tuple(row["pairs"]))
        assert pairing.results == (row["wins"], row["draws"], row["losses"]) and row["games"] == 12
        assert list(pairing.as_black) == row["as_black"] and list(pairing.as_white) == row["as_white"]
        assert row["versions"]["jax"] and row["processor"] and row["seed"] == 0
        assert str(tmp_path) not in json.dumps(row) and row["command"].startswith("rate.py --base random")
    assert "| random | 0 | 0 by definition | 36 |" in tables.read_text()
    # One row lost and another cut short: two matches are played again, the others are not.
    results.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]) + json.dumps(rows[4])[:40])
    code, out = test_scripts.status_and_error(capsys, "rate", everyone)
    assert code == 0 and out.count(" against ") == 2 and "line 5: cut short" in out
    again = [json.loads(line) for line in results.read_text().splitlines() if line.endswith("}")]
    assert [(row["a"], row["b"], row["pairs"]) for row in again] == [
        (row["a"], row["b"], row["pairs"]) for row in rows
    ]
    code, out = test_scripts.status_and_error(capsys, "rate", [*argv, "--pairs", "none"])
    assert code == 0 and " against " not in out and "Ratings on 4x4" in out
    # Everyone in the file, whoever is named as the base.
    argv_none = ["--base", "random", "tactical", *argv[5:], "--pairs", "none"]
    code, out = test_scripts.status_and_error(capsys, "rate", argv_none)
    assert code == 0 and out.count("mcts:8") >= 2 and " against " not in out
    # More games top the matches up, with other seeds; another kind of opening is another file of matches.
    code, out = test_scripts.status_and_error(capsys, "rate", [*everyone, "--games", "14"])
    added = [json.loads(line) for line in results.read_text().splitlines()[-6:]]
    assert code == 0 and {(row["games"], row["seed"]) for row in added} == {(2, 1)}
    code, out = test_scripts.status_and_error(capsys, "rate", [*everyone, "--opening-stones", "1"])
    assert code == 0 and out.count(" against ") == 6


def test_neighbours_meet_and_strangers_do_not(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("gomoku_jax.arena.play_match", drawn_match)
    results = tmp_path / "results.jsonl"
    pool = ["random", *(f"mcts:{n}" for n in range(1, 10))]
    argv = ["--base", *pool, "--board", "4x4x3", "--games", "4", "--replicates", "5", "--reach", "1"]
    code, _ = test_scripts.status_and_error(capsys, "rate", [*argv, "--results", str(results)])
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    met = {frozenset((row["a"], row["b"])) for row in rows}
    assert code == 0 and all(frozenset(pair) in met for pair in itertools.pairwise(pool))
    assert len(rows) == len(met) < 45
    ranked = [p.name for p in fit_elo([Pairing(r["a"], r["b"], tuple(r["pairs"])) for r in rows]).players]
    assert all(frozenset(pair) in met for pair in itertools.pairwise(ranked))


def test_who_only_repeats_games_with_one_meets_another(capsys, tmp_path, monkeypatch):
    """Two strong players without randomness play few different games; they are compared through others."""

    def repeated(a, b, game, num_games, seed, opening_stones, openings) -> MatchResult:
        result = drawn_match(a, b, game, num_games, seed, opening_stones, openings)
        # Told by their playouts, which only a closure holds.
        counts = {cell.cell_contents for player in (a, b) for cell in player.__closure__ or ()} & {8, 9}
        return dataclasses.replace(result, distinct_games=2 if counts == {8, 9} else num_games)

    monkeypatch.setattr("gomoku_jax.arena.play_match", repeated)
    results = tmp_path / "results.jsonl"
    argv = ["--base", "random", "mcts:8", "mcts:9", "--board", "4x4x3", "--games", "12", "--replicates", "5"]
    code, out = test_scripts.status_and_error(capsys, "rate", [*argv, "--results", str(results)])
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    met = [(row["a"], row["b"]) for row in rows]
    assert met == [("random", "mcts:8"), ("mcts:8", "mcts:9"), ("random", "mcts:9")]
    assert code == 0 and "mcts:8 against mcts:9 is left out" in out and "has no rating" not in out


def test_rate_plays_real_matches(capsys, tmp_path):
    results = tmp_path / "results.jsonl"
    argv = ["--base", "random", "tactical", "--board", "4x4x3", "--games", "40", "--results", str(results)]
    code, _ = test_scripts.status_and_error(
        capsys, "rate", [*argv, "--json", str(tmp_path / "ratings.jsonl")]
    )
    row = json.loads((tmp_path / "ratings.jsonl").read_text())
    assert code == 0 and row["games"] == 40 and row["ratings"][0]["name"] == "tactical"
    assert row["ratings"][0]["low"] > 0 and row["ratings"][1]["elo"] == 0


def test_rate_leaves_out_matches_that_repeat_themselves(capsys, tmp_path):
    row = {"a": "random", "b": "tactical", "game": {"height": 4, "width": 4, "k": 3, "rule": "freestyle"}}
    row |= {"opening_stones": 2, "openings": None, "seed": 0, "players": {}, "pairs": ["LL"] * 10}
    results = tmp_path / "results.jsonl"
    argv = ["--base", "random", "tactical", "--board", "4x4x3", "--pairs", "none", "--results", str(results)]
    results.write_text(json.dumps(row | {"distinct_games": 9}) + "\n")
    code, text = test_scripts.status_and_error(capsys, "rate", argv)
    assert code == 2 and "only 9 of 20 games are different" in text and "no games to rate" in text
    results.write_text(json.dumps(row | {"distinct_games": 10}) + "\n")
    assert test_scripts.status_and_error(capsys, "rate", argv)[0] == 0


@pytest.mark.parametrize(
    "argv, words",
    [
        (["nobody"], ["nobody", "mcts:PLAYOUTS", "gomocup:PATH"]),
        (["--anchor", "mcts:7"], ["mcts:7", "not in the pool"]),
        (["--base", "random"], ["two players"]),
        (["no/such_*@4"], ["nothing matches"]),
        (["--games", "0"], ["num_games = 0"]),
        (["--reach", "0"], ["--reach 0"]),
        (["--results", "no/folder/x.jsonl"], ["no/folder/x.jsonl", "folder that exists"]),
        (["--openings", "none.txt"], ["none.txt"]),
    ],
)
def test_rate_refuses_with_a_clear_error(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = test_scripts.status_and_error(capsys, "rate", argv)
    assert code == 2 and "Traceback" not in text
    assert all(word in text for word in words), text
    assert list(tmp_path.iterdir()) == []


def test_names_in_rows_have_no_folders_of_the_machine(tmp_path):
    matches = test_scripts.script("matches")
    folder = tmp_path / "runs" / "mine" / "agents" / "iteration_000050"
    shipped = gj.load_agent("tictactoe")
    params = jax.tree.map(lambda x: 2 * x, shipped.params)
    info = {"seconds": 5, "iteration": 50}
    save_agent(folder, GameConfig(3, 3, 3), shipped.network, shipped.search, params, info)
    texts = [f"{folder}@8", "tictactoe@1", "mcts:100", f"gomocup:{tmp_path}/engine"]
    specs = matches.parse_players(texts, None)
    names = [matches.short_name(text, spec, 2.0) for text, spec in zip(texts, specs, strict=True)]
    assert names == ["mine/iteration_000050@8", "tictactoe@1", "mcts:100", "gomocup:engine@2s"]
    facts = matches.player_facts(specs[0])
    assert facts["simulations"] == 8 and facts["seconds"] == 5 and len(facts["digest"]) == 12
    assert matches.player_facts(specs[1])["digest"] != facts["digest"]
    command = command_line("rate.py", [*texts, "--results", str(tmp_path / "r.jsonl"), "runs/x@4"])
    assert str(tmp_path) not in command and command.endswith("gomocup:engine --results r.jsonl runs/x@4")


def test_evaluate_stops_early_when_it_is_clear(capsys, tmp_path):
    rows = tmp_path / "rows.jsonl"
    argv = ["tactical", "random", "--board", "4x4x3", "--opening-stones", "2", "--sprt", "--json", str(rows)]
    code, out = test_scripts.status_and_error(capsys, "evaluate", argv)
    assert code == 0 and "H1 accepted (elo >= 50)" in out
    row = json.loads(rows.read_text())
    pairing = Pairing("a", "b", tuple(row["pairs"]))
    assert row["sprt"]["decision"] == "H1" and row["games"] == pairing.num_games < 400
    assert [list(part) for part in (pairing.as_black, pairing.as_white)] == [row["as_black"], row["as_white"]]
    code, out = test_scripts.status_and_error(capsys, "evaluate", [*argv, "--elo0", "60"])
    assert code == 2 and "elo0 = 60" in out


def test_evaluate_plays_the_openings_of_a_file(capsys, tmp_path):
    path, rows, folder = tmp_path / "openings.txt", tmp_path / "rows.jsonl", tmp_path / "sgf"
    path.write_text("# two\n0,0, 1,0\n-1,-1, 0,1\n")
    argv = ["tactical", "random", "--board", "4x4x3", "--openings", str(path), "--json", str(rows)]
    code, _ = test_scripts.status_and_error(capsys, "evaluate", [*argv, "--sgf", str(folder)])
    row = json.loads(rows.read_text())
    assert code == 0 and row["games"] == 4 and row["openings"]["file"] == "openings.txt"
    begins = [
        re.findall(r";[BW]\[(\w\w)\]|A[BW]\[(\w\w)\]", f.read_text())[:2] for f in sorted(folder.iterdir())
    ]
    assert begins[0] == begins[1] != begins[2] == begins[3]
    for line, words in (
        ("3,0, 0,0", ["line 2", "3,0 is not on the board"]),
        ("0,0, 0,0", ["line 2", "taken"]),
        ("-1,1, -1,0, 0,1, 0,0, 1,1", ["line 2", "ends the game"]),
        ("0,0, x", ["line 2", "not an offset"]),
    ):
        path.write_text(f"1,0\n{line}\n")
        code, text = test_scripts.status_and_error(capsys, "evaluate", argv)
        assert code == 2 and all(word in text for word in [str(path.name), *words]), text
    path.write_text("# nothing\n")
    code, text = test_scripts.status_and_error(capsys, "evaluate", argv)
    assert code == 2 and "no openings in it" in text


@pytest.mark.parametrize("height, width, stones", [(4, 4, 2), (3, 4, 2), (3, 4, 3), (5, 5, 1)])
def test_openings_up_to_symmetry_are_as_many_as_burnside_says(height, width, stones):
    balance = test_scripts.script("balance")
    game = gj.Gomoku(height, width, 3)
    points = np.arange(height * width).reshape(height, width)
    views = [np.rot90(points, turn) for turn in range(4)]
    views += [np.fliplr(view) for view in views]
    views = [view.ravel() for view in views if view.shape == points.shape]
    fixed = 0
    for opening in balance.all_openings(game, stones):
        for view in views:
            fixed += all({int(view[m]) for m in part} == set(part) for part in (opening[::2], opening[1::2]))
    assert len(balance.candidates(game, stones, None, 0)) == fixed / len(views)
    assert len(balance.candidates(game, stones, 10**4, 1)) == fixed / len(views)


def test_balance_writes_openings_that_evaluate_reads(capsys, tmp_path):
    path = tmp_path / "openings.txt"
    argv = [str(path), "--agent", "tictactoe", "--simulations", "64", "--count", "5", "--max-value", "1"]
    code, out = test_scripts.status_and_error(capsys, "balance", argv)
    assert code == 0 and "12 different openings of 2 stones" in out
    file = read_openings(path.read_bytes(), gj.Gomoku(3, 3, 3))
    values = [abs(float(line.split()[-1])) for line in path.read_text().splitlines()[2::2]]
    assert values == sorted(values) and len(values) == 5 and not file.warnings
    # The five of the twelve that perfect play draws; in the others black wins.
    drawn = {
        canonical_position(*file.game.shape, moves) for moves in ((0, 4), (4, 0), (1, 0), (1, 4), (1, 7))
    }
    assert {canonical_position(*file.game.shape, moves) for moves in file.openings} == drawn
    assert str(tmp_path) not in path.read_text()
    for extra, words in ((["--stones", "0"], ["--stones 0"]), (["--agent", "nobody"], ["nobody"])):
        code, text = test_scripts.status_and_error(capsys, "balance", [*argv, *extra])
        assert code == 2 and all(word in text for word in words)


def test_plot_of_strength(capsys, tmp_path):
    names = ["random", "mcts:10", "mcts:100", "x/iteration_10@8", "x/iteration_20@8", "x/iteration_20@0"]
    facts = {
        name: {"simulations": int(name[-1]), "seconds": 6 * int(name[12:14]), "digest": "0"}
        for name in names[3:]
    }
    strengths = dict(zip(names, (0, 150, 300, 200, 400, 250), strict=True))
    results, output = tmp_path / "results.jsonl", tmp_path / "strength.png"
    rows = []
    for pairing in simulated(strengths, 0.2, pairs=20, seed=0):
        row = {"a": pairing.a, "b": pairing.b, "pairs": pairing.outcomes, "distinct_games": 40, "seed": 0}
        row |= {"game": {"height": 6, "width": 6, "k": 4, "rule": "freestyle"}, "opening_stones": 2}
        row |= {"openings": None, "players": {n: facts.get(n, {}) for n in (pairing.a, pairing.b)}}
        rows.append(row)
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = [str(results), "--output", str(output), "--replicates", "20"]
    code, _ = test_scripts.status_and_error(capsys, "plot_strength", argv)
    assert code == 0 and output.stat().st_size > 20_000
    plot = test_scripts.script("plot_strength")
    by_time, by_simulations = plot.curves(fit_elo(simulated(strengths, 0.2, 20, 0), replicates=0), facts)
    assert [minutes for minutes, _ in by_time["x, 8 simulations"]] == [1.0, 2.0] and len(by_time) == 1
    assert {name: [x for x, _ in points] for name, points in by_simulations.items()} == {
        "pure MCTS": [10, 100],
        "x/iteration_20": [0.5, 8],
    }
    code, text = test_scripts.status_and_error(capsys, "plot_strength", [*argv, "--board", "9x9x5"])
    assert code == 2 and "9x9x5" in text
    results.write_text(json.dumps(rows[0]) + "\n")
    code, text = test_scripts.status_and_error(capsys, "plot_strength", argv)
    assert code == 2 and "no curve" in text
