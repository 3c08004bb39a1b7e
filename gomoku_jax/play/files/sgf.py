"""SGF files of Gomoku, GM[4]: https://www.red-bean.com/sgf/.

Points are two letters, column and row from the upper left corner. Some programs write `h8` instead, a
letter and a row counted from the bottom: that is read as well.
"""

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

import lark

from gomoku_jax.game import Gomoku, parse_action, to_sgf
from gomoku_jax.play.files.gamefile import (
    DEFAULT_SIDE,
    GameFile,
    GameFileError,
    Placed,
    check_moves,
    decode,
    make_game,
    outcome,
    position,
    without_last_foul,
)

_GRAMMAR = r"""
collection: tree+
tree: "(" node+ tree* ")"
node: ";" property*
property: NAME VALUE+
NAME: /[A-Za-z][A-Za-z0-9]*/
VALUE: /\[[^\]\\]*(?:\\.[^\]\\]*)*\]/s
%ignore /\s+/
"""
_GAMES = {"1": "Go", "2": "Othello", "3": "chess", "5": "nine men's morris", "6": "backgammon", "7": "shogi"}
_RULES = {
    "freestyle": ("freestyle", "freegomoku", "gomoku", "freestylegomoku", "gomokufreestyle", "fiveormore"),
    "exact": ("exact", "standard", "standardgomoku", "gomokustandard", "exactfive", "exactlyfive", "five"),
    "renju": ("renju", "standardrenju", "renjustandard"),
    "caro": ("caro", "carogomoku", "gomokucaro"),
    "caro_overline": ("carooverline", "caroplus"),
}
_SETUP_SENTENCE = re.compile(r"The first (\d{1,3}) stones are a random opening\.\n?")


@dataclasses.dataclass(frozen=True)
class _Property:
    name: str
    values: list[lark.Token]


@dataclasses.dataclass(frozen=True)
class _Tree:
    nodes: list[list[_Property]]
    children: list["_Tree"]


class _Builder(lark.Transformer):
    """Builds the trees while the text is parsed, so that depth costs no recursion."""

    def property(self, children: list[Any]) -> _Property:
        name, *values = children
        # Old files write names in full, of which the capitals count: `Black[hh]`, `GaMe[4]`.
        capitals = "".join(letter for letter in name if letter.isupper())
        return _Property(capitals or name.upper(), values)

    def node(self, children: list[Any]) -> list[_Property]:
        return children

    def tree(self, children: list[Any]) -> _Tree:
        nodes = [child for child in children if not isinstance(child, _Tree)]
        return _Tree(nodes, [child for child in children if isinstance(child, _Tree)])

    def collection(self, children: list[Any]) -> list[_Tree]:
        return children


@functools.cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, start="collection", parser="lalr", transformer=_Builder())


def _parse(text: str) -> list[_Tree]:
    try:
        return _parser().parse(text)  # type: ignore[return-value]
    except lark.UnexpectedCharacters as error:
        if error.char == "[":
            message = "a value that is never closed by ]"
        else:
            message = f"{error.char!r} does not belong here in an SGF file"
        raise GameFileError(message, error.line, error.column) from None
    except lark.UnexpectedToken as error:
        if error.token.type == "$END":
            end = position(text, len(text.rstrip()))
            message = "the file ends in the middle of a game" if text.strip() else "an empty file"
            raise GameFileError(message, *end) from None
        shown = str(error.token)[:20]
        raise GameFileError(
            f"{shown!r} does not belong here in an SGF file", error.token.line or 1, error.token.column or 1
        ) from None


def _plain(value: lark.Token) -> str:
    """A value without brackets and escapes: soft line breaks are gone, other white space is kept."""
    text = re.sub(r"\\(.)", lambda match: "" if match[1] == "\n" else match[1], value[1:-1], flags=re.DOTALL)
    return re.sub(r"[\t\v\f]", " ", text)


def _line(value: lark.Token) -> str:
    """A value of one line."""
    return _plain(value).replace("\n", " ")


def _at(value: lark.Token) -> tuple[int, int]:
    """Where the text inside the brackets begins."""
    return value.line or 1, (value.column or 0) + 1


class _Reader:
    """Reads one tree. What it guesses and ignores goes to `warnings`."""

    def __init__(self, tree: _Tree, like: Gomoku | None, warnings: list[str]):
        self.warnings = warnings
        self.nodes, branches = list(tree.nodes), 0
        while tree.children:
            branches += len(tree.children) - 1
            tree = tree.children[0]
            self.nodes += tree.nodes
        if branches:
            self.warnings.append(f"{branches} variation{'s' * (branches > 1)} ignored: the main line is read")
        self.root = {prop.name: prop.values for prop in self.nodes[0]}
        self._check_kind()
        self.game = self._read_game(like)
        self.named_points = False
        self.placed: list[Placed] = []
        self.num_setup = 0

    def _value(self, name: str) -> str:
        values = self.root.get(name)
        return _line(values[0]).strip() if values else ""

    def _check_kind(self) -> None:
        if "GM" not in self.root:
            self.warnings.append("the file does not tell the game (GM): read as Gomoku")
        elif (kind := self._value("GM")) != "4":
            known = f", {_GAMES[kind]}" if kind in _GAMES else ""
            raise GameFileError(
                f"GM[{kind[:20]}]{known}: only GM[4], Gomoku, can be read", *_at(self.root["GM"][0])
            )
        if self._value("FF") not in ("", "1", "2", "3", "4"):
            self.warnings.append(f"FF[{self._value('FF')[:20]}]: read as FF[4]")

    def _read_game(self, like: Gomoku | None) -> Gomoku:
        rule, k = self._read_rule()
        if "SZ" not in self.root:
            height, width = like.shape if like else (DEFAULT_SIDE, DEFAULT_SIDE)
            self.warnings.append(f"the file does not tell the size (SZ): read as {height} by {width}")
            where = (1, 1)
        else:
            size, where = self._value("SZ"), _at(self.root["SZ"][0])
            match = re.fullmatch(r"(\d{1,3})(?:\s*:\s*(\d{1,3}))?", size, re.ASCII)
            if match is None:
                raise GameFileError(f"SZ[{size[:20]}]: write SZ[15], or SZ[columns:rows]", *where)
            width, height = int(match[1]), int(match[2] or match[1])
        try:
            game = make_game(height, width, k, rule, like)
        except ValueError as error:
            raise GameFileError(str(error), *where) from None
        if "RU" not in self.root and (like is None or like.shape != game.shape):
            self.warnings.append(
                f"the file does not tell the rule (RU): read as {game.rule}, {game.k} in a row"
            )
        return game

    def _read_rule(self) -> tuple[str | None, int | None]:
        text = self._value("RU")
        if not text:
            return None, None
        count = re.search(r"(?:^|\D)(\d{1,2}) in a row", text, re.ASCII)
        name = re.sub(r"[\W_]", "", re.sub(r"\d+ in a row", "", text)).lower()
        k = int(count[1]) if count else None
        if not name:
            return None, k
        for rule, names in _RULES.items():
            if name in names:
                return rule, k
        self.warnings.append(f"the rule {text[:40]!r} is not known here: read as freestyle")
        return "freestyle", k

    def read(self) -> GameFile:
        pending_pass: lark.Token | None = None
        for node in self.nodes:
            self._setup(node)
            moves = [prop for prop in node if prop.name in ("B", "W")]
            if len(moves) > 1:
                line, column = _at(moves[1].values[0])
                self.warnings.append(f"line {line}, column {column}: two moves in one node, played in turn")
            for prop in moves:
                value = prop.values[0]
                if len(prop.values) > 1:
                    raise GameFileError(f"{prop.name} has one point", *_at(prop.values[1]))
                if pending_pass is not None:
                    raise GameFileError("a pass: Gomoku has none", *_at(pending_pass))
                if self._is_pass(value):
                    pending_pass = value
                    continue
                self._turn(prop.name, value)
                self.placed.append(Placed(self._point(value), *_at(value)))
        if pending_pass is not None:
            line, column = _at(pending_pass)
            self.warnings.append(f"line {line}, column {column}: a pass at the end is ignored")
        return self._finish()

    def _turn(self, color: str, value: lark.Token) -> None:
        if color == "BW"[len(self.placed) % 2]:
            return
        word = {"B": "black", "W": "white"}[color]
        if not self.placed:
            raise GameFileError("white moves first: here black does, and the colours take turns", *_at(value))
        raise GameFileError(f"{word} moves again: the colours take turns, black first", *_at(value))

    def _is_pass(self, value: lark.Token) -> bool:
        text = _line(value).strip()
        return not text or (text == "tt" and (self.game.width < 20 or self.game.height < 20))

    def _point(self, value: lark.Token, text: str | None = None) -> int:
        text = _line(value).strip() if text is None else text
        height, width = self.game.shape
        if re.fullmatch(r"[a-z]{2}", text):
            column, row = ord(text[0]) - ord("a"), ord(text[1]) - ord("a")
            if column < width and row < height:
                return (height - 1 - row) * width + column
            raise GameFileError(
                f"{text!r} is not on the board of {height} rows and {width} columns", *_at(value)
            )
        if re.fullmatch(r"[A-Za-z][1-9][0-9]?", text):
            if not self.named_points:
                self.named_points = True
                self.warnings.append("points such as h8 are read as column and row from the bottom")
            try:
                return parse_action(self.game, text)
            except ValueError as error:
                raise GameFileError(str(error), *_at(value)) from None
        raise GameFileError(f"{text[:20]!r} is not a point: two small letters, such as hh", *_at(value))

    def _setup(self, node: list[_Property]) -> None:
        """Stones put on the board before the first move, as moves in turn."""
        stones: dict[str, list[Placed]] = {"AB": [], "AW": []}
        for prop in node:
            if prop.name in stones:
                if self.placed:
                    raise GameFileError(
                        f"{prop.name} puts stones into a game that goes on", *_at(prop.values[0])
                    )
                for value in prop.values:
                    stones[prop.name] += [Placed(action, *_at(value)) for action in self._points(value)]
            elif prop.name == "AE":
                raise GameFileError("AE removes stones: Gomoku has no such move", *_at(prop.values[0]))
        black, white = stones["AB"], stones["AW"]
        if black or white:
            if len(black) - len(white) not in (0, 1):
                first = next(prop for prop in node if prop.name in stones)
                raise GameFileError(
                    f"{len(black)} black and {len(white)} white stones: no game has these in which black "
                    "begins and the colours take turns",
                    *_at(first.values[0]),
                )
            for i in range(len(black) + len(white)):
                self.placed.append((black, white)[i % 2][i // 2])
            self.num_setup = len(self.placed)
        for prop in node:
            if prop.name == "PL":
                text = _line(prop.values[0]).strip().lower()
                color = {"1": "b", "2": "w"}.get(text, text[:1])
                if color != "bw"[len(self.placed) % 2]:
                    raise GameFileError(
                        f"PL[{text[:20]}]: after {len(self.placed)} stones "
                        f"{('black', 'white')[len(self.placed) % 2]} is to move",
                        *_at(prop.values[0]),
                    )

    def _points(self, value: lark.Token) -> list[int]:
        """The points of a list's value: one, or a rectangle `aa:cc`."""
        first, colon, last = _line(value).strip().partition(":")
        start = self._point(value, first)
        if not colon:
            return [start]
        width = self.game.width
        (row_a, column_a), (row_b, column_b) = divmod(start, width), divmod(self._point(value, last), width)
        rows = range(min(row_a, row_b), max(row_a, row_b) + 1)
        columns = range(min(column_a, column_b), max(column_a, column_b) + 1)
        return [row * width + column for row in rows for column in columns]

    def _finish(self) -> GameFile:
        self.placed, foul = without_last_foul(self.game, self.placed, self.warnings)
        state = check_moves(self.game, self.placed)
        result, ended = self._value("RE"), outcome(state) or foul
        if result and ended and result[:1].upper() != ended[0] and not (ended == "0" and result[:1] in "Dd"):
            self.warnings.append(f"the file says {result[:20]!r}, the moves end in {ended!r}")
        comment = _plain(self.root["C"][0]) if "C" in self.root else ""
        match = _SETUP_SENTENCE.match(comment)
        if match is not None and int(match[1]) <= len(self.placed):
            self.num_setup = max(self.num_setup, int(match[1]))
            comment = comment[match.end() :]
        return GameFile(
            game=self.game,
            moves=tuple(move.action for move in self.placed),
            black=self._value("PB"),
            white=self._value("PW"),
            result=result or ended,
            num_setup=self.num_setup,
            comment=comment,
            warnings=tuple(self.warnings),
            format="sgf",
        )


def read_sgf(text: str | bytes, game: Gomoku | None = None) -> GameFile:
    """The first game of an SGF file, its main line.

    Args:
        text: the file; bytes are read in the encoding that its CA property names, else UTF-8 or Latin-1.
        game: gives what the file does not tell, on a board of the same size: rule and stones in a row;
            and the size where SZ is missing.

    Raises:
        GameFileError: damaged, another game than Gomoku, or moves that the rules do not allow.
    """
    encoding = None
    if isinstance(text, bytes):
        said = re.search(rb"CA\s*\[([^\]]{1,40})\]", text[:10_000])
        encoding = said[1].decode("ascii", "replace").strip() if said else None
    text, warnings = decode(text, encoding)
    start = re.search(r"\(\s*;", text)
    if start is not None and start.start() > 0:
        before = text[: start.start()]
        if before.strip():
            warnings.append("text before the game is ignored")
        text = re.sub(r"[^\n]", " ", before) + text[start.start() :]
    trees = _parse(text)
    if len(trees) > 1:
        warnings.append(f"the first of {len(trees)} games is read")
    return _Reader(trees[0], game, warnings).read()


def write_sgf(
    game: Gomoku,
    moves: Sequence[int],
    black: str = "",
    white: str = "",
    result: str = "",
    num_setup: int = 0,
    comment: str = "",
) -> str:
    """One game as an SGF file, FF[4]GM[4]; see `gomoku_jax.game.to_sgf`. Encode it as UTF-8.

    Raises:
        ValueError: an action that is not on the board.
    """
    return to_sgf(game, moves, black, white, result, num_setup, comment)
