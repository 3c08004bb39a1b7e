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
from gomoku_jax.tactics.bits import (
    board_of,
    count_points,
    first_point,
    five_points,
    four_points,
    point_bits,
    stones_of,
    stopping_points,
)

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
        plies: int32 [B], of that line up to the five and with it, two more than it has where a four that
            nobody can stop is its last; 0 without a win.
        num_nodes: int32 [B], fours tried.
    """

    result: jax.Array
    action: jax.Array
    line: jax.Array
    plies: jax.Array
    num_nodes: jax.Array


class _Lanes(struct.PyTreeNode):
    """L searches. A frame is a four and its reply; a node is the position after some frames.

    Points and stones are rows of bits, uint32 [H], as in `gomoku_jax.tactics.bits`.
    """

    position: jax.Array  # int32 [L], which of the B positions; B where there is none
    fresh: jax.Array  # bool [L], the root is still to be looked at
    own: jax.Array  # uint32 [L, H], the attacker's stones, those of the frames among them
    other: jax.Array  # uint32 [L, H]
    color: jax.Array  # int8 [L], of the attacker
    depth: jax.Array  # int32 [L], frames
    fours: jax.Array  # int32 [L, D]
    replies: jax.Array  # int32 [L, D]
    rest: jax.Array  # uint32 [L, D, H], the other replies to a frame's four; [L, D, 0] where there are none
    moves: jax.Array  # uint32 [L, D + 1, 2, H], fours yet to try at each node: what makes two, the others
    proved: jax.Array  # bool [L], the node is won
    line: jax.Array  # int32 [L, 2 D + 1], the first win found; -1 behind it
    plies: jax.Array  # int32 [L], of that win up to its five
    anchor: jax.Array  # int32 [L], the frame whose other replies are tried against that win; D for none
    num_nodes: jax.Array  # int32 [L]
    failed: jax.Array  # uint32 [L, T], keys of nodes without a win
    next: jax.Array  # int32 [], the first position that no lane has taken


def solve_vcf(
    game: Gomoku,
    states: State,
    max_depth: int = 9,
    max_nodes: jax.typing.ArrayLike = 1000,
    num_lanes: int | None = None,
    *,
    within: jax.typing.ArrayLike | None = None,
) -> Vcf:
    """Looks for a win by continuous fours of the side to move, in B games at once. Pure and jittable.

    Args:
        game: the rules, any of them.
        states: B games, [B, ...]. An ended one has no win.
        max_depth: plies up to the five and with it, an odd number from 1 on.
        max_nodes: fours tried in a position before it is given up; not static.
        num_lanes: positions searched side by side; by default 16 on the CPU and 1024 on accelerators.
        within: a smaller depth, which is not static: one program for several.

    Returns:
        A win is exact: it holds against every defence, and starts with a legal move.

    Raises:
        ValueError: an even depth or a bound below 1.
    """
    if num_lanes is None:
        num_lanes = 16 if jax.default_backend() == "cpu" else 1024
    check_bounds(max_depth, max_nodes, num_lanes)
    within = max_depth if within is None else within
    if isinstance(within, int) and not (0 < within <= max_depth and within % 2 == 1):
        raise ValueError(f"within = {within}: an odd number of plies, from 1 to max_depth = {max_depth}")
    most = (jnp.asarray(within, jnp.int32) - 1) // 2
    return _solve(game, states, max_depth, jnp.asarray(max_nodes, jnp.int32), num_lanes, most)


def check_bounds(max_depth: int, max_nodes: jax.typing.ArrayLike = 1, num_lanes: int = 1) -> None:
    """Raises ValueError where `solve_vcf` would; a traced `max_nodes` is not looked at."""
    if max_depth < 1 or max_depth % 2 == 0:
        raise ValueError(f"max_depth = {max_depth}: an odd number of plies, from 1 on")
    for name, value in (("max_nodes", max_nodes), ("num_lanes", num_lanes)):
        if isinstance(value, int) and value < 1:
            raise ValueError(f"{name} = {value}: at least 1")


@functools.partial(jax.jit, static_argnums=(0, 2, 4))
def _solve(
    game: Gomoku, states: State, max_depth: int, max_nodes: jax.Array, num_lanes: int, most: jax.Array
) -> Vcf:
    batch = states.to_play.shape[0]
    num_lanes, frames = min(num_lanes, batch), max((max_depth - 1) // 2, 1)
    own, other = jax.vmap(stones_of)(states.board, states.to_play)
    roots = _Roots(own, other, states.to_play, states.terminated)
    lanes = _Lanes(
        position=jnp.arange(num_lanes, dtype=jnp.int32),
        fresh=jnp.ones(num_lanes, bool),
        own=own[:num_lanes],
        other=other[:num_lanes],
        color=states.to_play[:num_lanes],
        depth=jnp.zeros(num_lanes, jnp.int32),
        fours=jnp.full((num_lanes, frames), _NO_POINT, jnp.int32),
        replies=jnp.full((num_lanes, frames), _NO_POINT, jnp.int32),
        rest=jnp.zeros((num_lanes, frames, game.height if _has_choice(game) else 0), jnp.uint32),
        moves=jnp.zeros((num_lanes, frames + 1, 2, game.height), jnp.uint32),
        proved=jnp.zeros(num_lanes, bool),
        line=jnp.full((num_lanes, 2 * frames + 1), _NO_POINT, jnp.int32),
        plies=jnp.zeros(num_lanes, jnp.int32),
        anchor=jnp.full(num_lanes, frames, jnp.int32),
        num_nodes=jnp.zeros(num_lanes, jnp.int32),
        failed=jnp.zeros((num_lanes, 2**_TABLE_BITS), jnp.uint32),
        next=jnp.int32(num_lanes),
    )
    found = Vcf(
        result=jnp.zeros(batch, jnp.int8),
        action=jnp.full(batch, _NO_POINT, jnp.int32),
        line=jnp.full((batch, 2 * frames + 1), _NO_POINT, jnp.int32),
        plies=jnp.zeros(batch, jnp.int32),
        num_nodes=jnp.zeros(batch, jnp.int32),
    )
    advance = functools.partial(_advance, game, roots, most, max_nodes)
    _, found = jax.lax.while_loop(
        lambda carry: (carry[0].position < batch).any(), lambda carry: advance(*carry), (lanes, found)
    )
    return found.replace(line=found.line[:, :max_depth])


def _has_choice(game: Gomoku) -> bool:
    """Whether a four may be stopped in more than one way: at its point, or at an end, the other closed."""
    return game.rule in ("caro", "caro_overline")


class _Roots(struct.PyTreeNode):
    """The B positions."""

    own: jax.Array  # uint32 [B, H]
    other: jax.Array  # uint32 [B, H]
    color: jax.Array  # int8 [B]
    over: jax.Array  # bool [B]


class _Look(struct.PyTreeNode):
    """What a node offers the attacker."""

    five: jax.Array  # int32 [], a point that makes five; -1 where there is none
    moves: jax.Array  # uint32 [2, H], the fours to try: what seems to make two of them, and the others


def _look(game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array) -> _Look:
    """One node: the attacker's fives, and its fours that answer the other side's threat, if there is one."""
    once, twice = four_points(game, own, other, color)
    if _has_choice(game):
        blocks, threatened = stopping_points(game, other, own, -color)
        allowed = jnp.where(threatened, blocks, ~jnp.zeros_like(own))
    else:
        threats = five_points(game, other, own, -color)
        count = count_points(threats)
        allowed = jnp.where(count == 0, ~jnp.zeros_like(own), jnp.where(count == 1, threats, 0))
    return _Look(
        five=first_point(five_points(game, own, other, color), game.width),
        moves=jnp.stack([twice, once & ~twice]) & allowed[None],
    )


class _Four(struct.PyTreeNode):
    """What follows from a four."""

    legal: jax.Array  # bool []
    wins: jax.Array  # bool [], no reply stops it
    reply: jax.Array  # int32 [], the forced reply, or the first of them, where one may stop it
    rest: jax.Array  # uint32 [H] or [0], the others


def _play_four(
    game: Gomoku, own: jax.Array, other: jax.Array, color: jax.Array, point: jax.Array, asked: jax.Array
) -> _Four:
    """One four of the attacker's on `point`, int32 []; of no meaning where it is not `asked`, bool []."""
    after = own | point_bits(game, point)
    if _has_choice(game):
        replies, _ = stopping_points(game, after, other, color)
        reply = first_point(replies, game.width)
        return _Four(jnp.bool_(True), reply < 0, reply, replies & ~point_bits(game, reply))
    fives = five_points(game, after, other, color)
    count, reply = count_points(fives), first_point(fives, game.width)
    legal, wins = jnp.bool_(True), count > 1
    if game.rule == "renju":
        black = color == BLACK
        legal = renju.foul(board_of(game, own, other, color), jnp.maximum(point, 0), asked & black) == 0
        stopped = asked & ~black & (count == 1)
        wins |= renju.foul(board_of(game, after, other, color), jnp.maximum(reply, 0), stopped) != 0
    return _Four(legal, wins, reply, jnp.zeros(0, jnp.uint32))


def _advance(
    game: Gomoku, roots: _Roots, most: jax.Array, max_nodes: jax.Array, lanes: _Lanes, found: Vcf
) -> tuple[_Lanes, Vcf]:
    """One step of every lane: one four or one more reply tried, one frame taken back, or a root looked at.

    `most`, int32 [], are the fours of a win at most.
    """
    num_lanes, batch, frames = len(lanes.position), len(roots.color), lanes.fours.shape[1]
    rows = jnp.arange(num_lanes)
    bits = jax.vmap(functools.partial(point_bits, game))
    first = jax.vmap(functools.partial(first_point, width=game.width))
    active = lanes.position < batch
    fresh = active & lanes.fresh
    depth, top = lanes.depth, jnp.maximum(lanes.depth - 1, 0)
    top_four, top_reply = _at(lanes.fours, top), _at(lanes.replies, top)
    key = _hash(lanes.own, lanes.other, lanes.position)

    # Which of the steps each lane takes.
    options = lanes.moves[rows, depth]
    proved = active & ~fresh & lanes.proved
    won = proved & (depth == 0)
    answered = proved & (depth > 0)  # one more of a four's replies is refuted
    if _has_choice(game):
        rest = lanes.rest[rows, top]
        again = answered & (rest != 0).any(-1)
        other_reply = first(rest)
    else:
        again, other_reply = jnp.zeros(num_lanes, bool), top_reply
    searching = active & ~fresh & ~lanes.proved
    tries = searching & (options != 0).any((-2, -1))
    exhausted = searching & ~tries
    lost = exhausted & (depth == 0)
    returns = exhausted & (depth > 0)  # the frame's four is refuted

    # The fours that are tried.
    better = (options[:, 0] != 0).any(-1)
    four = first(jnp.where(better[:, None], options[:, 0], options[:, 1]))
    four_bits = jnp.where(tries[:, None], bits(four), 0)
    outcome = jax.vmap(functools.partial(_play_four, game))(lanes.own, lanes.other, lanes.color, four, tries)
    wins = tries & outcome.legal & outcome.wins
    plays = tries & outcome.legal & ~outcome.wins

    # The stones of the nodes that are looked at.
    top_bits = bits(jnp.where(answered | returns, top_four, _NO_POINT))
    top_reply_bits = bits(jnp.where(answered | returns, top_reply, _NO_POINT))
    again_bits = bits(jnp.where(again, other_reply, _NO_POINT))
    own = lanes.own & ~jnp.where(again[:, None], 0, top_bits)
    other = lanes.other & ~top_reply_bits
    looked_own = own | jnp.where(plays[:, None], four_bits, 0)
    looked_other = other | bits(jnp.where(plays, outcome.reply, _NO_POINT)) | again_bits
    over = roots.over[jnp.minimum(lanes.position, batch - 1)]
    looks = (fresh & ~over) | plays | again
    node = depth + plays  # of what is looked at
    look = jax.vmap(functools.partial(_look, game))(looked_own, looked_other, lanes.color)
    looked_key = _hash(looked_own, looked_other, lanes.position)
    known = lanes.failed[rows, _slot(looked_key)] == looked_key
    five = looks & (look.five >= 0)
    moves = jnp.where((known | five | (node >= most))[:, None, None], jnp.uint32(0), look.moves)
    alive = five | (looks & (moves != 0).any((-2, -1)))
    pushes, refuted = plays & alive, again & ~alive

    # What is dead is taken back at once.
    stays = (pushes | (again & alive))[:, None]
    own = jnp.where(stays, looked_own, jnp.where(refuted[:, None], own & ~top_bits, own))
    other = jnp.where(stays, looked_other, other)

    # The first win's line; another reply may still refute it.
    ends = wins | five
    is_first = ends & (lanes.line[:, 0] < 0)
    pairs = jnp.stack([lanes.fours, lanes.replies], -1).reshape(num_lanes, 2 * frames)
    steps = jnp.arange(2 * frames + 1)[None]
    base = 2 * depth[:, None]
    line = jnp.where(steps < base, jnp.pad(pairs, ((0, 0), (0, 1)), constant_values=_NO_POINT), _NO_POINT)
    line = jnp.where((steps == base) & (plays | wins)[:, None], four[:, None], line)
    line = jnp.where((steps == base + 1) & plays[:, None], outcome.reply[:, None], line)
    line = jnp.where((steps == base + 2 * plays[:, None]) & five[:, None], look.five[:, None], line)
    line = jnp.where(is_first[:, None], line, lanes.line)
    plies = jnp.where(is_first, 2 * depth + jnp.where(wins, 3, 1 + 2 * plays), lanes.plies)
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
        rest_of = rest_of.at[rows, jnp.where(again, top, frames)].set(rest & ~again_bits, mode="drop")
        rest_of = rest_of.at[rows, frame].set(outcome.rest, mode="drop")
    tried = lanes.moves.at[rows, jnp.where(tries, depth, frames + 1)].set(
        options & ~four_bits[:, None], mode="drop"
    )
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
        plies=found.plies.at[where].set(jnp.where(done_won, plies, 0), mode="drop"),
        num_nodes=found.num_nodes.at[where].set(num_nodes, mode="drop"),
    )
    position = lanes.next + jnp.cumsum(done.astype(jnp.int32)) - 1
    position = jnp.where(done, jnp.minimum(position, batch), lanes.position)
    source = jnp.minimum(position, batch - 1)
    return (
        _Lanes(
            position=position,
            fresh=done,
            own=jnp.where(done[:, None], roots.own[source], own),
            other=jnp.where(done[:, None], roots.other[source], other),
            color=jnp.where(done, roots.color[source], lanes.color),
            depth=jnp.where(done, 0, depth + pushes - (answered & ~again) - returns - refuted),
            fours=fours,
            replies=replies,
            rest=rest_of,
            moves=tried,
            proved=~done & is_proved,
            line=jnp.where(done[:, None], _NO_POINT, line),
            plies=plies,
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


@functools.lru_cache(maxsize=64)
def _factors(height: int) -> np.ndarray:
    """uint32 [2, H], odd random numbers, one for each row of either side."""
    return np.random.default_rng(height).integers(0, 2**32, (2, height), np.uint32) | np.uint32(1)


def _hash(own: jax.Array, other: jax.Array, position: jax.Array) -> jax.Array:
    """uint32 [L], of stones [L, H] and the position a lane works on, so that no table need be cleared."""
    factors = jnp.asarray(_factors(own.shape[-1]))[:, None]
    mixed = (_mix(own) * factors[0] + _mix(other) * factors[1]).sum(-1, dtype=jnp.uint32)
    return _mix(mixed ^ (position.astype(jnp.uint32) * jnp.uint32(0x9E3779B1)))


def _mix(x: jax.Array) -> jax.Array:
    """The finalizer of MurmurHash3, which spreads every bit over all: uint32, the same shape."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _slot(key: jax.Array) -> jax.Array:
    """int32, where a key is kept."""
    return (key >> (32 - _TABLE_BITS)).astype(jnp.int32)
