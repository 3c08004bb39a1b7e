"""Victory by continuous fours: all moves but the last make a four, so that every reply is forced.

A depth-first search of many positions at once. A few lanes work side by side in one loop; a lane that is done
takes the next position, so that hard positions do not keep easy ones waiting. Positions in which a lane has
failed before, by whatever order of moves, are kept in a small table and not searched again.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gomoku_jax.game import BLACK, Gomoku, State, renju
from gomoku_jax.tactics.lines import board_shapes, gap_points, point_shapes

WON, UNKNOWN, NONE = 1, 0, -1
_TABLE_BITS = 10  # failed positions kept, for each lane
_NO_POINT = -1


class Vcf(struct.PyTreeNode):
    """What was found of B positions.

    Attributes:
        result: int8 [B]: 1 a win, -1 none within the depth, 0 the nodes ran out before one or the other.
        action: int32 [B], the first move of the win; -1 without one.
        line: int32 [B, max_depth], a win: four, reply, four, ... up to the five, or to a four that nobody can
            stop, against the replies that are tried first; -1 behind it.
        num_nodes: int32 [B], fours tried.
    """

    result: jax.Array
    action: jax.Array
    line: jax.Array
    num_nodes: jax.Array


class _Lanes(struct.PyTreeNode):
    """L searches. A frame is a four and its reply; a node is the position after some frames."""

    position: jax.Array  # int32 [L], which of the B positions; B where there is none
    fresh: jax.Array  # bool [L], the root is still to be looked at
    board: jax.Array  # int8 [L, A], with the stones of the frames
    color: jax.Array  # int8 [L], of the attacker
    depth: jax.Array  # int32 [L], frames
    fours: jax.Array  # int32 [L, D]
    replies: jax.Array  # int32 [L, D]
    rest: jax.Array  # bool [L, D, A], the other replies to a frame's four; [L, D, 0] where there is no choice
    moves: (
        jax.Array
    )  # int8 [L, D + 1, A], fours yet to try at each node, the better ones with a larger number
    proved: jax.Array  # bool [L], the node is won
    line: jax.Array  # int32 [L, 2 D + 1], the first win found; -1 behind it
    anchor: (
        jax.Array
    )  # int32 [L], the frame whose other replies are tried against that win; D where there is none
    num_nodes: jax.Array  # int32 [L]
    failed: jax.Array  # uint32 [L, T], keys of nodes without a win
    next: jax.Array  # int32 [], the first position that no lane has taken


def solve_vcf(
    game: Gomoku,
    states: State,
    max_depth: int = 9,
    max_nodes: jax.typing.ArrayLike = 1000,
    num_lanes: int = 256,
) -> Vcf:
    """Looks for a win by continuous fours of the side to move, in B games at once. Pure and jittable.

    Args:
        game: the rules, any of them.
        states: B games, [B, ...]. An ended one has no win.
        max_depth: plies up to the five and with it, an odd number from 1 on.
        max_nodes: fours tried in a position before it is given up; not static.
        num_lanes: positions searched side by side.

    Returns:
        A win is exact: it holds against every defence, and starts with a legal move.

    Raises:
        ValueError: an even depth or a bound below 1.
    """
    check_bounds(max_depth, max_nodes, num_lanes)
    return _solve(game, states, max_depth, jnp.asarray(max_nodes, jnp.int32), num_lanes)


def check_bounds(max_depth: int, max_nodes: jax.typing.ArrayLike = 1, num_lanes: int = 1) -> None:
    """Raises ValueError where `solve_vcf` would; a traced `max_nodes` is not looked at."""
    if max_depth < 1 or max_depth % 2 == 0:
        raise ValueError(f"max_depth = {max_depth}: an odd number of plies, from 1 on")
    for name, value in (("max_nodes", max_nodes), ("num_lanes", num_lanes)):
        if isinstance(value, int) and value < 1:
            raise ValueError(f"{name} = {value}: at least 1")


@functools.partial(jax.jit, static_argnums=(0, 2, 4))
def _solve(game: Gomoku, states: State, max_depth: int, max_nodes: jax.Array, num_lanes: int) -> Vcf:
    batch, points = states.to_play.shape[0], game.num_actions
    most = (max_depth - 1) // 2  # fours
    num_lanes, frames = min(num_lanes, batch), max(most, 1)
    lanes = _Lanes(
        position=jnp.arange(num_lanes, dtype=jnp.int32),
        fresh=jnp.ones(num_lanes, bool),
        board=states.board[:num_lanes].reshape(num_lanes, points),
        color=states.to_play[:num_lanes],
        depth=jnp.zeros(num_lanes, jnp.int32),
        fours=jnp.full((num_lanes, frames), _NO_POINT, jnp.int32),
        replies=jnp.full((num_lanes, frames), _NO_POINT, jnp.int32),
        rest=jnp.zeros((num_lanes, frames, points if _has_choice(game) else 0), bool),
        moves=jnp.zeros((num_lanes, frames + 1, points), jnp.int8),
        proved=jnp.zeros(num_lanes, bool),
        line=jnp.full((num_lanes, 2 * frames + 1), _NO_POINT, jnp.int32),
        anchor=jnp.full(num_lanes, frames, jnp.int32),
        num_nodes=jnp.zeros(num_lanes, jnp.int32),
        failed=jnp.zeros((num_lanes, 2**_TABLE_BITS), jnp.uint32),
        next=jnp.int32(num_lanes),
    )
    found = Vcf(
        result=jnp.zeros(batch, jnp.int8),
        action=jnp.full(batch, _NO_POINT, jnp.int32),
        line=jnp.full((batch, 2 * frames + 1), _NO_POINT, jnp.int32),
        num_nodes=jnp.zeros(batch, jnp.int32),
    )
    advance = functools.partial(_advance, game, states, most, max_nodes)
    _, found = jax.lax.while_loop(
        lambda carry: (carry[0].position < batch).any(), lambda carry: advance(*carry), (lanes, found)
    )
    return found.replace(line=found.line[:, :max_depth])


def _has_choice(game: Gomoku) -> bool:
    """Whether a four may be stopped in more than one way: at its point, or at an end, the other closed."""
    return game.rule in ("caro", "caro_overline")


@functools.lru_cache(maxsize=64)
def _keys(points: int) -> np.ndarray:
    """uint32 [2, A], random numbers for the stones of either side."""
    return np.random.default_rng(points).integers(1, 2**32, (2, points), np.uint32)


class _Look(struct.PyTreeNode):
    """What a node offers the attacker."""

    five: jax.Array  # int32 [], a point that makes five; -1 where there is none
    moves: jax.Array  # int8 [A], the fours to try: 2 what makes two points at once, 1 the others


def _look(game: Gomoku, board: jax.Array, color: jax.Array) -> _Look:
    """One node: the attacker's fives, and its fours that answer the other side's threat, if there is one."""
    empty = board.reshape(-1) == 0
    shapes = board_shapes(game, board, color)
    five = functools.reduce(jnp.logical_or, [shape.five for shape in shapes]).reshape(-1) & empty
    count = functools.reduce(
        jnp.add, [four.astype(jnp.int8) for shape in shapes for four in shape.fours]
    ).reshape(-1)
    fours = jnp.where(empty, jnp.minimum(count, 2), 0).astype(jnp.int8)
    if _has_choice(game):
        state = _state_of(board, -color)
        threats, blocks = game.winning_actions(state, -color).any(), game.blocking_actions(state, -color)
        allowed = ~threats | blocks
    else:
        theirs = board_shapes(game, board, -color)
        threats = functools.reduce(jnp.logical_or, [shape.five for shape in theirs]).reshape(-1) & empty
        num_threats = threats.sum(dtype=jnp.int32)
        allowed = (num_threats == 0) | ((num_threats == 1) & threats)
    return _Look(
        five=jnp.where(five.any(), jnp.argmax(five), _NO_POINT).astype(jnp.int32),
        moves=jnp.where(allowed, fours, 0).astype(jnp.int8),
    )


def _state_of(board: jax.Array, to_play: jax.Array) -> State:
    """A running game of a board."""
    return State(
        board=board,
        to_play=to_play,
        last_action=jnp.int32(-1),
        move_count=(board != 0).sum(dtype=jnp.int32),
        terminated=jnp.bool_(False),
        winner=jnp.int8(0),
    )


class _Four(struct.PyTreeNode):
    """What follows from a four."""

    legal: jax.Array  # bool []
    wins: jax.Array  # bool [], no reply stops it
    reply: jax.Array  # int32 [], the forced reply, or the first of them, where one may stop it
    rest: jax.Array  # bool [A] or [0], the others


def _play_four(game: Gomoku, board: jax.Array, point: jax.Array, color: jax.Array, asked: jax.Array) -> _Four:
    """One four of the attacker's on `point`, int32 []."""
    shapes = point_shapes(game, board, point, color)
    points, there = gap_points(game, point, shapes)
    count = there.sum(dtype=jnp.int32)
    five = jnp.where(there, points, _NO_POINT).max()
    after = board.reshape(-1).at[point].set(color).reshape(board.shape)
    legal, wins, reply = jnp.bool_(True), count > 1, five
    rest = jnp.zeros(0, bool)
    if _has_choice(game):
        replies = game.blocking_actions(_state_of(after, -color), color)
        wins = ~replies.any()
        reply = jnp.where(wins, _NO_POINT, jnp.argmax(replies)).astype(jnp.int32)
        rest = replies & (jnp.arange(game.num_actions) != reply)
    elif game.rule == "renju":
        black = color == BLACK
        legal = renju.foul(board, point, asked & black) == 0
        wins |= renju.foul(after, five, asked & ~black & (count == 1)) != 0
    return _Four(legal=legal, wins=wins, reply=reply, rest=rest)


def _advance(
    game: Gomoku, states: State, most: int, max_nodes: jax.Array, lanes: _Lanes, found: Vcf
) -> tuple[_Lanes, Vcf]:
    """One step of every lane: one four or one more reply tried, one frame taken back, or a root looked at."""
    num_lanes, batch, points = len(lanes.position), len(states.to_play), game.num_actions
    frames = lanes.fours.shape[1]
    rows = jnp.arange(num_lanes)
    nowhere = points  # a scatter in "drop" mode writes nothing there
    active = lanes.position < batch
    fresh = active & lanes.fresh
    depth, top = lanes.depth, jnp.maximum(lanes.depth - 1, 0)
    top_four, top_reply = _at(lanes.fours, top), _at(lanes.replies, top)
    key = _hash(lanes.board, lanes.position)

    # Which of the steps each lane takes.
    options = lanes.moves[rows, depth]
    proved = active & ~fresh & lanes.proved
    won = proved & (depth == 0)
    answered = proved & (depth > 0)  # one more of a four's replies is refuted
    if _has_choice(game):
        rest = lanes.rest[rows, top]
        again = answered & rest.any(-1)
        other_reply = jnp.argmax(rest, -1).astype(jnp.int32)
    else:
        again, other_reply = jnp.zeros(num_lanes, bool), top_reply
    searching = active & ~fresh & ~lanes.proved
    tries = searching & (options > 0).any(-1)
    exhausted = searching & ~tries
    lost = exhausted & (depth == 0)
    returns = exhausted & (depth > 0)  # the frame's four is refuted

    # The fours that are tried.
    four = jnp.argmax(options, -1).astype(jnp.int32)
    shaped = lanes.board.reshape(num_lanes, *game.shape)
    outcome = jax.vmap(functools.partial(_play_four, game))(shaped, four, lanes.color, tries)
    wins = tries & outcome.legal & outcome.wins
    plays = tries & outcome.legal & ~outcome.wins

    # The boards of the nodes that are looked at.
    empty = jnp.zeros(num_lanes, jnp.int8)

    def put(board: jax.Array, where: jax.Array, point: jax.Array, stone: jax.Array) -> jax.Array:
        return board.at[rows, jnp.where(where, point, nowhere)].set(stone, mode="drop")

    below = put(lanes.board, answered | returns, top_reply, empty)
    below = put(below, (answered & ~again) | returns, top_four, empty)
    board = put(below, plays, four, lanes.color)
    board = put(board, plays, outcome.reply, -lanes.color)
    board = put(board, again, other_reply, -lanes.color)
    over = states.terminated[jnp.minimum(lanes.position, batch - 1)]
    looks = (fresh & ~over) | plays | again
    node = depth + plays  # of what is looked at
    look = jax.vmap(functools.partial(_look, game))(board.reshape(shaped.shape), lanes.color)
    known = lanes.failed[rows, _slot(_hash(board, lanes.position))] == _hash(board, lanes.position)
    five = looks & (look.five >= 0)
    moves = jnp.where((known | five | (node >= most))[:, None], jnp.int8(0), look.moves)
    alive = five | (looks & (moves > 0).any(-1))
    pushes, refuted = plays & alive, again & ~alive

    # What is dead is taken back at once.
    board = jnp.where((plays & ~alive)[:, None], lanes.board, board)
    board = put(board, refuted, other_reply, empty)
    board = put(board, refuted, top_four, empty)

    # The first win's line; another reply may still refute it.
    ends = wins | five
    first = ends & (lanes.line[:, 0] < 0)
    pairs = jnp.stack([lanes.fours, lanes.replies], -1).reshape(num_lanes, 2 * frames)
    steps = jnp.arange(2 * frames + 1)[None]
    base = 2 * depth[:, None]
    line = jnp.where(steps < base, jnp.pad(pairs, ((0, 0), (0, 1)), constant_values=_NO_POINT), _NO_POINT)
    line = jnp.where((steps == base) & (plays | wins)[:, None], four[:, None], line)
    line = jnp.where((steps == base + 1) & plays[:, None], outcome.reply[:, None], line)
    line = jnp.where((steps == base + 2 * plays[:, None]) & five[:, None], look.five[:, None], line)
    line = jnp.where(first[:, None], line, lanes.line)
    anchor = jnp.where(again, jnp.minimum(lanes.anchor, top), lanes.anchor)
    broken = (returns | refuted) & (top <= anchor) & (anchor < frames)
    line = jnp.where(broken[:, None], _NO_POINT, line)
    anchor = jnp.where(broken, frames, anchor)

    frame = jnp.where(pushes, depth, frames)
    fours = lanes.fours.at[rows, frame].set(four, mode="drop")
    replies = lanes.replies.at[rows, frame].set(outcome.reply, mode="drop")
    replies = replies.at[rows, jnp.where(again & alive, top, frames)].set(other_reply, mode="drop")
    rest_of = lanes.rest
    if _has_choice(game):
        rest_of = rest_of.at[rows, jnp.where(again, top, frames), other_reply].set(False, mode="drop")
        rest_of = rest_of.at[rows, frame].set(outcome.rest, mode="drop")
    tried = lanes.moves.at[rows, jnp.where(tries, depth, frames + 1), four].set(0, mode="drop")
    tried = tried.at[rows, jnp.where(fresh | alive, node, frames + 1)].set(moves, mode="drop")
    failed = lanes.failed.at[rows, jnp.where(exhausted, _slot(key), 2**_TABLE_BITS)].set(key, mode="drop")
    num_nodes = lanes.num_nodes + tries

    # Results, and the next positions for the lanes that are done.
    done_won = won | (fresh & five)
    done = done_won | lost | (fresh & ~alive)
    is_proved = ends | (answered & ~again)
    gave_up = active & ~done & ~is_proved & (num_nodes >= max_nodes)
    done |= gave_up
    where = jnp.where(done, lanes.position, batch)
    result = jnp.where(done_won, WON, jnp.where(gave_up, UNKNOWN, NONE)).astype(jnp.int8)
    line = jnp.where((done & ~done_won)[:, None], _NO_POINT, line)
    found = Vcf(
        result=found.result.at[where].set(result, mode="drop"),
        action=found.action.at[where].set(line[:, 0], mode="drop"),
        line=found.line.at[where].set(line, mode="drop"),
        num_nodes=found.num_nodes.at[where].set(num_nodes, mode="drop"),
    )
    position = lanes.next + jnp.cumsum(done.astype(jnp.int32)) - 1
    position = jnp.where(done, jnp.minimum(position, batch), lanes.position)
    source = jnp.minimum(position, batch - 1)
    return (
        _Lanes(
            position=position,
            fresh=done,
            board=jnp.where(done[:, None], states.board.reshape(batch, points)[source], board),
            color=jnp.where(done, states.to_play[source], lanes.color),
            depth=jnp.where(done, 0, depth + pushes - (answered & ~again) - returns - refuted),
            fours=fours,
            replies=replies,
            rest=rest_of,
            moves=tried,
            proved=~done & is_proved,
            line=jnp.where(done[:, None], _NO_POINT, line),
            anchor=jnp.where(done, frames, anchor),
            num_nodes=jnp.where(done, 0, num_nodes),
            failed=failed,
            next=jnp.minimum(lanes.next + done.sum(dtype=jnp.int32), batch),
        ),
        found,
    )


def _at(frames: jax.Array, index: jax.Array) -> jax.Array:
    """One entry a lane of [L, D]."""
    return frames[jnp.arange(len(frames)), index]


def _hash(board: jax.Array, position: jax.Array) -> jax.Array:
    """uint32 [L], of boards [L, A] and the position a lane works on, so that no table need be cleared."""
    keys = jnp.asarray(_keys(board.shape[-1]))[None]
    zero = jnp.uint32(0)
    stones = jnp.where(board == 1, keys[:, 0], zero) ^ jnp.where(board == -1, keys[:, 1], zero)
    mixed = jax.lax.reduce(stones, zero, jax.lax.bitwise_xor, (1,))
    return mixed ^ (position.astype(jnp.uint32) * jnp.uint32(0x9E3779B1) + jnp.uint32(0x7F4A7C15))


def _slot(key: jax.Array) -> jax.Array:
    """int32, where a key is kept."""
    return (key >> (32 - _TABLE_BITS)).astype(jnp.int32)
