"""Ratings and results as tables, in Markdown or as plain text."""

import math
from collections.abc import Sequence

from gomoku_jax.rating.elo import PlayerRating, Ratings


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> str:
    """A table; the first column is set to the left, the others to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    if markdown:
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
        rule = ["---", *["---:"] * (len(header) - 1)]
        return "".join("| " + " | ".join(row) + " |\n" for row in [cells[0], rule, *cells[1:]])
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]
    return "".join(line.rstrip() + "\n" for line in lines)


def format_interval(player: PlayerRating) -> str:
    """`[412, 530]`; `>= 412` or `<= 530` where the games bound one side only."""
    if math.isnan(player.low):
        return ""
    if math.isinf(player.low) and math.isinf(player.high):
        return "unbounded"
    if math.isinf(player.high):
        return f">= {player.low:.0f}"
    if math.isinf(player.low):
        return f"<= {player.high:.0f}"
    return f"[{player.low:.0f}, {player.high:.0f}]"


def rating_table(ratings: Ratings, markdown: bool = False) -> str:
    """One line a player, strongest first."""
    rows = [
        [
            player.name,
            f"{player.elo:.0f}",
            "0 by definition" if player.name == ratings.anchor else format_interval(player),
            str(player.games),
            f"{player.score:.3f}",
            str(player.opponents),
        ]
        for player in ratings.players
    ]
    interval = f"{100 * ratings.confidence:g} % interval"
    return format_table(("player", "Elo", interval, "games", "score", "opponents"), rows, markdown)


def crosstable(ratings: Ratings, markdown: bool = False) -> str:
    """Everyone against everyone, strongest first: the score of the row's player and its wins-draws-losses."""
    names = [player.name for player in ratings.players]
    met = {(p.a, p.b): p for p in ratings.pairings} | {(p.b, p.a): p.swapped() for p in ratings.pairings}
    rows = []
    for i, name in enumerate(names, 1):
        row = [f"{i}. {name}"]
        for other in names:
            pairing = met.get((name, other))
            if pairing is None:
                row.append("" if name != other else "-" if markdown else "---")
            else:
                row.append(f"{pairing.score:.2f} ({'-'.join(map(str, pairing.results))})")
        rows.append(row)
    return format_table(("", *(str(i) for i in range(1, len(names) + 1))), rows, markdown)


def pair_table(ratings: Ratings, markdown: bool = False) -> str:
    """One line for every two players who met: games, results, distinct games, score, the model's score."""
    rank = {player.name: i for i, player in enumerate(ratings.players)}
    pairings = [p if rank[p.a] < rank[p.b] else p.swapped() for p in ratings.pairings]
    rows = [
        [
            f"{pairing.a} - {pairing.b}",
            str(pairing.num_games),
            "-".join(map(str, pairing.results)),
            "-".join(map(str, pairing.as_black)),
            "-".join(map(str, pairing.as_white)),
            "?" if pairing.distinct_games is None else str(pairing.distinct_games),
            f"{pairing.score:.3f}",
            f"{ratings.expected_score(pairing.a, pairing.b):.3f}",
        ]
        for pairing in sorted(pairings, key=lambda p: (rank[p.a], rank[p.b]))
    ]
    header = ("pair", "games", "W-D-L", "as black", "as white", "distinct", "score", "by the ratings")
    return format_table(header, rows, markdown)
