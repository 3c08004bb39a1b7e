"""The host side of playing: game records, thinking, the choice of an agent, host players, the command."""

import dataclasses
import functools
import json
import os
import subprocess
import sys

import jax
import numpy as np
import oracle
import pytest

import gomoku_jax as gj
from gomoku_jax.agent import AGENT_FOLDER, SHIPPED_FOLDER, AgentError, save_agent
from gomoku_jax.config import GameConfig, NetworkConfig, SearchConfig
from gomoku_jax.game import parse_board
from gomoku_jax.play import cli
from gomoku_jax.play.choose import best_shipped, choose, found_runs
from gomoku_jax.play.opponents import AgentPlayer, Limit, make_opponent
from gomoku_jax.play.record import GameRecord
from gomoku_jax.play.thinking import MAX_SIMULATIONS, Thinker, rollout_view, watching_config

GAME = gj.Gomoku(3, 4, 3)
NETWORK = NetworkConfig(channels=8, num_blocks=1, value_hidden=8)


@functools.cache
def agent() -> gj.Agent:
    params = gj.init_network(NETWORK, GAME, jax.random.key(0))
    return gj.Agent(GAME, NETWORK, params, SearchConfig("gumbel", 8), {})


@functools.cache
def thinker() -> Thinker:
    return Thinker(agent())


# Records.


def test_a_record_plays_takes_back_and_branches():
    record = GameRecord(GAME, ["a1", 5, "c1"])
    assert (record.moves, record.to_play, str(record)) == ([0, 5, 2], -1, "a1b2c1")
    assert record.undo(2) == 2 and record.moves == [0] and record.can_redo == 2
    assert record.redo() == 1 and record.moves == [0, 5]
    record.undo()
    record.play("b2")  # the move that was taken back: what followed is kept
    assert record.can_redo == 1 and record.redo(9) == 1 and record.moves == [0, 5, 2]
    record.undo(2)
    record.play("d3")
    assert record.can_redo == 0 and record.undo(9) == 2 and record.to_play == 1
    assert record.redo(9) == 2 and record.moves == [0, 11]


def test_a_record_refuses_illegal_moves_and_stays_as_it_is():
    record = GameRecord(GAME, ["a1", "a2"])
    record.undo()
    for move, reason in (("a1", "taken"), ("e1", "not on the board"), ("zz", "not a point"), (99, "0 to 11")):
        with pytest.raises(gj.IllegalMoveError, match=reason):
            record.play(move)
    assert record.moves == [0] and record.can_redo == 1
    won = GameRecord(GAME, ["a1", "a2", "b1", "b2", "c1"])
    assert won.over and won.winner == 1 and won.winning_points == [0, 1, 2] and won.legal_actions == []
    with pytest.raises(gj.IllegalMoveError, match="move 6, 'd1': the game has ended"):
        won.play("d1")
    won.undo()
    assert not won.over and won.winning_points == [] and won.legal_actions == [2, 3, 6, 7, 8, 9, 10, 11]


# Thinking.


def test_analyses_grow_and_end_as_asked():
    state = gj.replay_moves(GAME, "b2c1")
    found = list(thinker().analyses(state, simulations=50, interval=1e-9))
    counts = [analysis.num_simulations for analysis in found]
    assert counts[:3] == [0, 8, 9] and counts[-1] == 50 and counts == sorted(counts)
    legal = np.asarray(GAME.legal_action_mask(state))
    for analysis in found:
        assert analysis.visits.sum() == analysis.num_simulations and analysis.to_play == 1
        assert not analysis.visits[~legal].any() and not analysis.prior[~legal].any()
        assert analysis.prior.sum() == pytest.approx(1, abs=1e-5)
        assert (np.abs(analysis.q) <= 1).all() and legal[analysis.action]
        ranked = [candidate.visits for candidate in analysis.candidates]
        assert ranked == sorted(ranked, reverse=True) and all(ranked)
        for candidate in analysis.candidates:
            assert candidate.line[0] == candidate.action
            assert candidate.visits == analysis.visits[candidate.action]
            assert candidate.q == pytest.approx(analysis.q[candidate.action])
            # Every line can be played.
            GameRecord(GAME, [5, 2, *candidate.line])
    last = found[-1]
    assert last.action == last.candidates[0].action and last.visits[last.action] == last.visits.max()
    # It is what the batched search finds with the same config.
    config = watching_config(agent().search, 50)
    batch = jax.tree.map(lambda x: np.asarray(x)[None], state)
    tree = gj.ResumableSearch(GAME, NETWORK, agent().params, jax.random.key(0), batch, config)
    np.testing.assert_array_equal(tree.run(50).output.visit_counts[0], last.visits)


def test_a_search_finds_the_win_and_the_block():
    win, block = gj.replay_moves(GAME, "a1a2b1d2"), gj.replay_moves(GAME, "a1b2c3d2")
    assert thinker().best_action(win, simulations=100) == 2
    assert thinker().best_action(block, simulations=300) == 6  # c2, between b2 and d2


def test_time_ends_a_search():
    analyses = list(thinker().analyses(GAME.init(), seconds=1e-9, room=64))
    assert [analysis.num_simulations for analysis in analyses] == [0]
    assert thinker().best_action(GAME.init(), simulations=64, seconds=1e-9) in range(12)
    few = list(thinker().analyses(GAME.init(), simulations=20, seconds=3600.0, room=64))
    assert few[-1].num_simulations == 20


@pytest.mark.parametrize("simulations", [0, -1, MAX_SIMULATIONS + 1])
def test_a_search_that_cannot_be_is_refused(simulations):
    with pytest.raises(ValueError, match=f"simulations = {simulations}: from 1"):
        thinker().search(GAME.init(), simulations)


def test_room_comes_in_few_sizes():
    sizes = {watching_config(agent().search, most).num_simulations for most in range(1, 1025)}
    assert sizes == {64, 128, 256, 512, 1024}
    config = watching_config(SearchConfig("puct", c_puct=3.0, reuse_tree=True), 100)
    assert (config.c_puct, config.temperature, config.dirichlet_fraction) == (3.0, 0, 0)


def test_network_view():
    state = gj.replay_moves(GAME, "a1a2b1b2")  # black wins at c1
    view = thinker().network_view(state)
    legal = np.asarray(GAME.legal_action_mask(state))
    assert (np.isnan(view.move_values) == ~legal).all() and view.move_values[2] == 1 and view.to_play == 1
    for action in (3, 6):
        child = thinker().network_view(GAME.step(state, action))
        assert view.move_values[action] == pytest.approx(-child.value, abs=1e-5)
    assert view.prior.sum() == pytest.approx(1, abs=1e-5)
    assert thinker().best_action(state, simulations=0) == int(np.argmax(view.prior))


def test_rollouts_agree_with_plain_ones():
    state = gj.replay_moves(GAME, "a1a2b1b2")
    view = rollout_view(GAME, state, playouts=400, seed=3)
    legal = np.asarray(GAME.legal_action_mask(state))
    assert (np.isnan(view.move_values) == ~legal).all() and view.move_values[2] == 1
    rng = np.random.default_rng(0)

    def playout(action: int) -> float:
        board, color = [1, 1, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0], 1
        while True:
            board[action] = color
            winner = oracle.winners([board[row : row + 4] for row in (0, 4, 8)], 3, "freestyle")
            if winner or all(board):
                return float(sum(winner))
            action, color = int(rng.choice([i for i in range(12) if not board[i]])), -color

    for action in (3, 6):
        plain = np.mean([playout(action) for _ in range(400)])
        # Two means of 400 results in [-1, 1]: five standard errors of their difference at most.
        assert view.move_values[action] == pytest.approx(plain, abs=5 * np.sqrt(2 / 400))
    assert view.value == pytest.approx(np.nanmean(view.move_values), abs=1e-6)
    with pytest.raises(ValueError, match="playouts = 0"):
        rollout_view(GAME, state, playouts=0)


# Choosing an agent.


def fake_run(folder, game: gj.Gomoku, **network):
    config = NetworkConfig(**{"channels": 4, "num_blocks": 1, "value_hidden": 4, **network})
    params = gj.init_network(config, game, jax.random.key(0))
    board = GameConfig(game.height, game.width, game.k, game.rule)
    save_agent(folder / AGENT_FOLDER / "latest", board, config, SearchConfig(), params, {"iteration": 7})
    return folder


def test_the_newest_run_on_the_board_is_chosen(tmp_path):
    old = fake_run(tmp_path / "old", GAME)
    new = fake_run(tmp_path / "new", gj.Gomoku(5, 5, 4))
    os.utime(new / AGENT_FOLDER / "latest", (2e9, 2e9))
    (tmp_path / "junk").mkdir()
    assert found_runs(tmp_path) == [new, old]
    chosen = choose(runs=tmp_path)
    assert chosen.name == str(new) and chosen.game == gj.Gomoku(5, 5, 4)
    assert "newest run" in chosen.reason and "iteration 7" in chosen.reason
    assert choose(game=GAME, runs=tmp_path).name == str(old)
    # No run on this board: a shipped agent, by name.
    other = choose(game=gj.Gomoku(6, 6, 4), runs=tmp_path)
    assert other.name == "6x6x4" and "shipped" in other.reason
    assert found_runs(tmp_path / "nowhere") == []


def test_shipped_agents_play_their_board_and_others():
    names = gj.shipped_agents()
    assert set(names) == {"tictactoe", "6x6x4", "8x8x5", "9x9x5", "15x15x5"}
    assert best_shipped(None) == "6x6x4"
    assert best_shipped(gj.Gomoku(3, 3, 3)) == "tictactoe"
    assert best_shipped(gj.Gomoku(7, 9, 4, "exact")) == "6x6x4"
    assert best_shipped(gj.Gomoku(8, 8, 5)) == "8x8x5"
    assert best_shipped(gj.Gomoku(10, 10, 5)) == "9x9x5"
    assert best_shipped(gj.Gomoku(15, 15, 5)) == best_shipped(gj.Gomoku(20, 20, 5)) == "15x15x5"
    for name in names:
        loaded = gj.load_agent(name)
        card = (SHIPPED_FOLDER / name / "CARD.md").read_text()
        facts = (
            loaded.game.rule,
            f"{loaded.game.k} in a row",
            "simulations",
            "seed",
            "commit",
            "hours",
            "cores",
        )
        assert not [fact for fact in facts if fact not in card]
        assert "mcts:1000" in card and str(loaded.info["seed"]) in card
    elsewhere = choose("6x6x4", gj.Gomoku(15, 15, 5))
    assert "knows 4 in a row only" in elsewhere.reason
    assert Thinker(elsewhere.agent, elsewhere.game).network_view(elsewhere.game.init()).prior.shape == (225,)


def test_an_agent_is_found_by_folder_file_and_name(tmp_path, monkeypatch):
    run = fake_run(tmp_path / "run", GAME)
    for path in (run, run / AGENT_FOLDER / "latest", run / AGENT_FOLDER / "latest" / "agent.json"):
        assert gj.load_agent(path).game == GAME
    monkeypatch.chdir(tmp_path)
    (tmp_path / "6x6x4").mkdir()  # a folder of that name, but no agent: the shipped one
    assert gj.load_agent("6x6x4").game == gj.Gomoku(6, 6, 4)
    fake_run(tmp_path / "tictactoe", GAME)  # one's own agent comes first
    assert gj.load_agent("tictactoe").game == GAME and choose("tictactoe").game == GAME
    with pytest.raises(AgentError, match=r"no agent at nobody: .* shipped agent: tictactoe, 6x6x4"):
        gj.load_agent("nobody")


def test_a_conv_agent_plays_its_own_board_only(tmp_path):
    run = fake_run(tmp_path / "run", GAME, kind="conv", conv_channels=(4,))
    with pytest.raises(AgentError, match="plays 3x4, 3 in a row, freestyle only, not 4x4"):
        choose(str(run), gj.Gomoku(4, 4, 3))
    with pytest.raises(AgentError, match="plays 3x4"):
        make_opponent(str(run), gj.Gomoku(4, 4, 3), Limit())


@pytest.mark.parametrize("board", ["", "15", "15x15", "15x15x5x2", "ax15x5", "2x2x2", "27x27x5", "3x3x4"])
def test_a_board_that_cannot_be_is_refused(board):
    with pytest.raises(ValueError, match=r"board|height|k = 4"):
        parse_board(board)
    assert parse_board(" 7X9x5 ", "exact") == gj.Gomoku(7, 9, 5, "exact")


# Players on the host.


def test_host_players_choose_legal_moves(tmp_path):
    run = fake_run(tmp_path / "run", GAME)
    for spec in ("random", "tactical", "mcts:500", f"{run}@0", f"{run}@3", str(run)):
        player = make_opponent(spec, GAME, Limit(4))
        player.new_game()
        record = GameRecord(GAME, ["a1", "a2", "b1"])
        assert player.choose(record) in record.legal_actions
        if spec in ("tactical", "mcts:500"):
            assert player.choose(record) == 2, "the only block"
        player.close()
    named = make_opponent(f"{run}@3", GAME, Limit(50))
    assert isinstance(named, AgentPlayer) and named.limit.simulations == 3 and named.name == f"{run}@3"
    with pytest.raises(AgentError, match="no such player"):
        make_opponent("nobody", GAME, Limit())


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"simulations": -1}, "simulations = -1: from 0"),
        ({"simulations": 10**9}, "simulations = 1000000000: from 0"),
        ({"simulations": None}, "needs simulations or seconds"),
        ({"seconds": 0}, "seconds = 0: more than 0"),
        ({"seconds": float("nan")}, "seconds = nan: more than 0"),
    ],
)
def test_limits_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        Limit(**fields)
    assert dataclasses.astuple(Limit()) == (200, None)


# The command.


def test_the_command_explains_itself_and_refuses(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:" in text and all(f"\n  {name} " in text for name in cli.COMMANDS)
    assert cli.main([]) == 2 and "usage: gomoku-jax" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0 and gj.__version__ in capsys.readouterr().out
    assert cli.main(["chess"]) == 2
    assert "no command 'chess'; choose play, web" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help_with_examples(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"gomoku-jax {name}" in capsys.readouterr().out


def test_the_package_and_the_command_start_without_jax():
    program = (
        "import sys, json\n"
        "import gomoku_jax.play.cli as cli, gomoku_jax as gj\n"
        "cli.main(['--help'])\n"
        "before = 'jax' in sys.modules\n"
        "import gomoku_jax.search, gomoku_jax.train\n"
        "print(json.dumps([before, gj.search.__name__, callable(gj.search), callable(gj.train)]))\n"
    )
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert json.loads(out.splitlines()[-1]) == [False, "search", True, True]
