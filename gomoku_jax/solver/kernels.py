"""The compiled part of the solver: bitboards and alpha-beta, for Numba.

A board is two unsigned 64-bit words, the stones of the side to move and of the other. Point (row, col) is
bit `row * (W + 1) + col`: the column that no stone ever enters keeps lines from running on into the next row.
Numba turns a signed and an unsigned operand into a float, so every number that meets a board is unsigned.
"""

import numba
import numpy as np

_U = np.uint64
_ZERO, _ONE = _U(0), _U(1)
# A window of the winning length with so many stones of one side and none of the other speaks for a point.
_WINDOW_WORTH = np.array([1, 4, 16, 64] + [256] * 24, np.int64)
_FORCING = 1 << 20  # moves that threaten to win come first

_jit = numba.njit(cache=True)


@_jit
def count_bits(word):
    """How many bits are set."""
    word = word - ((word >> _U(1)) & _U(0x5555555555555555))
    word = (word & _U(0x3333333333333333)) + ((word >> _U(2)) & _U(0x3333333333333333))
    word = (word + (word >> _U(4))) & _U(0x0F0F0F0F0F0F0F0F)
    return (word * _U(0x0101010101010101)) >> _U(56)


@_jit
def winning_points(own, empty, strides, k, exact, runs):
    """The empty points that complete a line for `own`, as a word.

    Args:
        own: the stones, a word.
        empty: the empty points, a word.
        strides: uint64 [4], the distance of neighbours in each direction.
        k: int, stones in a row that win.
        exact: bool, longer lines do not.
        runs: uint64 [more than k], scratch: `runs[n]` are the bits where n stones in a row begin.
    """
    points = _ZERO
    runs[0] = ~_ZERO
    for direction in range(4):
        stride = strides[direction]
        for n in range(1, k):
            runs[n] = own & (runs[n - 1] >> stride)
        for hole in range(k):
            before = stride * _U(hole)
            begins = runs[hole] & (empty >> before) & (runs[k - 1 - hole] >> (before + stride))
            if exact and begins != _ZERO:
                begins &= ~(own << stride) & ~(own >> (stride * _U(k)))
            points |= begins << before
    return points


@_jit
def has_line(own, strides, k, exact, runs):
    """Has this side won? Arguments as in `winning_points`."""
    runs[0] = ~_ZERO
    for direction in range(4):
        stride = strides[direction]
        for n in range(1, k + 1):
            runs[n] = own & (runs[n - 1] >> stride)
        lines = runs[k]
        if exact:
            lines &= ~(own << stride) & ~(own >> (stride * _U(k)))
        if lines != _ZERO:
            return True
    return False


@_jit
def has_open_window(free, strides, k):
    """Is there a line of k points in `free` (own stones and empty points)?"""
    for direction in range(4):
        stride, run = strides[direction], free
        for _ in range(k - 1):
            run = free & (run >> stride)
        if run != _ZERO:
            return True
    return False


@_jit
def _transform(word, table):
    """A word under one symmetry; `table` uint64 [8, 256] holds the images of each byte."""
    image = _ZERO
    for byte in range(8):
        image |= table[byte, (word >> _U(8 * byte)) & _U(255)]
    return image


@_jit
def _canonical(own, other, symmetries):
    """The smallest of the position's images."""
    best_own, best_other = own, other
    for i in range(1, symmetries.shape[0]):
        image = _transform(own, symmetries[i])
        if image > best_own:
            continue
        image_other = _transform(other, symmetries[i])
        if image < best_own or image_other < best_other:
            best_own, best_other = image, image_other
    return best_own, best_other


@_jit
def _order(own, other, empty, prefer, board, moves, scores, scratch):
    """Fills in the moves, best first, those in `prefer` early.

    Returns:
        Their number, or -1 where a move wins by two threats.
    """
    bits, windows, point_windows, strides, k, exact = board
    count = 0
    for point in range(bits.shape[0]):
        bit = bits[point]
        if empty & bit == _ZERO:
            continue
        threats = winning_points(own | bit, empty & ~bit, strides, k, exact, scratch)
        if threats & (threats - _ONE) != _ZERO:
            return -1
        score = 0
        for i in range(point_windows.shape[1]):
            window = point_windows[point, i]
            if window < 0:
                break
            mask = windows[window]
            mine, theirs = mask & own, mask & other
            if theirs == _ZERO:
                score += 2 * _WINDOW_WORTH[count_bits(mine)]
            elif mine == _ZERO:
                score += _WINDOW_WORTH[count_bits(theirs)]
        if threats != _ZERO:
            score += _FORCING
        if prefer & bit != _ZERO:
            score += _FORCING // 2
        at = count
        while at > 0 and scores[at - 1] < score:
            scores[at], moves[at] = scores[at - 1], moves[at - 1]
            at -= 1
        scores[at], moves[at] = score, bit
        count += 1
    return count


@_jit
def _defences(other, empty, board, scratch):
    """Where the other side threatens to make two threats at once: the only moves that can prevent it.

    A move that neither threatens to win, nor takes the point of a double threat or one of the points that it
    would win at, changes nothing about it.

    Returns:
        A word of the moves, and whether there is such a threat; all empty points where there is none.
    """
    bits, _, _, strides, k, exact = board
    allowed, pressed = empty, False
    for point in range(bits.shape[0]):
        bit = bits[point]
        if empty & bit == _ZERO:
            continue
        wins = winning_points(other | bit, empty & ~bit, strides, k, exact, scratch)
        if wins & (wins - _ONE) != _ZERO:
            allowed &= bit | wins
            pressed = True
    return allowed, pressed


# Columns of the stack's numbers, a row a ply.
_ALPHA, _LOW, _BETA, _LEAST, _MOST, _BEST, _NEXT, _COUNT, _PRESSED, _SLOT = range(10)
_OPEN = 3  # a position whose moves are still to be tried


@_jit
def _enter(own, other, alpha, beta, ply, board, symmetries, table, stack, scratch):
    """The value of a position where it is known without trying its moves; else prepares them, and _OPEN."""
    _, _, _, strides, k, exact = board
    full, keys_own, keys_other, bounds = table
    words, numbers, moves, scores = stack
    empty = full & ~(own | other)
    if empty == _ZERO:
        return 0
    if winning_points(own, empty, strides, k, exact, scratch) != _ZERO:
        return 1
    must = winning_points(other, empty, strides, k, exact, scratch)
    if must & (must - _ONE) != _ZERO:
        return -1
    words[ply, 0], words[ply, 1] = own, other
    at = numbers[ply]
    at[_ALPHA], at[_LOW], at[_BETA], at[_NEXT], at[_PRESSED] = alpha, alpha, beta, 0, 0
    if must != _ZERO:  # one answer, and nothing to remember
        moves[ply, 0], at[_COUNT], at[_BEST], at[_SLOT], at[_MOST] = must, 1, -2, -1, 1
        return _OPEN
    most = 1 if has_open_window(full & ~other, strides, k) else 0
    least = -1 if has_open_window(full & ~own, strides, k) else 0
    if most == least or least >= beta:
        return least
    if most <= alpha:
        return most
    key_own, key_other = _canonical(own, other, symmetries)
    mixed = key_own * _U(0x9E3779B97F4A7C15) ^ (key_other + _U(0x7F4A7C15)) * _U(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> _U(29)
    slot = np.int64(mixed & _U(keys_own.shape[0] - 1))
    if keys_own[slot] == key_own and keys_other[slot] == key_other and bounds[slot, 0] <= bounds[slot, 1]:
        least, most = max(least, bounds[slot, 0]), min(most, bounds[slot, 1])
        if most == least or least >= beta:
            return least
        if most <= alpha:
            return most
    allowed, pressed = _defences(other, empty, board, scratch)
    count = _order(own, other, empty, allowed if pressed else _ZERO, board, moves[ply], scores[ply], scratch)
    if count < 0:
        return 1
    words[ply, 2], words[ply, 3] = key_own, key_other
    at[_LEAST], at[_MOST], at[_SLOT], at[_COUNT], at[_PRESSED] = least, most, slot, count, pressed
    at[_BEST] = -1 if pressed else -2  # what is left out loses
    return _OPEN


@_jit
def _leave(ply, table, stack):
    """Remembers what the moves of a position have shown of its value."""
    _, keys_own, keys_other, bounds = table
    words, numbers, _, _ = stack
    at = numbers[ply]
    slot, best = at[_SLOT], at[_BEST]
    if slot >= 0:
        keys_own[slot], keys_other[slot] = words[ply, 2], words[ply, 3]
        bounds[slot, 0] = at[_LEAST] if best <= at[_ALPHA] else best
        bounds[slot, 1] = at[_MOST] if best >= at[_BETA] else best


@_jit
def search(own, other, alpha, beta, board, symmetries, table, stack, scratch, nodes):
    """Value of a position for the side to move: 1, 0 or -1; a bound of it outside (alpha, beta).

    Nobody has won yet. Not recursive, since Numba does not keep recursive functions on disk. The table,
    `stack` and `scratch` are written to; `nodes[0]` counts positions and `nodes[1]` limits them: past it the
    search gives up and says 2.
    """
    words, numbers, moves, scores = stack
    ply = 0
    nodes[0] += 1
    value = _enter(own, other, alpha, beta, ply, board, symmetries, table, stack, scratch)
    while True:
        if value == _OPEN:
            at = numbers[ply]
            i = at[_NEXT]
            done = i >= at[_COUNT] or at[_LOW] >= at[_BETA] or at[_BEST] >= at[_MOST]
            # Neither a threat nor a defence: it loses, and so do all after it.
            done = done or (at[_PRESSED] != 0 and scores[ply, i] < _FORCING // 2)
            if done:
                _leave(ply, table, stack)
                value = at[_BEST]
            else:
                if nodes[0] >= nodes[1]:
                    return 2
                at[_NEXT] = i + 1
                nodes[0] += 1
                own, other = words[ply, 1], words[ply, 0] | moves[ply, i]
                ply += 1
                value = _enter(
                    own, other, -at[_BETA], -at[_LOW], ply, board, symmetries, table, stack, scratch
                )
                continue
        if ply == 0:
            return value
        ply -= 1
        at = numbers[ply]
        at[_BEST] = max(at[_BEST], -value)
        at[_LOW] = max(at[_LOW], at[_BEST])
        value = _OPEN


@_jit
def value_of(own, other, board, symmetries, table, stack, scratch, nodes):
    """The exact value of a position that nobody has won, by two searches of one question each."""
    value = search(own, other, 0, 1, board, symmetries, table, stack, scratch, nodes)
    if value >= 1:
        return value
    value = search(own, other, -1, 0, board, symmetries, table, stack, scratch, nodes)
    return value if value == 2 else (0 if value >= 0 else -1)


@_jit
def move_values(own, other, board, symmetries, table, stack, scratch, nodes, values):
    """Fills in the value of every legal move for who plays it; -2 at illegal ones, 2 at unfinished ones."""
    bits, _, _, strides, k, exact = board
    full = table[0]
    empty = full & ~(own | other)
    wins = winning_points(own, empty, strides, k, exact, scratch)
    for point in range(bits.shape[0]):
        bit = bits[point]
        if empty & bit == _ZERO:
            values[point] = -2
        elif wins & bit != _ZERO:
            values[point] = 1
        elif empty == bit:
            values[point] = 0
        else:
            nodes[0] = 0
            value = value_of(other, own | bit, board, symmetries, table, stack, scratch, nodes)
            values[point] = value if value == 2 else -value
