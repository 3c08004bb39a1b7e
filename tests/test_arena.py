"""Players and matches: legal moves, tactics anywhere on the board, and results recounted from the games."""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import gomoku_jax as gj
from gomoku_jax.arena import MatchResult, play_games, play_match, wilson_interval
from gomoku_jax.config import NetworkConfig, SearchConfig
from gomoku_jax.encode import states_from_positions
from gomoku_jax.game import State
from gomoku_jax.play.match import play_host_match
from gomoku_jax.play.opponents import FunctionPlayer

SMALL = gj.Gomoku(4, 5, 4)
EXACT = gj.Gomoku(5, 5, 3, "exact")


def first_legal(game: gj.Gomoku):
    """A player without randomness."""

    def play(key, states: State):
        del key
        return jax.vmap(lambda state: jnp.argmax(game.legal_action_mask(state)).astype(jnp.int32))(states)

    return play


RANDOM, FIRST = gj.random_player(SMALL), first_legal(SMALL)
EXACT_RANDOM = gj.random_player(EXACT)


def running_positions(game: gj.Gomoku, number: int, seed: int = 0) -> tuple[State, np.ndarray]:
    """Positions of random games of every length, by the oracle; and their boards."""
    rng = np.random.default_rng(seed)
    boards, sides, last = [], [], []
    while len(boards) < number:
        twin = oracle.Game(game.height, game.width, game.k, game.rule)
        for action in rng.permutation(game.num_actions)[: rng.integers(0, game.num_actions)]:
            twin.play(int(action))
            if twin.terminated:
                twin.undo()
        boards.append(np.array(twin.board, np.int8))
        sides.append(twin.to_play)
        last.append(twin.last_action)
    states = states_from_positions(
        jnp.asarray(np.stack(boards)), jnp.asarray(sides, jnp.int8), jnp.asarray(last, jnp.int32)
    )
    return states, np.stack(boards)


def occupied_lover(game: gj.Gomoku) -> tuple[NetworkConfig, gj.Gomoku, dict]:
    """A network that wants to play on stones: a 1x1 path from the stones' planes to large logits."""
    config = NetworkConfig(channels=4, num_blocks=1, value_hidden=4)
    shapes = jax.eval_shape(lambda: gj.init_network(config, game, jax.random.key(0)))
    params = jax.tree.map(lambda x: np.zeros(x.shape, np.float32), shapes)
    params["stem"]["kernel"][1, 1, :2, 0] = 10.0
    params["policy_conv"]["kernel"][0, 0] = 1.0
    params["policy_out"]["kernel"][0, 0] = 5.0
    return config, game, jax.tree.map(jnp.asarray, params)


def all_players(game: gj.Gomoku):
    config, _, params = occupied_lover(game)
    puct = SearchConfig("puct", num_simulations=4, dirichlet_fraction=0.0)
    gumbel = SearchConfig("gumbel", num_simulations=4, max_considered_actions=4)
    return {
        "random": gj.random_player(game),
        "tactical": gj.tactical_player(game),
        "mcts": gj.mcts_player(game, 5),
        "policy": gj.policy_player(game, config, params),
        "puct": gj.search_player(game, config, params, puct),
        "gumbel": gj.search_player(game, config, params, gumbel),
    }


@pytest.mark.parametrize("name", list(all_players(SMALL)))
def test_players_play_legal_moves(name):
    player = jax.jit(all_players(SMALL)[name])
    states, boards = running_positions(SMALL, 64)
    assert (boards != 0).sum((1, 2)).max() >= 18
    for seed in range(2):
        actions = np.asarray(player(jax.random.key(seed), states))
        assert actions.dtype == np.int32 and actions.shape == (64,)
        assert (actions >= 0).all() and (actions < 20).all()
        assert (boards.reshape(64, -1)[np.arange(64), actions] == 0).all()


def test_the_network_of_that_test_does_want_the_stones():
    config, game, params = occupied_lover(SMALL)
    state = gj.replay_moves(game, [3, 7])
    logits = np.asarray(gj.apply_network(config, params, game.observe(state)[None]).policy_logits[0])
    assert set(np.argsort(logits)[-2:].tolist()) == {3, 7} and logits[3] > 40


@pytest.mark.parametrize("name", ["random", "tactical"])
def test_random_moves_are_uniform(name):
    """Without a threat on the board, both draw each legal move equally often."""
    state = gj.replay_moves(SMALL, [0, 7, 13])
    many = 4000
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (many, *x.shape)), state)
    actions = np.asarray(jax.jit(all_players(SMALL)[name])(jax.random.key(0), states))
    counts = np.bincount(actions, minlength=20)
    legal = np.setdiff1d(np.arange(20), [0, 7, 13])
    expected = many / len(legal)
    assert counts[legal].sum() == many
    assert (np.abs(counts[legal] - expected) < 5 * math.sqrt(expected)).all()


def threats(game: gj.Gomoku) -> tuple[np.ndarray, np.ndarray]:
    """Every line of the board with every one of its points missing, in both colours: boards and colours."""
    boards, colors = [], []
    for line in oracle.lines_of(game.height, game.width, game.k):
        for gap in line:
            for color in (1, -1):
                board = np.zeros(game.shape, np.int8)
                for cell in line:
                    board[cell] = color if cell != gap else 0
                boards.append(board)
                colors.append(color)
    return np.stack(boards), np.array(colors, np.int8)


def wins(board: np.ndarray, action: int, color: int, game: gj.Gomoku) -> bool:
    """Does a stone of this colour win there, by the oracle?"""
    board = board.copy()
    assert board.ravel()[action] == 0
    board.ravel()[action] = color
    return color in oracle.winners(board, game.k, game.rule)


@pytest.mark.parametrize("game", [gj.Gomoku(5, 6, 4), gj.Gomoku(6, 5, 3, "exact")], ids=str)
def test_tactical_player_wins_and_blocks_everywhere(game):
    boards, colors = threats(game)
    assert len(boards) == 2 * game.k * oracle.num_lines(game.height, game.width, game.k)
    sides = np.concatenate([colors, -colors])  # the same threats to carry out and to block
    both = np.concatenate([boards, boards])
    states = states_from_positions(jnp.asarray(both), jnp.asarray(sides), jnp.full(len(both), 0, jnp.int32))
    actions = np.asarray(jax.jit(gj.tactical_player(game))(jax.random.key(0), states))
    for board, color, action in zip(both, np.concatenate([colors, colors]), actions, strict=True):
        assert wins(board, action, color, game), board


def test_tactical_player_wins_rather_than_blocks():
    game = gj.Gomoku(5, 6, 4)
    boards, colors = threats(game)
    # Threats of both colours on one board, wherever the two lines have no point in common.
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(boards), (400, 2))
    pairs = np.array(
        [(i, j) for i, j in pairs if colors[i] != colors[j] and not (boards[i] * boards[j]).any()]
    )
    joined, sides = boards[pairs[:, 0]] + boards[pairs[:, 1]], colors[pairs[:, 0]]
    states = states_from_positions(jnp.asarray(joined), jnp.asarray(sides), jnp.zeros(len(joined), jnp.int32))
    actions = np.asarray(jax.jit(gj.tactical_player(game))(jax.random.key(1), states))
    number = 0
    for board, color, action in zip(joined, sides, actions, strict=True):
        empty = np.flatnonzero(board.ravel() == 0).tolist()
        if any(wins(board, a, color, game) for a in empty) and any(
            wins(board, a, -color, game) for a in empty
        ):
            number += 1
            assert wins(board, action, color, game), board
    assert number > 30


# Matches.


def recount(result: MatchResult, game: gj.Gomoku) -> None:
    """Plays every recorded game through the oracle and counts the results again."""
    tally = {True: [0, 0, 0], False: [0, 0, 0]}  # a is black: wins, draws, losses
    for actions, winner, a_is_black in zip(result.games, result.winners, result.a_is_black, strict=True):
        twin = oracle.Game(game.height, game.width, game.k, game.rule)
        for i, action in enumerate(actions):
            assert not twin.terminated, f"game went on after move {i}"
            assert twin.play(action)
        assert twin.terminated and twin.winner == winner
        color = 1 if a_is_black else -1
        tally[a_is_black][1 - winner * color] += 1
    assert result.as_black == tuple(tally[True]) and result.as_white == tuple(tally[False])
    total = [sum(pair) for pair in zip(tally[True], tally[False], strict=True)]
    assert [result.wins, result.draws, result.losses] == total
    assert result.num_games == sum(total) == len(result.games)
    assert result.score == pytest.approx((total[0] + total[1] / 2) / sum(total))
    assert result.distinct_games == len({tuple(actions) for actions in result.games})


def check_pairs(result: MatchResult) -> None:
    """Both games of a pair begin alike, with the colours swapped."""
    for i in range(0, len(result.games) - 1, 2):
        stones = result.opening_stones[i]
        assert result.opening_stones[i + 1] == stones
        assert result.games[i][:stones] == result.games[i + 1][:stones]
        assert result.a_is_black[i] != result.a_is_black[i + 1]


@functools.cache
def random_match(seed: int = 0) -> MatchResult:
    return play_match(RANDOM, RANDOM, SMALL, num_games=300, seed=seed, opening_stones=3)


def test_games_replay_to_their_recorded_results():
    result = random_match()
    recount(result, SMALL)
    check_pairs(result)
    for actions, winner in zip(result.games[:3], result.winners[:3], strict=True):
        state = gj.replay_moves(SMALL, actions)
        assert bool(state.terminated) and int(state.winner) == winner
    assert set(result.opening_stones) == {3}
    assert len({tuple(actions[:3]) for actions in result.games}) > 50
    assert 0 < result.draws < 300 and result.wins > 0 and result.losses > 0


def test_games_of_the_exact_rule_replay_whatever_their_openings():
    """Half of the board filled at random holds overlines, which another order of the same stones would
    have won on the way.
    """
    result = play_match(EXACT_RANDOM, EXACT_RANDOM, EXACT, num_games=300, seed=1, opening_stones=12)
    recount(result, EXACT)
    check_pairs(result)
    overlines = 0
    for actions, stones in zip(result.games, result.opening_stones, strict=True):
        twin = oracle.Game(EXACT.height, EXACT.width, EXACT.k, EXACT.rule)
        assert all(twin.play(action) for action in actions[:stones]) and not twin.terminated
        overlines += bool(oracle.winning_runs(twin.board, EXACT.k, "freestyle"))
    assert overlines > 5
    assert min(result.opening_stones) < max(result.opening_stones) == 12  # a stone that wins ends an opening


def test_a_player_scores_one_half_against_itself():
    result = random_match()
    low, high = result.interval
    assert low < 0.5 < high and high - low < 0.12
    assert f"score {result.score:.3f}" in str(result) and "300 games" in str(result)


def test_seeds_give_matches():
    assert random_match(0) != random_match(1)
    again = play_match(RANDOM, RANDOM, SMALL, num_games=300, seed=0, opening_stones=3)
    assert again == random_match(0)


def test_two_players_without_randomness_play_two_games_from_the_empty_board():
    result = play_match(FIRST, FIRST, SMALL, num_games=40)
    recount(result, SMALL)
    assert result.distinct_games == 1 and result.score == 0.5 and result.opening_stones == [0] * 40
    result = play_match(FIRST, last_legal, SMALL, num_games=40)
    recount(result, SMALL)
    assert result.distinct_games == 2


def last_legal(key, states: State):
    del key
    legal = jax.vmap(SMALL.legal_action_mask)(states)
    return (19 - jnp.argmax(legal[:, ::-1], axis=-1)).astype(jnp.int32)


def test_openings_make_games_of_deterministic_players_differ():
    result = play_match(FIRST, FIRST, SMALL, num_games=40, opening_stones=2)
    recount(result, SMALL)
    check_pairs(result)
    # The same player on both sides: the two games of a pair are one game, and one point is shared.
    assert all(result.games[i] == result.games[i + 1] for i in range(0, 40, 2))
    assert result.score == 0.5 and 10 < result.distinct_games <= 20


def test_odd_numbers_of_games():
    result = play_match(RANDOM, RANDOM, SMALL, num_games=299, opening_stones=3)
    recount(result, SMALL)
    check_pairs(result)
    assert len(result.games) == len(result.winners) == len(result.opening_stones) == 299
    assert sum(result.a_is_black) == 149  # white moves first after three stones
    assert result.games == random_match().games[:299]
    # Points in order, until white's 3, 7, 11, 15 are a diagonal.
    single = play_match(FIRST, FIRST, SMALL, num_games=1)
    assert single.num_games == 1 and single.games == [list(range(16))] and single.as_black == (0, 0, 1)


def test_the_stronger_player_wins_on_either_side():
    game = gj.Gomoku(4, 4, 3)
    weak, strong = gj.random_player(game), gj.tactical_player(game)
    result = play_match(strong, weak, game, num_games=200, opening_stones=1)
    recount(result, game)
    check_pairs(result)
    assert result.score > 0.75 and result.interval[0] > 0.5
    assert result.as_black[0] > 2 * result.as_black[2] and result.as_white[0] > 2 * result.as_white[2]
    back = play_match(weak, strong, game, num_games=200, opening_stones=1)
    recount(back, game)
    assert back.score < 0.25
    # After one stone white moves first, and the first mover is a in a pair's first game.
    assert back.a_is_black[:2] == [False, True]


def test_play_games_keeps_one_half_of_the_games_for_each_player():
    """At every move each player is asked for half of the games, those in which it is its turn."""
    asked = {"a": [], "b": []}

    def spy(name, player):
        def play(key, states: State):
            jax.debug.callback(
                lambda to_play, over: asked[name].append(to_play[~over].tolist()),
                states.to_play,
                states.terminated,
                ordered=True,
            )
            return player(key, states)

        return play

    play = functools.partial(play_games, spy("a", RANDOM), spy("b", RANDOM), SMALL)
    games = jax.jit(lambda key: play(key, 5, 1))(jax.random.key(0))
    jax.effects_barrier()
    assert games.winner.shape == games.a_color.shape == (2, 5) and games.actions.shape == (2, 5, 20)
    np.testing.assert_array_equal(games.a_color, [[-1] * 5, [1] * 5])
    assert len(asked["a"]) == len(asked["b"]) > 4
    for i, (a_sides, b_sides) in enumerate(zip(asked["a"], asked["b"], strict=True)):
        side = -1 if i % 2 == 0 else 1  # after one stone white moves
        assert set(a_sides) <= {side} and set(b_sides) <= {side}
    assert len(asked["a"][0]) == len(asked["b"][0]) == 5


# Faulty players.


def illegal_at(game: gj.Gomoku, move_count: int, wrong):
    """Plays on the first legal point until `move_count` stones stand, and then something wrong."""

    def play(key, states: State):
        bad = jax.vmap(wrong)(states)
        return jnp.where(states.move_count >= move_count, bad, first_legal(game)(key, states))

    return play


def test_an_illegal_move_loses_the_game():
    """Off the board on either side, or on a stone, by turns."""
    faulty = illegal_at(
        SMALL,
        3,
        lambda s: jnp.select([s.last_action % 3 == 0, s.last_action % 3 == 1], [-1, 20], s.last_action),
    )
    result = play_match(faulty, RANDOM, SMALL, num_games=60, opening_stones=2)
    assert result.losses == 60
    check_pairs(result)
    for actions, winner in zip(result.games, result.winners, strict=True):
        state = gj.replay_moves(SMALL, actions)  # nothing illegal is recorded
        assert not bool(state.terminated) and winner == -int(state.to_play)
        assert len(actions) in (3, 4)
    assert {actions[-1] % 3 for actions in result.games} == {0, 1, 2}


def test_players_are_not_asked_to_play_the_others_stones_after_an_illegal_move():
    """Winner and record of every game against a player that fails in the middle of it."""
    faulty = illegal_at(SMALL, 7, lambda s: s.last_action)
    result = play_match(RANDOM, faulty, SMALL, num_games=100, opening_stones=1)
    unfinished = 0
    for actions, winner, a_is_black in zip(result.games, result.winners, result.a_is_black, strict=True):
        twin = oracle.Game(4, 5, 4, "freestyle")
        assert all(twin.play(action) for action in actions)
        if not twin.terminated:
            unfinished += 1
            assert winner == (1 if a_is_black else -1) == -twin.to_play and len(actions) in (7, 8)
        else:
            assert winner == twin.winner
    assert unfinished > 50


def test_the_first_of_two_faulty_players_loses():
    faulty = illegal_at(SMALL, 0, lambda s: jnp.int32(-1))
    result = play_match(faulty, faulty, SMALL, num_games=10)
    assert result.winners == [-1] * 10 and result.score == 0.5 and result.games == [[]] * 10


# Arguments and intervals.


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_games": 0}, "num_games = 0"),
        ({"num_games": -4}, "num_games = -4"),
        ({"opening_stones": -1}, "opening_stones = -1"),
        ({"opening_stones": 20}, "opening_stones = 20"),
    ],
)
def test_bad_arguments_name_the_value(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        play_match(RANDOM, RANDOM, SMALL, **arguments)


@pytest.mark.parametrize("num_playouts", [0, -3])
def test_pure_mcts_needs_playouts(num_playouts):
    with pytest.raises(ValueError, match=f"num_playouts = {num_playouts}"):
        gj.mcts_player(SMALL, num_playouts)


@pytest.mark.parametrize("num_games", [1, 2, 20, 100, 1000])
@pytest.mark.parametrize("score", [0.0, 0.05, 0.5, 0.875, 1.0])
def test_wilson_interval_is_the_test_turned_round(score, num_games):
    """The bounds are the means p from which the score lies z standard errors away:
    (score - p)^2 = z^2 p (1 - p) / n, a quadratic.
    """
    z2 = 1.96**2 / num_games
    low, high = sorted(np.roots([1 + z2, -(2 * score + z2), score**2]).real)
    assert wilson_interval(score, num_games) == pytest.approx((max(low, 0), min(high, 1)), abs=1e-6)


def test_wilson_interval_holds_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    for p, n in ((0.5, 20), (0.9, 40)):
        scores = rng.binomial(n, p, 2000) / n
        inside = np.mean([low <= p <= high for low, high in (wilson_interval(s, n) for s in scores)])
        assert 0.92 < inside < 0.98
    assert wilson_interval(0.5, 0) == (0.0, 1.0)
    wide, narrow = wilson_interval(0.6, 50, z=2.58), wilson_interval(0.6, 50)
    assert wide[0] < narrow[0] < 0.6 < narrow[1] < wide[1]


# Openings that are given.

GIVEN = [[0, 6], [7], [12, 3, 9], []]


def test_pairs_are_played_from_the_given_openings():
    result = play_match(RANDOM, FIRST, SMALL, num_games=8, openings=GIVEN)
    recount(result, SMALL)
    check_pairs(result)
    assert result.opening_stones == [2, 2, 1, 1, 3, 3, 0, 0]
    assert [moves[:stones] for moves, stones in zip(result.games, result.opening_stones, strict=True)] == [
        opening for opening in GIVEN for _ in range(2)
    ]
    # Row 0 of a pair: `a` moves first after the opening, whichever colour that is.
    assert result.a_is_black == [True, False, False, True, False, True, True, False]
    odd = play_match(RANDOM, FIRST, SMALL, num_games=7, openings=np.array([[0, 6], [7, 1]]).tolist())
    assert odd.num_games == 7 and [moves[:2] for moves in odd.games[::2]] == [[0, 6], [7, 1]] * 2


def test_openings_that_are_used_again_warn_where_the_games_are_the_same():
    with pytest.warns(UserWarning, match=r"8 games on 2 openings: only [234] of them are different"):
        result = play_match(FIRST, last_legal, SMALL, num_games=8, openings=[[0, 6], [7, 1]])
    assert result.distinct_games <= 4 and result.num_games == 8
    # Players that draw lots may go on from the same openings; no warning, which would be an error here.
    assert play_match(RANDOM, RANDOM, SMALL, num_games=12, openings=[[0, 6]]).distinct_games == 12


def test_the_host_plays_the_same_openings():
    players = [FunctionPlayer(first_legal(SMALL), name) for name in "ab"]
    host = play_host_match(players[0], players[1], SMALL, num_games=6, openings=GIVEN[:3])
    arena = play_match(FIRST, FIRST, SMALL, num_games=6, openings=GIVEN[:3])
    assert host.games == arena.games and host.a_is_black == arena.a_is_black
    assert host.winners == arena.winners and host.opening_stones == arena.opening_stones


@pytest.mark.parametrize(
    "openings, message",
    [
        ([], "at least one"),
        ([[0], [3, 20]], "openings[1] = [3, 20]: different actions from 0 to 19"),
        ([[-1]], "openings[0] = [-1]"),
        ([[4, 4]], "openings[0] = [4, 4]"),
        ([[9], [0, 5, 1, 6, 2, 7, 3]], "openings[1] = [0, 5, 1, 6, 2, 7, 3]: ends the game"),
    ],
)
def test_openings_that_cannot_be_played_are_refused(openings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        play_match(RANDOM, RANDOM, SMALL, openings=openings)
    with pytest.raises(ValueError, match="not together with openings"):
        play_match(RANDOM, RANDOM, SMALL, opening_stones=2, openings=[[0, 1]])
