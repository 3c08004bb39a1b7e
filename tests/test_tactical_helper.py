"""The tactical helper of the search against a plain Python that looks one stone ahead."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import gomoku_jax as gj
from gomoku_jax.encode import states_from_positions
from gomoku_jax.network import NetworkOutput
from gomoku_jax.search import search_with
from gomoku_jax.search.tactical import tactical_evaluator

GAME = gj.Gomoku(5, 5, 4)


def flat(params, states):
    """Knows nothing: all moves alike, value 0.25."""
    batch = states.to_play.shape[0]
    return NetworkOutput(jnp.zeros((batch, GAME.num_actions)), jnp.full(batch, 0.25))


def random_states(count: int) -> gj.State:
    random = np.random.default_rng(5)
    boards, to_play = [], []
    while len(boards) < count:
        stones = int(random.integers(6, 16))
        board = np.zeros(25, np.int8)
        cells = random.permutation(25)[:stones]
        board[cells[0::2]], board[cells[1::2]] = 1, -1
        if not oracle.winners(board.reshape(5, 5), 4, "freestyle"):
            boards.append(board.reshape(5, 5))
            to_play.append(1 if stones % 2 == 0 else -1)
    nothing = jnp.full(count, -1, jnp.int32)
    return states_from_positions(jnp.asarray(np.stack(boards)), jnp.asarray(to_play, jnp.int8), nothing)


def test_values_and_priors_are_exact_one_stone_ahead():
    states = random_states(200)
    output = jax.jit(tactical_evaluator(GAME, flat, 0.9))(None, states)
    prior = np.asarray(jax.nn.softmax(output.policy_logits, axis=-1))
    judge = oracle.Solver(5, 5, 4, "freestyle")
    seen = set()
    for i in range(200):
        board, color = np.asarray(states.board[i]).reshape(-1), int(states.to_play[i])
        own, other = (sum(1 << int(c) for c in np.flatnonzero(board == x)) for x in (color, -color))
        empty = judge.full & ~(own | other)
        wins, threats = judge._winning_points(own, empty), judge._winning_points(other, empty)
        if wins:
            kind, value, moves = "win", 1.0, wins
        elif threats & (threats - 1):
            kind, value, moves = "lost", -0.9, threats
        elif threats:
            kind, value, moves = "block", 0.25, threats
        else:
            kind, value, moves = "quiet", 0.25, (1 << 25) - 1
        assert float(output.value[i]) == pytest.approx(value)
        chosen = [cell for cell in range(25) if moves >> cell & 1]
        expected = np.zeros(25)
        expected[chosen] = 1 / len(chosen)
        np.testing.assert_allclose(prior[i], expected, atol=1e-6)
        seen.add(kind)
    assert seen == {"win", "lost", "block", "quiet"}


@pytest.mark.parametrize(
    ("algorithm", "backend"), [pytest.param("gumbel", "fast", marks=pytest.mark.slow), ("puct", "mctx")]
)
def test_a_search_with_it_wins_and_blocks_at_once(algorithm, backend):
    states = random_states(64)
    config = gj.SearchConfig(algorithm, num_simulations=2, backend=backend, tactical_helper=True).greedy()
    output = search_with(GAME, flat, None, jax.random.key(0), states, config)
    helped = jax.jit(tactical_evaluator(GAME, flat))(None, states)
    allowed = np.asarray(helped.policy_logits > -1e30)
    assert not allowed.all(-1).all()
    assert allowed[np.arange(64), np.asarray(output.action)].all()
    assert np.isfinite(output.action_weights).all()
