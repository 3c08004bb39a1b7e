"""The solved positions, and the scores of agents on them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import gomoku_jax as gj
from gomoku_jax.suites import kept_share, load_solved, measure_perfect_play, solved_sets
from gomoku_jax.symmetry import image_table

GAMES = [gj.Gomoku(3, 3, 3), gj.Gomoku(4, 4, 3), gj.Gomoku(5, 5, 4), gj.Gomoku(5, 6, 4), gj.Gomoku(6, 6, 4)]


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.height}x{game.width}x{game.k}")
def test_the_sets_are_what_they_claim(game):
    solved = load_solved(game)
    assert len(solved) == (431 if game.num_actions == 9 else 1000)
    flat = solved.board.reshape(len(solved), -1)
    counts = (flat != 0).sum(-1)
    assert (flat.sum(-1) == counts % 2).all()
    assert (solved.to_play == np.where(counts % 2 == 0, 1, -1)).all()
    rows = np.arange(len(solved))
    started = counts > 0
    assert (flat[rows, solved.last_action][started] == -solved.to_play[started]).all()
    assert ((solved.values == -2) == (flat != 0)).all()
    lowest = np.where(solved.values == -2, 2, solved.values).min(-1)
    assert (lowest < solved.value).all()
    images = image_table(*game.shape)
    assert len({min(board[image].tobytes() for image in images) for board in flat}) == len(solved)
    # Wins in one, and moves that leave one to the opponent, by plain Python.
    judge = oracle.Solver(game.height, game.width, game.k, game.rule)
    for i in range(0, len(solved), 7):
        own = sum(1 << int(cell) for cell in np.flatnonzero(flat[i] == solved.to_play[i]))
        other = sum(1 << int(cell) for cell in np.flatnonzero(flat[i] == -solved.to_play[i]))
        assert not judge.won(own) and not judge.won(other)
        wins = judge._winning_points(own, judge.full & ~(own | other))
        threats = judge._winning_points(other, judge.full & ~(own | other))
        for cell in np.flatnonzero(solved.values[i] != -2):
            if wins >> int(cell) & 1:
                assert solved.values[i, cell] == 1
            elif threats & ~(1 << int(cell)):
                assert solved.values[i, cell] == -1


@pytest.mark.parametrize("game", GAMES[:2], ids=str)
def test_the_values_equal_plain_python(game):
    solved = load_solved(game)
    judge = oracle.Solver(game.height, game.width, game.k, game.rule)
    for i in range(0, len(solved), 9):
        flat, color = solved.board[i].reshape(-1), solved.to_play[i]
        own = sum(1 << int(cell) for cell in np.flatnonzero(flat == color))
        other = sum(1 << int(cell) for cell in np.flatnonzero(flat == -color))
        for cell in np.flatnonzero(flat == 0):
            bit = 1 << int(cell)
            value = 1 if judge.won(own | bit) else -judge.value(other, own | bit)
            assert value == solved.values[i, cell]


def test_names_and_refusals():
    assert solved_sets() == ["3x3x3", "4x4x3", "5x5x4", "5x6x4", "6x6x4"]
    with pytest.raises(ValueError, match=r"7x7.*there are 3x3x3"):
        load_solved(gj.Gomoku(7, 7, 5))


def test_players_are_scored():
    solved = load_solved(GAMES[1])
    values = jnp.asarray(solved.values)
    boards = jnp.asarray(solved.board)

    def look_up(states):
        return values[jax.vmap(lambda b: (boards == b[None]).all((1, 2)).argmax())(states.board)]

    assert kept_share(lambda key, states: look_up(states).argmax(-1), solved).count == 1000
    worst = kept_share(
        lambda key, states: jnp.where(look_up(states) == -2, 2, look_up(states)).argmin(-1), solved
    )
    assert worst.count == 0
    chances = solved.keeps.sum(-1) / (solved.values != -2).sum(-1)
    random = kept_share(gj.random_player(solved.game), solved, seed=4)
    spread = np.sqrt((chances * (1 - chances)).sum())
    assert abs(random.count - chances.sum()) < 4 * spread
    assert random.interval[0] < random.share < random.interval[1]


@pytest.mark.slow
def test_networks_are_scored():
    game = GAMES[0]
    solved = load_solved(game).take(300)  # two chunks, the last not full
    network = gj.NetworkConfig(channels=4, num_blocks=1, value_hidden=4)
    params = gj.init_network(network, game, jax.random.key(1))
    raw, searched = measure_perfect_play(solved, network, params, gj.SearchConfig("gumbel"), (0, 64))
    output = gj.apply_network(network, params, jax.vmap(game.observe)(solved.states()))
    logits = np.where(solved.values == -2, -np.inf, np.asarray(output.policy_logits))
    assert raw.kept.count == solved.keeps[np.arange(300), logits.argmax(-1)].sum()
    after, after_values = solved.after()
    later = gj.apply_network(network, params, jax.vmap(game.observe)(after.states()))
    exact = np.concatenate([solved.value, after_values])
    values = np.concatenate([output.value, later.value])
    assert raw.value_error == pytest.approx(np.abs(values - exact).mean(), abs=1e-5)
    assert raw.sign_errors.total == (exact != 0).sum()
    assert raw.sign_errors.count == ((exact * values <= 0) & (exact != 0)).sum()
    # Tic-tac-toe is small enough for 64 simulations to find most of it without a trained network.
    assert searched.kept.share > raw.kept.share + 0.1
    assert searched.value_error < raw.value_error
    low, high = searched.value_error_interval
    assert low < searched.value_error < high


def test_positions_one_move_later_keep_the_value():
    solved = load_solved(GAMES[0])
    after, values = solved.after()
    assert set(values.tolist()) == {-1, 0}
    judge = oracle.Solver(3, 3, 3, "freestyle")
    for i in range(0, len(after), 5):
        flat, color = after.board[i].reshape(-1), after.to_play[i]
        own = sum(1 << int(cell) for cell in np.flatnonzero(flat == color))
        other = sum(1 << int(cell) for cell in np.flatnonzero(flat == -color))
        assert flat[after.last_action[i]] == -color and not judge.won(other)
        assert judge.value(own, other) == values[i]


def test_the_smallest_set_is_complete():
    """All tic-tac-toe positions with unequal moves, by trying all 3 ** 9 boards."""
    judge, images = oracle.Solver(3, 3, 3, "freestyle"), image_table(3, 3)
    found = set()
    for cells in itertools.product((0, 1, -1), repeat=9):
        board = np.array(cells, np.int8)
        own = 1 if board.sum() == 0 else -1
        if board.sum() not in (0, 1) or (board != 0).all():
            continue
        mine, theirs = (sum(1 << int(c) for c in np.flatnonzero(board == x)) for x in (own, -own))
        if judge.won(mine) or judge.won(theirs):
            continue
        values = set()
        for cell in np.flatnonzero(board == 0):
            bit = 1 << int(cell)
            values.add(1 if judge.won(mine | bit) else -judge.value(theirs, mine | bit))
        if len(values) > 1:
            found.add(min(board[image].tobytes() for image in images))
    shipped = load_solved(GAMES[0]).board.reshape(-1, 9)
    assert found == {min(board[image].tobytes() for image in images) for board in shipped}
