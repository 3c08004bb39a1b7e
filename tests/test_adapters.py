"""The environments for other libraries, driven by those libraries' own tools and by plain games."""

import functools
import importlib
import io
import pickle
import sys
import typing

import gymnasium
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import oracle
import pettingzoo.test
import pgx
import pgx._src.api_test
import pytest
from gymnasium.utils.env_checker import check_env
from pgx.experimental import auto_reset
from PIL import Image, ImageSequence

import gomoku_jax as gj
from gomoku_jax.game import ascii_board
from gomoku_jax.play.adapters import gymnasium_env, pettingzoo_env, pgx_env
from gomoku_jax.play.pictures import animation, board_image

SIZES: list[tuple[int, int, int, typing.Any]] = [
    (3, 3, 3, "freestyle"),
    (4, 6, 4, "exact"),
    (5, 3, 3, "freestyle"),
]
RECTANGLE: dict[str, typing.Any] = {"height": 4, "width": 5, "k": 4}


def first_legal(key, states):
    """A player without chance: the lowest empty point."""
    del key
    return jnp.argmax(states.board.reshape(states.board.shape[0], -1) == 0, axis=-1).astype(jnp.int32)


SCATTERED = np.random.default_rng(5).permutation(26 * 26)


def scattered_legal(key, states):
    """A player without chance that builds no lines: the first empty point in a fixed order without sense."""
    del key
    flat = states.board.reshape(states.board.shape[0], -1)
    order = jnp.asarray(SCATTERED[flat.shape[1] > SCATTERED], jnp.int32)
    return order[jnp.argmax(flat[:, order] == 0, axis=-1)]


def last_legal(key, states):
    """A player without chance: the highest empty point."""
    flat = states.board.reshape(states.board.shape[0], -1)
    return (flat.shape[1] - 1 - jnp.argmax(flat[:, ::-1] == 0, axis=-1)).astype(jnp.int32)


def planes(game: oracle.Game, color: int) -> np.ndarray:
    """The four planes of a game as `color` sees them, in plain Python."""
    board = np.asarray(game.board)
    last = np.zeros(game.height * game.width)
    if game.moves:
        last[game.moves[-1]] = 1
    shown = [board == color, board == -color, last.reshape(board.shape), np.full(board.shape, color == 1)]
    return np.stack(shown, axis=-1).astype(np.float32)


# A missing library.


@pytest.mark.parametrize("library", ["gymnasium", "pettingzoo", "pgx"])
def test_a_missing_library_names_the_extra(library, monkeypatch):
    name = f"gomoku_jax.play.adapters.{library}_env"
    for module in [name, *(module for module in sys.modules if module.split(".")[0] == library)]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=rf"pip install 'gomoku_jax\[{library}\]'"):
        importlib.import_module(name)


# Gymnasium.


@pytest.mark.parametrize("render_mode", ["ansi", None])
def test_gymnasium_checks_the_environment(render_mode):
    env = gymnasium.make(gymnasium_env.ENV_ID, **RECTANGLE, render_mode=render_mode)
    check_env(env.unwrapped)


def test_gymnasium_finds_the_module_in_the_id():
    env_id = f"gomoku_jax.play.adapters.gymnasium_env:{gymnasium_env.ENV_ID}"
    env = gymnasium.make(env_id, height=3, width=4, k=3)
    assert isinstance(env.unwrapped, gymnasium_env.GomokuEnv)
    assert env.unwrapped.game == gj.Gomoku(3, 4, 3)


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
def test_gymnasium_games_follow_the_rules(size):
    height, width, k, rule = size
    env = gymnasium.make(
        gymnasium_env.ENV_ID,
        height=height,
        width=width,
        k=k,
        rule=rule,
        opponent=scattered_legal,
    )
    env.action_space.seed(3)
    results = set()
    for seed in range(16):
        game = oracle.Game(height, width, k, rule)
        observation, info = env.reset(seed=seed)
        color = info["agent_color"]
        reward, terminated = 0.0, False
        while True:
            if not game.terminated and game.to_play != color:
                game.play(next(int(action) for action in SCATTERED if game.is_legal(int(action))))
            legal = [game.is_legal(action) for action in range(height * width)]
            np.testing.assert_array_equal(observation, planes(game, color))
            np.testing.assert_array_equal(info["action_mask"], np.asarray(legal, np.int8))
            assert info["action_mask"].dtype == np.int8 and info["agent_color"] == color
            assert terminated == game.terminated and reward == game.winner * color
            if terminated:
                break
            action = env.action_space.sample(info["action_mask"])
            game.play(int(action))
            observation, reward, terminated, truncated, info = env.step(action)
            assert not truncated and not info["illegal_action"]
        results.add((color, reward))
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)
    assert {(1, 1), (1, -1), (-1, 1), (-1, -1)} <= results


def play_out(env, seed: int) -> list:
    """Everything shown in some steps of random legal play."""
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    shown = [observation.tobytes(), info["agent_color"]]
    for _ in range(6):
        observation, reward, terminated, _, info = env.step(env.action_space.sample(info["action_mask"]))
        shown += [observation.tobytes(), reward, terminated]
        if terminated:
            observation, info = env.reset()
            shown += [observation.tobytes(), info["agent_color"]]
    return shown


def test_gymnasium_repeats_by_seed():
    options = {**RECTANGLE, "opponent": "random", "opening_stones": 3}
    envs = [gymnasium.make(gymnasium_env.ENV_ID, **options) for _ in range(2)]
    runs = [play_out(envs[0], seed) for seed in range(6)]
    assert runs == [play_out(envs[1], seed) for seed in range(6)]
    assert {run[1] for run in runs} == {1, -1}, "both colours"
    assert len({run[0] for run in runs}) > 2, "different openings"
    stones = np.frombuffer(runs[0][0], np.float32).reshape(4, 5, 4)[..., :2].sum()
    assert stones == (3 if runs[0][1] == -1 else 4), "white moves after three stones"


def test_gymnasium_illegal_actions():
    options = {**RECTANGLE, "agent_color": "black", "opponent": first_legal}
    env: typing.Any = gymnasium.make(gymnasium_env.ENV_ID, **options, illegal="raise").unwrapped
    env.reset(seed=0)
    observation, *_ = env.step(7)
    for action, reason in ((7, "c2 is taken"), (0, "a1 is taken"), (20, "0 to 19"), (-1, "0 to 19")):
        with pytest.raises(gj.IllegalMoveError, match=reason):
            env.step(action)
    assert int(env.state.move_count) == 2
    after, *_ = env.step(1)
    assert after.sum() > observation.sum()
    env = gymnasium.make(gymnasium_env.ENV_ID, **options).unwrapped
    for action in (0, 20, -1):
        env.reset(seed=0)
        before, *_ = env.step(7)
        observation, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["illegal_action"]) == (-1.0, True, True)
        assert not info["action_mask"].any()
        np.testing.assert_array_equal(observation, before)


def test_gymnasium_options_that_cannot_be():
    options: dict[str, typing.Any]
    for options, message in (
        ({"agent_color": "red"}, "agent_color = 'red'"),
        ({"illegal": "ignore"}, "illegal = 'ignore'"),
        ({"render_mode": "human"}, "render_mode = 'human'"),
        ({"opening_stones": 8}, "opening_stones = 8: from 0 to 2"),
        ({"opponent": 3}, "opponent = 3"),
        ({"k": 16}, "k = 16"),
    ):
        with pytest.raises(ValueError, match=message):
            gymnasium_env.GomokuEnv(**options)
    with pytest.raises(gj.agent.AgentError, match="no such player"):
        gymnasium_env.GomokuEnv(opponent="nobody")


def test_gymnasium_reports_an_opponent_that_cheats():
    env = gymnasium_env.GomokuEnv(
        **RECTANGLE, agent_color="black", opponent=lambda key, states: states.last_action
    )
    env.reset(seed=0)
    with pytest.raises(gj.IllegalMoveError, match="opponent"):
        env.step(3)


def test_gymnasium_agents_are_opponents():
    envs = gymnasium.make_vec(
        gymnasium_env.ENV_ID, num_envs=8, height=6, width=6, k=4, opponent="6x6x4@0", agent_color="white"
    )
    observation, infos = envs.reset(seed=0)
    opponents = observation[..., 1].reshape(8, -1)
    assert (opponents.sum(-1) == 1).all() and (opponents == opponents[0]).all(), "one move, without chance"
    envs.action_space.seed(0)
    total = np.zeros(8)
    for _ in range(18):
        observation, reward, *_, infos = envs.step(envs.action_space.sample(tuple(infos["action_mask"])))
        total += reward
    assert total.sum() < -6, "random play loses to the agent"


@pytest.mark.parametrize("color", ["black", "white"])
def test_gymnasium_vector_is_so_many_single_ones(color):
    options = {**RECTANGLE, "opponent": last_legal, "agent_color": color}
    batch = gymnasium.make_vec(gymnasium_env.ENV_ID, num_envs=5, **options)
    singles = gymnasium.make_vec(gymnasium_env.ENV_ID, num_envs=5, vectorization_mode="sync", **options)
    assert isinstance(batch.unwrapped, gymnasium_env.GomokuVectorEnv)
    assert isinstance(singles.unwrapped, gymnasium.vector.SyncVectorEnv)
    assert batch.metadata["autoreset_mode"] == singles.metadata["autoreset_mode"]
    assert batch.observation_space == singles.observation_space and batch.action_space == singles.action_space
    shown, expected = batch.reset(seed=1), singles.reset(seed=1)
    rng = np.random.default_rng(0)
    ended = illegal = 0
    for _ in range(40):
        assert len(shown) == len(expected)
        for ours, theirs in zip(shown[:-1], expected[:-1], strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        assert shown[-1].keys() == expected[-1].keys()
        for name in shown[-1]:
            np.testing.assert_array_equal(shown[-1][name], expected[-1][name])
        # Mostly legal, now and then not.
        masks = shown[-1]["action_mask"]
        picks = [rng.choice(np.flatnonzero(mask)) if mask.any() else 0 for mask in masks]
        actions = np.where(rng.random(5) < 0.1, rng.integers(0, 20, 5), picks)
        shown, expected = batch.step(actions), singles.step(actions)
        ended += shown[2].sum()
        illegal += shown[-1]["illegal_action"].sum()
    assert ended > 10 and illegal > 2


def test_gymnasium_vector_wrong_actions():
    options = {**RECTANGLE, "illegal": "raise", "agent_color": "black", "opponent": last_legal}
    envs = gymnasium.make_vec(gymnasium_env.ENV_ID, num_envs=5, **options)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.arange(5))
    envs.reset(seed=0)
    for actions in (np.arange(5.0), np.arange(2)):
        with pytest.raises(ValueError, match="5 integers"):
            envs.step(actions)
    with pytest.raises(gj.IllegalMoveError, match="game 1, action 20"):
        envs.step(np.array([0, 20, 1, 2, 3]))
    observation, *_ = envs.step(np.arange(5))
    assert (observation[..., :2].sum((1, 2, 3)) == 2).all(), "the refused step changed nothing"


def test_gymnasium_pictures():
    options = {**RECTANGLE, "agent_color": "black", "opponent": first_legal}
    game = gj.Gomoku(4, 5, 4)
    pictures = {}
    for render_mode in ("ansi", "rgb_array"):
        env = gymnasium_env.GomokuEnv(**options, render_mode=render_mode)
        env.reset(seed=0)
        env.step(7)
        pictures[render_mode] = env.render()
    state = gj.replay_moves(game, "c2a1")
    assert pictures["ansi"] == ascii_board(state)
    np.testing.assert_array_equal(pictures["rgb_array"], board_image(state))
    options |= {"opponent": last_legal}
    envs = gymnasium_env.GomokuVectorEnv(5, **options, render_mode="ansi")
    envs.reset(seed=0)
    envs.step(np.arange(5))
    assert envs.render() == tuple(ascii_board(gj.replay_moves(game, [i, 19])) for i in range(5))


# PettingZoo.


# PettingZoo expects dicts of its own classic games only, which it knows by name, and recommends names such
# as "player_0", where ours say the colour.
@pytest.mark.filterwarnings("ignore:We recommend agents to be named")
@pytest.mark.filterwarnings("ignore:Observation is not a NumPy array")
@pytest.mark.filterwarnings("ignore:Observation space for each agent probably should be")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pettingzoo_tests_the_api(size, capsys):
    height, width, k, rule = size
    pettingzoo.test.api_test(pettingzoo_env.env(height=height, width=width, k=k, rule=rule), num_cycles=60)
    assert "Passed API test" in capsys.readouterr().out


def test_pettingzoo_tests_seeds_and_pictures(capsys):
    make: typing.Any = functools.partial(pettingzoo_env.env, **RECTANGLE)
    pettingzoo.test.seed_test(make, num_cycles=30)
    pettingzoo.test.render_test(make)
    assert "4  .  .  .  .  ." in capsys.readouterr().out, "human mode prints the board"


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pettingzoo_games_follow_the_rules(size):
    env: typing.Any = pettingzoo_env.env(**dict(zip(("height", "width", "k", "rule"), size, strict=True)))
    rng = np.random.default_rng(0)
    winners = set()
    for _ in range(8):
        game = oracle.Game(*size)
        env.reset()
        last = {}
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, _ = env.last()
            color = {"black": 1, "white": -1}[agent]
            assert terminated == game.terminated and not truncated
            np.testing.assert_array_equal(observation["observation"], planes(game, color))
            if terminated:
                last[agent] = reward
                env.step(None)
                continue
            assert reward == 0 and color == game.to_play
            legal = [game.is_legal(action) for action in range(game.height * game.width)]
            np.testing.assert_array_equal(observation["action_mask"], np.asarray(legal, np.int8))
            waiting = env.observe("white" if agent == "black" else "black")
            np.testing.assert_array_equal(waiting["observation"], planes(game, -color))
            assert not waiting["action_mask"].any()
            action = int(rng.choice(np.flatnonzero(legal)))
            game.play(action)
            env.step(action)
        assert last == {"black": game.winner, "white": -game.winner}
        winners.add(game.winner)
    assert len(winners) > 1


def test_pettingzoo_illegal_moves():
    raw = pettingzoo_env.raw_env(**RECTANGLE)
    raw.reset()
    raw.step(7)
    for action, reason in ((7, "c2 is taken"), (20, "0 to 19")):
        with pytest.raises(gj.IllegalMoveError, match=reason):
            raw.step(action)
    assert raw.agent_selection == "white"
    env = pettingzoo_env.env(**RECTANGLE)
    env.reset()
    env.step(7)
    env.step(7)
    assert env.terminations == {"black": True, "white": True}
    assert env.rewards == {"black": 0, "white": -1}
    copy = pickle.loads(pickle.dumps(pettingzoo_env.raw_env(**RECTANGLE, rule="exact")))
    assert copy.game == gj.Gomoku(4, 5, 4, "exact")


# pgx.


@pytest.fixture(scope="module")
def pgx_game():
    """An environment, and its compiled functions of one game."""
    env = pgx_env.Gomoku(4, 5, 4)
    return env, jax.jit(env.init), jax.jit(env.step)


def test_pgx_tests_the_api(monkeypatch):
    env = pgx_env.Gomoku(3, 4, 3)
    # Of pgx 2.6.0's test: it draws actions along axis 1, which a single mask does not have (newer JAX raises
    # IndexError, for pgx's own games too), and it asks that the id be one of pgx's own games.
    draw = jax.jit(lambda key, mask: jax.random.categorical(key, jnp.log(mask.astype(jnp.float32)), axis=-1))
    monkeypatch.setattr(pgx._src.api_test, "act_randomly", draw)
    monkeypatch.setattr(pgx._src.api_test, "EnvId", typing.Literal[env.id])
    pgx.api_test(env, 4)


def test_pgx_names_and_shapes(pgx_game):
    env = pgx_env.Gomoku(4, 6, 4, "exact")
    assert (env.id, env.version, env.num_players, env.num_actions) == ("gomoku_4x6x4_exact", "v0", 2, 24)
    assert env.observation_shape == (4, 6, 4)
    _, init, _ = pgx_game
    state = init(jax.random.key(0))
    assert state.observation.dtype == bool and state.rewards.dtype == jnp.float32
    assert (state.env_id, state.observation.shape) == ("gomoku_4x5x4", (4, 5, 4))
    assert init(jax.random.PRNGKey(0)).current_player in (0, 1), "pgx programs use the old kind of key"


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_pgx_games_follow_the_rules(size):
    env = pgx_env.Gomoku(*size)
    num_games, points = 16, env.num_actions
    keys = jax.random.split(jax.random.key(1), num_games)
    rng = np.random.default_rng(1)
    order = np.stack([rng.permutation(points).astype(np.int32) for _ in range(num_games)])

    def play(state, action):
        after = jax.vmap(env.step)(state, action)
        return after, after

    start = jax.jit(jax.vmap(env.init))(keys)
    _, states = jax.jit(lambda state: jax.lax.scan(play, state, jnp.asarray(order.T)))(start)
    states = jax.device_get(states)  # [A, games, ...]
    first = np.asarray(start.current_player)
    assert set(first.tolist()) == {0, 1}
    winners = set()
    for i in range(num_games):
        game, player = oracle.Game(*size), {1: first[i], -1: 1 - first[i]}
        for move, action in enumerate(order[i]):
            was_over = game.terminated
            game.play(int(action))
            at = jax.tree.map(lambda x, move=move, i=i: x[move, i], states)
            assert bool(at.terminated) == game.terminated and not at.truncated
            assert at._step_count == len(game.moves)
            rewards = [0.0, 0.0]
            if not was_over:
                rewards[player[1]], rewards[player[-1]] = game.winner, -game.winner
            assert at.rewards.tolist() == rewards
            assert at.current_player == player[game.to_play]
            np.testing.assert_array_equal(at.observation, planes(game, game.to_play).astype(bool))
            legal = [game.terminated or game.is_legal(action) for action in range(points)]
            assert at.legal_action_mask.tolist() == legal
        winners.add(game.winner)
    assert len(winners) > 1


def test_pgx_both_players_see_their_own_stones(pgx_game):
    env, init, step = pgx_game
    state = step(init(jax.random.key(0)), 7)
    game = oracle.Game(4, 5, 4, "freestyle")
    game.play(7)
    with pytest.warns(DeprecationWarning, match="player_id"):  # pgx means to drop the argument
        views = [np.asarray(env.observe(state, player)) for player in (0, 1)]
    np.testing.assert_array_equal(views[state.current_player], planes(game, -1).astype(bool))
    np.testing.assert_array_equal(views[1 - state.current_player], planes(game, 1).astype(bool))


@pytest.mark.parametrize("action", [7, 20, 1000, -1, -13])
def test_pgx_illegal_actions_lose(pgx_game, action):
    _, init, step = pgx_game
    state = step(init(jax.random.key(0)), 7)
    mover = int(state.current_player)
    after = step(state, action)
    assert bool(after.terminated) and after.legal_action_mask.all()
    assert (after.rewards[mover], after.rewards[1 - mover]) == (-1.0, 1.0)
    assert int(after._x.move_count) == 1
    for again in (3, 1000):
        still = step(after, again)
        assert bool(still.terminated) and not still.rewards.any() and int(still._x.move_count) == 1


def test_pgx_draws_with_our_pictures(pgx_game, tmp_path):
    _, init, _ = pgx_game
    state = init(jax.random.key(0))
    states = jax.tree.map(lambda x: jnp.stack([x] * 3), state)
    states.save_svg(tmp_path / "boards.svg")
    assert (tmp_path / "boards.svg").read_text().count("<g ") == 3
    assert state._repr_html_().startswith("<svg")


@pytest.mark.slow
def test_pgx_alphazero_loop():
    """The body of pgx's AlphaZero example: self-play by mctx, targets with auto-reset, a step of learning."""
    env = pgx_env.Gomoku(3, 4, 3)
    batch_size, num_steps, num_simulations = 8, 16, 8
    library = typing.cast(typing.Any, mctx)  # its dataclasses are opaque to type checkers
    size = int(np.prod(env.observation_shape))
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "policy": 0.1 * jax.random.normal(keys[0], (size, env.num_actions)),
        "value": 0.1 * jax.random.normal(keys[1], (size,)),
    }

    def forward(params, observation):
        flat = observation.astype(jnp.float32).reshape(observation.shape[0], -1)
        return flat @ params["policy"], jnp.tanh(flat @ params["value"])

    def recurrent_fn(params, key, action, state):
        del key
        current_player = state.current_player
        state = jax.vmap(env.step)(state, action)
        logits, value = forward(params, state.observation)
        logits = jnp.where(state.legal_action_mask, logits, jnp.finfo(logits.dtype).min)
        reward = state.rewards[jnp.arange(state.rewards.shape[0]), current_player]
        output = library.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(state.terminated, 0.0, -jnp.ones_like(value)),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    @jax.jit
    def selfplay(params, key):
        def step(state, key):
            key1, key2 = jax.random.split(key)
            logits, value = forward(params, state.observation)
            policy = library.gumbel_muzero_policy(
                params=params,
                rng_key=key1,
                root=library.RootFnOutput(prior_logits=logits, value=value, embedding=state),
                recurrent_fn=recurrent_fn,
                num_simulations=num_simulations,
                invalid_actions=~state.legal_action_mask,
                qtransform=library.qtransform_completed_by_mix_value,
            )
            actor = state.current_player
            after = jax.vmap(auto_reset(env.step, env.init))(
                state, policy.action, jax.random.split(key2, batch_size)
            )
            discount = jnp.where(after.terminated, 0.0, -1.0)
            reward = after.rewards[jnp.arange(batch_size), actor]
            legal = state.legal_action_mask[jnp.arange(batch_size), policy.action]
            return after, (
                state.observation,
                reward,
                after.terminated,
                policy.action_weights,
                discount,
                legal,
            )

        init_key, key = jax.random.split(key)
        state = jax.vmap(env.init)(jax.random.split(init_key, batch_size))
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]

    observation, reward, terminated, weights, discount, legal = selfplay(params, keys[2])
    assert bool(legal.all()), "auto-reset begins games with their own masks"
    assert int(terminated.sum()) > batch_size, "games end and begin anew"
    assert bool((jnp.abs(reward) <= terminated).all()) and bool((reward == 1).any())
    assert bool((reward >= 0).all()), "nobody ends a game by losing it, an illegal action would"

    def value_target(next_value, step):
        value = step[0] + step[1] * next_value
        return value, value

    _, targets = jax.lax.scan(value_target, jnp.zeros(batch_size), (reward, discount), reverse=True)

    def loss(params):
        logits, value = jax.vmap(functools.partial(forward, params))(observation)
        policy_loss = -(weights * jax.nn.log_softmax(logits)).sum(-1).mean()
        return policy_loss + ((value - targets) ** 2).mean()

    losses = []
    for _ in range(4):
        value, gradient = jax.jit(jax.value_and_grad(loss))(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
        losses.append(float(value))
    assert losses[-1] < losses[0] and np.isfinite(losses).all()


# Pictures.


def test_board_pictures():
    game = gj.Gomoku(4, 5, 4)
    state = gj.replay_moves(game, "a1e4b1")
    image = board_image(state, cell=32)
    assert image.dtype == np.uint8 and image.shape == (160, 192, 3)

    def color(col, row):  # off the centre, where the last stone's mark is
        return image[(4 - row) * 32 + 6, (col + 1) * 32 + 6].astype(int)

    assert color(0, 0).max() < 60 and color(1, 0).max() < 60, "a1 and b1 are black, row 1 at the bottom"
    assert color(4, 3).min() > 230, "e4 is white"
    assert 100 < color(2, 2).mean() < 230, "c3 is empty"
    assert image[128, 64, 0] > 150 > image[128, 64, 1], "the last move carries a red mark"
    with pytest.raises(ValueError, match="one game"):
        board_image(jax.tree.map(lambda x: x[None], state))


@pytest.mark.parametrize("kind", ["gif", "png"])
def test_animations(kind):
    game = gj.Gomoku(4, 5, 4)
    moves = [0, 10, 1, 11, 2, 12, 3]
    data = animation(game, moves, kind, cell=16)
    picture = Image.open(io.BytesIO(data))
    assert picture.format == kind.upper()
    frames = [np.asarray(frame.convert("RGB"), int) for frame in ImageSequence.Iterator(picture)]
    assert len(frames) == len(moves) + 1
    for count, frame in enumerate(frames):
        line = np.asarray(game.winning_line(gj.replay_moves(game, moves[:count])))
        expected = board_image(gj.replay_moves(game, moves[:count]), moves[:count], line, cell=16)
        assert np.abs(frame - expected).mean() < 6
