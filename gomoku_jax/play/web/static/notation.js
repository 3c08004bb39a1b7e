// Names of points, move strings and the position in the address. Row 0 is at the bottom; no letter is skipped.

export const PRESETS = [
  { height: 3, width: 3, k: 3, label: "Tic-tac-toe" },
  { height: 6, width: 6, k: 4, label: "Small" },
  { height: 8, width: 8, k: 5, label: "Medium" },
  { height: 9, width: 9, k: 5, label: "Nine lines" },
  { height: 15, width: 15, k: 5, label: "Gomoku" },
  { height: 19, width: 19, k: 5, label: "Go board" },
];

const WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

export function pointName(game, action) {
  const row = Math.floor(action / game.width);
  return String.fromCharCode(97 + (action % game.width)) + (row + 1);
}

export function formatMoves(game, moves) {
  return moves.map((action) => pointName(game, action)).join("");
}

/** The actions of a move string; throws an Error whose message is for the reader. */
export function parseMoves(game, text) {
  const moves = [];
  const point = /([a-z])([1-9][0-9]?)/iy;
  const compact = text.replace(/[\s,]+/g, "");
  while (point.lastIndex < compact.length) {
    const start = point.lastIndex;
    const match = point.exec(compact);
    if (!match) throw new Error(`no point at “${compact.slice(start, start + 4)}” in the moves “${compact}”`);
    const col = match[1].toLowerCase().charCodeAt(0) - 97;
    const row = Number(match[2]) - 1;
    if (row >= game.height || col >= game.width) {
      throw new Error(`${match[0]} is not on the board of ${game.height} rows and ${game.width} columns`);
    }
    const action = row * game.width + col;
    if (moves.includes(action)) throw new Error(`${match[0]} is played twice`);
    moves.push(action);
  }
  return moves;
}

/** The same board and what wins on it, whatever the opening. */
export function sameRules(one, other) {
  return ["height", "width", "k", "rule"].every((field) => one[field] === other[field]);
}

export function sameGame(one, other) {
  return sameRules(one, other) && (one.opening ?? "free") === (other.opening ?? "free");
}

export function describeBoard(game) {
  return `${game.height}×${game.width}`;
}

/** Openings that bind Black's first two stones: the least that the longer side of a board has. */
export const OPENING_SIDES = { pro: 6, long_pro: 8 };
const OPENING_NAMES = { pro: "pro opening", long_pro: "long pro opening" };
const RULE_NAMES = { caro: "caro", caro_overline: "caro with overlines", renju: "renju" };

export function describeGame(game) {
  const count = WORDS[game.k] ?? String(game.k);
  const row = `${game.rule === "exact" ? "exactly " : ""}${count} in a row`;
  const parts = [describeBoard(game), RULE_NAMES[game.rule], row, OPENING_NAMES[game.opening]];
  return parts.filter(Boolean).join(", ");
}

/** Why a board cannot have an opening, in words, or "" where it can. */
export function openingFault(game, opening) {
  const side = OPENING_SIDES[opening] ?? 0;
  if (side && game.k < 4) return "needs 4 or more in a row";
  return Math.max(game.height, game.width) < side ? `needs a side of ${side} or more` : "";
}

/** Why a game is none, in words, or "" where it is one. */
export function gameFault(game, limits, rules) {
  for (const [name, side] of [["rows", game.height], ["columns", game.width]]) {
    if (!Number.isInteger(side) || side < limits.min_side || side > limits.max_side) {
      return `${name}: ${Number.isNaN(side) ? "not a number" : side}; from ${limits.min_side} to ${limits.max_side}`;
    }
  }
  const longest = Math.max(game.height, game.width);
  if (!Number.isInteger(game.k) || game.k < 3 || game.k > longest) {
    return `in a row: ${Number.isNaN(game.k) ? "not a number" : game.k}; from 3 to ${longest} on this board`;
  }
  if (game.rule === "renju" && game.k !== 5) return `in a row: ${game.k}; renju is 5 in a row`;
  if (!rules.includes(game.rule)) return `rule “${game.rule}”: one of ${rules.join(", ")}`;
  if (game.opening === undefined) return "";
  const openings = Object.keys(OPENING_SIDES);
  if (!openings.includes(game.opening)) return `opening “${game.opening}”: one of free, ${openings.join(", ")}`;
  const fault = openingFault(game, game.opening);
  return fault && `opening: the ${OPENING_NAMES[game.opening]} ${fault}`;
}

/** What stands after the # of the address for a position. */
export function formatFragment(game, moves) {
  const opening = game.opening ? `&opening=${game.opening}` : "";
  const board = `board=${game.height}x${game.width}x${game.k}&rule=${game.rule}${opening}`;
  return `${board}&moves=${formatMoves(game, moves)}`;
}

/** {game, moves} of a fragment, or null for an empty one; throws an Error whose message is for the reader. */
export function parseFragment(fragment, limits, rules, fallback) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  if (![...fields.keys()].length) return null;
  let game = { ...fallback };
  if (fields.has("board")) {
    const match = /^(\d{1,3})x(\d{1,3})x(\d{1,3})$/i.exec(fields.get("board"));
    if (!match) throw new Error(`board “${fields.get("board")}”: write ROWSxCOLUMNSxK, such as 15x15x5`);
    game = { height: Number(match[1]), width: Number(match[2]), k: Number(match[3]), rule: "freestyle" };
  }
  if (fields.has("rule")) game.rule = fields.get("rule");
  if (fields.has("opening")) game.opening = fields.get("opening");
  if (game.opening === "free") delete game.opening;
  const fault = gameFault(game, limits, rules);
  if (fault) throw new Error(fault);
  return { game, moves: parseMoves(game, fields.get("moves") ?? "") };
}
