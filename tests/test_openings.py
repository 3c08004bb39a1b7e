"""Openings: pro and long pro in the rules, swap and swap2 between players."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_scripts
from matches import Helpers
from rows import read_rows
from test_gomocup_client import engine

from gomoku_jax.agent import parse_player
from gomoku_jax.arena import check_match, replayed_opening
from gomoku_jax.config import RULES, GameConfig
from gomoku_jax.encode import legal_action_masks, legal_action_masks_of_rules
from gomoku_jax.game import Gomoku, IllegalMoveError, random_opening, replay_moves
from gomoku_jax.openings import DECISIVE, FIRST, SECOND, Choice, Opener, SwapOpening, random_openings
from gomoku_jax.play.adapters.gymnasium_env import GomokuEnv
from gomoku_jax.play.adapters.pettingzoo_env import raw_env
from gomoku_jax.play.gomocup.client import EnginePlayer
from gomoku_jax.play.match import play_host_match
from gomoku_jax.play.opponents import FunctionPlayer
from gomoku_jax.players import random_player
from gomoku_jax.search import pure_mcts
from gomoku_jax.solver import Solver
from gomoku_jax.suites import fours_suite
from gomoku_jax.swap_arena import batch_judge, play_swap_match, spec_opener
from gomoku_jax.symmetry import canonical_position, image_table

SMALL = Gomoku(6, 6, 4)

# Pro and long pro.


def allowed_by_hand(height: int, width: int, away: int, stones: list[int]) -> set[int]:
    """The points for the next stone, in plain Python."""
    points = set(range(height * width)) - set(stones)
    if len(stones) == 0:
        rows = {(height - 1) // 2, height // 2}
        cols = {(width - 1) // 2, width // 2}
        return {row * width + col for row, col in itertools.product(rows, cols)}
    if len(stones) != 2:
        return points
    row, col = divmod(stones[0], width)
    return {p for p in points if abs(p // width - row) >= away or abs(p % width - col) >= away}


@pytest.mark.parametrize(("opening", "away"), [("pro", 3), ("long_pro", 4)])
@pytest.mark.parametrize("size", [(15, 15, 5), (8, 9, 5), (9, 6, 4)])
def test_the_opening_binds_blacks_first_two_stones(opening, away, size):
    height, width, k = size
    game = Gomoku(height, width, k, opening=opening)
    rng = np.random.default_rng(3)
    steps, masks = jax.jit(game.step), jax.jit(game.legal_action_mask)
    asked = jax.jit(jax.vmap(game.is_legal, (None, 0)))
    for _ in range(6):
        state, stones = game.init(), []
        for _ in range(5):
            allowed = allowed_by_hand(height, width, away, stones)
            assert set(np.flatnonzero(masks(state)).tolist()) == allowed
            assert set(np.flatnonzero(asked(state, np.arange(game.num_actions))).tolist()) == allowed
            refused = sorted(set(range(game.num_actions)) - allowed)
            if refused:
                after = steps(state, int(rng.choice(refused)))
                assert all(map(np.array_equal, jax.tree.leaves(after), jax.tree.leaves(state)))
            stones.append(int(rng.choice(sorted(allowed))))
            state = steps(state, stones[-1])


def test_the_opening_has_the_boards_symmetries():
    game = Gomoku(8, 8, 5, opening="pro")
    masks = jax.jit(lambda moves: game.legal_action_mask(replayed_opening(game, moves)[0]))
    stones = np.array([3 * 8 + 4, 7])
    mask = np.asarray(masks(stones))
    for image in image_table(8, 8):
        turned = np.asarray(masks(image[stones]))
        np.testing.assert_array_equal(turned[image], mask)


def test_a_stone_that_the_opening_does_not_have_is_refused_with_its_reason():
    game = Gomoku(15, 15, 5, opening="long_pro")
    with pytest.raises(IllegalMoveError, match=r"move 1, 'h9': h9: the long pro opening begins .* at h8"):
        replay_moves(game, "h9")
    with pytest.raises(IllegalMoveError, match=r"move 3, 'k11': .* at least 4 points away from h8"):
        replay_moves(game, "h8a1k11")
    assert int(replay_moves(game, "h8a1l8i8h9").move_count) == 5
    with pytest.raises(ValueError, match="is not played by the rules"):
        check_match(game, 2, 0, [[112, 0, 113]])


def test_stored_positions_of_several_rules_know_the_opening():
    games = [Gomoku(8, 8, 5, rule, opening="long_pro") for rule in ("exact", "renju")]
    states = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(replay_moves(games[0], m) for m in ("", "d4", "d4e5"))
    )
    for game in games:
        rule = jnp.full(3, RULES.index(game.rule), jnp.int8)
        found = legal_action_masks_of_rules(games, states, rule)
        np.testing.assert_array_equal(found, legal_action_masks(game, states))
        assert found.sum(-1).tolist() == [4, 63, 15]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opening": "swap"}, "opening = 'swap': choose one of free, pro, long_pro"),
        ({"k": 3, "opening": "pro"}, "opening = 'pro': for 4 or more in a row"),
        ({"height": 5, "width": 5, "opening": "pro"}, "opening = 'pro': .* side of at least 6, not 5x5"),
        ({"height": 7, "width": 7, "opening": "long_pro"}, "side of at least 8, not 7x7"),
    ],
)
def test_games_without_such_an_opening_are_refused(arguments, message):
    for make in (Gomoku, GameConfig):
        with pytest.raises(ValueError, match=message):
            make(**({"height": 15, "width": 15, "k": 5} | arguments))
    game = Gomoku.from_config(GameConfig(15, 15, 5, opening="pro"))
    assert game.facts()["opening"] == "pro" and str(game).endswith("freestyle, pro opening")


def test_random_stones_before_a_game_open_so():
    game = Gomoku(6, 6, 4, opening="pro")
    keys = jax.random.split(jax.random.key(0), 32)
    states = jax.jit(jax.vmap(lambda k: random_opening(game, k, jnp.int32(3), 3)))(keys)
    for board in np.asarray(states.board).reshape(32, -1):
        black, (white,) = np.flatnonzero(board > 0).tolist(), np.flatnonzero(board < 0).tolist()
        central = set(black) & allowed_by_hand(6, 6, 3, [])
        assert len(black) == 2 and any(
            set(black) - {first} <= allowed_by_hand(6, 6, 3, [first, white]) for first in central
        )


# Swap and swap2: who places, who chooses, who has which colour.


def placed(swap: str, kinds: list[str], stones: str = "a1f6c1") -> SwapOpening:
    opening = SwapOpening(SMALL, swap)
    for stone in (stones[:2], stones[2:4], stones[4:]):
        assert opening.turn == FIRST and opening.choices == ()
        opening.place(stone)
    for kind in kinds:
        opening.choose(kind)
        if kind == "add":
            assert opening.turn == SECOND and opening.missing == 2
            opening.place("d1")
            opening.place("d4")
    return opening


@pytest.mark.parametrize(
    ("swap", "kinds", "first_color", "stones"),
    [
        ("swap", ["white"], 1, 3),
        ("swap", ["black"], -1, 3),
        ("swap2", ["white"], 1, 3),
        ("swap2", ["black"], -1, 3),
        ("swap2", ["add", "white"], -1, 5),
        ("swap2", ["add", "black"], 1, 5),
    ],
)
def test_the_chooser_gets_the_colour_it_takes(swap, kinds, first_color, stones):
    opening = placed(swap, kinds)
    assert opening.over and opening.first_color == first_color
    assert len(opening.stones) == stones and int(opening.state.to_play) == -1


def test_what_an_opening_does_not_allow_is_refused():
    opening = SwapOpening(SMALL, "swap")
    with pytest.raises(ValueError, match="choice = 'white': nothing is to be chosen"):
        opening.choose("white")
    opening.place("a1")
    with pytest.raises(IllegalMoveError, match="move 2, 'a1': a1 is taken"):
        opening.place("a1")
    opening.place(5)
    opening.place(7)
    with pytest.raises(IllegalMoveError, match="the opening has 3 stones"):
        opening.place("f6")
    with pytest.raises(ValueError, match="choice = 'add': choose one of white, black"):
        opening.choose("add")
    with pytest.raises(ValueError, match="choose one of white, black"):
        placed("swap2", ["add"]).choose("add")
    with pytest.raises(IllegalMoveError, match="1 stones added: the opening needs 2"):
        placed("swap2", []).apply(Choice("add", (1,)))
    with pytest.raises(ValueError, match="swap = 'swap3': choose one of swap, swap2"):
        SwapOpening(SMALL, "swap3")
    with pytest.raises(ValueError, match="not together with the pro opening"):
        SwapOpening(Gomoku(6, 6, 4, opening="pro"), "swap2")
    three = SwapOpening(Gomoku(4, 4, 3), "swap2")
    for stone in ("a1", "a4", "b1"):
        three.place(stone)
    three.choose("add")
    three.place("b4")
    with pytest.raises(IllegalMoveError, match="must not end the game"):
        three.place("c1")


def test_random_openings_are_different_positions():
    openings = random_openings(SMALL, 3, 300, np.random.default_rng(0))
    assert len(openings) == 300 and all(len(set(moves)) == 3 for moves in openings)
    assert len({canonical_position(6, 6, moves) for moves in openings}) == 300
    more = random_openings(SMALL, 5, 20, np.random.default_rng(0), begin=(0, 1, 2))
    assert all(moves[:3] == (0, 1, 2) and len(set(moves)) == 5 for moves in more)
    tiny = Gomoku(3, 3, 3)
    for moves in random_openings(tiny, 5, 40, np.random.default_rng(0)):
        assert not bool(replay_moves(tiny, moves).terminated)


def corner_stones(openings):
    """A judge in plain Python, White's view: -0.3 for every stone in the left half, and never 0."""
    return np.asarray([0.05 - 0.3 * sum(move % 6 < 3 for move in moves) for moves in openings])


def test_an_opener_places_even_stones_and_takes_the_better_side():
    opener = Opener(SMALL, corner_stones, seed=5)
    for stones in opener.proposals(4):
        assert all(move % 6 >= 3 for move in stones)
    choice = opener.choose((0, 6, 12), may_add=True)
    assert choice.kind == "black" and not choice.stones and choice.value == pytest.approx(-0.85)
    even = opener.choose((5, 11, 17), may_add=True)
    assert even.kind == "add" and abs(0.05) < DECISIVE and even.value == pytest.approx(0.05)
    assert len(even.stones) == 2 and all(move % 6 >= 3 for move in even.stones)
    assert opener.choose((5, 11, 17), may_add=False).kind == "white"
    lots = {Opener(SMALL, seed=seed).choose((0, 1, 2), True).kind for seed in range(20)}
    assert lots == {"white", "black"}  # without an opinion


def test_the_slow_judge_is_asked_about_few():
    asked = []

    def slow(openings):
        asked.append(len(openings))
        return corner_stones(openings)

    Opener(SMALL, slow, 0, corner_stones).propose()
    assert asked == [4]


def test_a_match_by_swap2():
    agent, other = parse_player("6x6x4@0"), parse_player("tactical")
    a, b = agent.make(SMALL), other.make(SMALL)
    a_opener, b_opener = spec_opener(agent, SMALL, 0), spec_opener(other, SMALL, 1)
    result = play_swap_match(a, b, SMALL, "swap2", a_opener, b_opener, num_games=13, seed=2)
    assert result.num_games == 13 and agent.make_values is not None
    judge = batch_judge(SMALL, agent.make_values(SMALL))
    proposals = spec_opener(agent, SMALL, 0).proposals(7), spec_opener(other, SMALL, 1).proposals(6)
    for number, moves in enumerate(result.games):
        a_places = number % 2 == 0
        stones = result.opening_stones[number]
        state = replay_moves(SMALL, moves)  # every game is played by the rules, to its end
        assert bool(state.terminated) and int(state.winner) == result.winners[number]
        assert tuple(moves[:3]) == proposals[number % 2][number // 2]
        if not a_places:  # the agent has the colour that it thinks better, or has added to an even board
            value = float(judge([moves[:3]])[0])
            assert (stones == 5) == (abs(value) < DECISIVE)
            if stones == 3:
                assert result.a_is_black[number] == (value < 0)
        else:
            assert stones == 3  # the other has no opinion, and takes a colour by lot
    black = [score for score in zip(result.winners, result.a_is_black, strict=True) if score[1]]
    assert sum(result.as_black) == len(black) and result.as_black[0] == [w for w, _ in black].count(1)


def test_colours_by_swap_are_told_in_pairs_of_who_placed(capsys, tmp_path):
    argv = ["6x6x4@0", "random", "--opening-rule", "swap2", "--games", "6", "--json", str(tmp_path / "rows")]
    status, out = test_scripts.status_and_error(capsys, "evaluate", argv)
    assert status == 0, out
    (row,) = read_rows(tmp_path / "rows")
    assert row["swap"] == "swap2" and row["games"] == 6 and len(row["pairs"]) == 3
    for extra, told in (
        (["--opening-stones", "2"], "--opening-rule swap2: not together with --opening-stones"),
        (["--board", "3x3x3", "--opening-rule", "pro"], "opening = 'pro': for 4 or more in a row"),
    ):
        status, out = test_scripts.status_and_error(capsys, "evaluate", [*argv[:-2], *extra])
        assert status == 2 and told in out


# Engines.

SWAPPER = """
import sys
def answer(text): print(text, flush=True)
def read():
    stones = []
    while (more := sys.stdin.readline().strip()) != "DONE": stones.append(more)
    return stones
def move():
    point = next(f"{x},{y}" for y in range(7) for x in range(7) if f"{x},{y}" not in taken)
    taken.add(point)
    answer(point)
while line := sys.stdin.readline():
    word, _, rest = line.strip().partition(" ")
    if word in ("START", "RESTART"): answer("OK")
    elif word == "TURN": taken.add(rest); move()
    elif word == "BOARD": taken = {",".join(stone.split(",")[:2]) for stone in read()}; move()
    elif word == "SWAP2BOARD":
        stones = read()
        answer(REPLY if stones else "0,0 6,6 3,3")
    elif word == "END": break
"""


@pytest.mark.parametrize(
    ("reply", "forfeits", "a_is_black"),
    [
        ("'SWAP'", "", [True, True]),
        ("'1,1'", "", [True, False]),
        ("'1,1 2,2' if len(stones) == 3 else 'SWAP'", "", [True, True]),
        ("'1,1 2,2 4,4'", "it answered '1,1 2,2 4,4' to SWAP2BOARD with 3 stones", None),
        ("'0,0'", "a7 is taken", None),
    ],
)
def test_an_engine_opens_by_swap2(reply, forfeits, a_is_black, tmp_path):
    game = Gomoku(7, 7, 5)

    class White(Opener):
        """Takes white, and places where the engine's board begins."""

        def propose(self):
            return (42, 6, 24)  # 0,0 6,6 3,3

        def choose(self, stones, may_add):
            return Choice("white")

    ours = FunctionPlayer(random_player(game), "random", opener=White(game))
    theirs = EnginePlayer(engine(tmp_path, SWAPPER.replace("REPLY", reply)), game)
    try:
        result = play_host_match(theirs, ours, game, num_games=2, swap="swap2")
    finally:
        theirs.close()
    told = " ".join(str(forfeit) for forfeit in result.forfeits)
    if forfeits:
        assert forfeits in told and len(result.forfeits) == 1 and result.losses >= 1
        return
    # Game 0: the engine places, ours takes white. Game 1: ours places, and the engine answers.
    assert not told and result.a_is_black == a_is_black
    assert [moves[:3] for moves in result.games] == [[42, 6, 24]] * 2
    assert result.opening_stones == [3, 5 if "2,2" in reply else 3]  # it added two, and ours took white
    if reply == "'1,1'":  # its move came with its choice
        assert result.games[1][3] == 5 * 7 + 1


def test_engines_that_cannot_open_so_are_refused_at_once(tmp_path):
    game = Gomoku(7, 7, 5)
    theirs = EnginePlayer(engine(tmp_path, SWAPPER), game)
    with pytest.raises(ValueError, match="swap = 'swap': the Gomocup protocol has swap2 only"):
        play_host_match(theirs, theirs, game, num_games=2, swap="swap")
    with pytest.raises(ValueError, match="takes no part in it"):
        play_host_match(FunctionPlayer(random_player(game), "r"), theirs, game, num_games=2, swap="swap2")
    with pytest.raises(ValueError, match="no word for the pro opening"):
        EnginePlayer("gomoku-jax", Gomoku(15, 15, 5, opening="pro"))
    assert theirs._process is None


# What else plays under an opening.


def test_pure_mcts_stays_within_the_opening():
    game = Gomoku(8, 8, 5, opening="long_pro")
    states = jax.tree.map(lambda *x: jnp.stack(x), *(replay_moves(game, m) for m in ("", "d4", "d4e5")))
    found = jax.jit(lambda key, states: pure_mcts(game, key, states, 60))(jax.random.key(0), states)
    legal = np.asarray(legal_action_masks(game, states))
    visits = np.asarray(found.visit_counts)
    assert (visits[~legal] == 0).all() and (visits.sum(-1) == 60).all()
    # White's answers are looked at through black's second stones, of which there are 15.
    assert legal.sum(-1).tolist() == [4, 63, 15]


def test_environments_take_an_opening():
    _, info = GomokuEnv(8, 8, 5, agent_color="black", opening="pro").reset(seed=0)
    assert info["action_mask"].sum() == 4
    env = raw_env(8, 8, 5, opening="pro")
    env.reset(seed=0)
    assert env.observe(env.agent_selection)["action_mask"].sum() == 4


def test_the_solver_and_swap_know_free_games_only():
    with pytest.raises(ValueError, match="opening = 'pro': the solver knows free games only"):
        Solver(Gomoku(6, 6, 4, opening="pro"))


@pytest.mark.slow
def test_helpers_are_asked_for_the_colour_too():
    spec = Helpers(root_vcf=9).player(parse_player("6x6x4@4"))
    assert spec.make_values is not None
    states = fours_suite(SMALL, 4).states()  # won by fours, which four simulations need not see
    assert (np.asarray(spec.make_values(SMALL)(jax.random.key(0), states)) > 0.8).all()
