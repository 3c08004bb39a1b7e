// The lists beside the board: best moves, rollouts beside the network, variations, the moves of the game.

import { pointName } from "./notation.js";
import { percent, SIDE_NAMES, signed } from "./overlay.js";

function make(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function withText(cell, text, track) {
  const box = make("div");
  box.append(make("span", "bar-text", text), track);
  cell.append(box);
  return cell;
}

function bar(className, share, text) {
  const cell = make("td", "bar-cell");
  const track = make("span", `bar ${className}`);
  const fill = make("span", "fill");
  fill.style.setProperty("--share", String(Math.min(Math.max(share, 0), 1)));
  track.append(fill);
  return withText(cell, text, track);
}

/** A bar from the middle: left of it loses, right of it wins. */
function valueBar(className, value) {
  const cell = make("td", "bar-cell");
  const track = make("span", `bar both ${className}`);
  const fill = make("span", `fill ${value < 0 ? "negative" : "positive"}`);
  fill.style.setProperty("--share", String(Math.abs(value ?? 0) / 2));
  track.append(fill);
  return withText(cell, value === null ? "–" : signed(value), track);
}

/** Rows that one can point at: fires "point" (detail: row index or null) on hover, focus and tap. */
class PointedTable extends EventTarget {
  constructor(body) {
    super();
    this.body = body;
    this.pointed = null;
    this.pinned = null;
    const rowOf = (event) => event.target.closest("tr");
    body.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this._point(rowOf(event)));
    body.addEventListener("pointerleave", () => this._point(null));
    body.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && this._point(rowOf(event)));
    body.addEventListener("focusout", () => this._point(null));
    body.addEventListener("click", (event) => {
      const row = rowOf(event);
      const index = row && row.parentNode ? [...body.rows].indexOf(row) : null;
      this.pinned = this.pinned === index ? null : index;
      this._tell();
    });
  }

  get shown() {
    return this.pointed ?? this.pinned;
  }

  clear() {
    this.pointed = this.pinned = null;
  }

  _point(row) {
    this.pointed = row ? [...this.body.rows].indexOf(row) : null;
    this._tell();
  }

  _tell() {
    this.dispatchEvent(new CustomEvent("point", { detail: this.shown }));
  }

  /** Rows in place: a row under the mouse stays the same element while its numbers change. */
  _fill(rows) {
    while (this.body.rows.length > rows.length) this.body.lastElementChild.remove();
    rows.forEach((cells, index) => {
      let row = this.body.rows[index];
      if (!row) {
        row = make("tr");
        row.tabIndex = 0;
        this.body.append(row);
      }
      row.replaceChildren(...cells);
      row.classList.toggle("shown", index === this.shown);
    });
    if (this.pinned !== null && this.pinned >= rows.length) this.pinned = null;
  }
}

export class CandidateList extends PointedTable {
  show(game, analysis) {
    const total = analysis?.visits.reduce((sum, count) => sum + count, 0) || 1;
    this.candidates = analysis?.candidates ?? [];
    this._fill(
      this.candidates.map((candidate, index) => [
        make("td", "rank", String(index + 1)),
        make("td", "point", pointName(game, candidate.action)),
        bar("visits", candidate.visits / total, percent(candidate.visits / total)),
        make("td", "number", percent(candidate.prior)),
        make("td", "number", candidate.visits ? signed(candidate.q) : "–"),
        make("td", "line", candidate.line.slice(1).map((action) => pointName(game, action)).join(" ")),
      ]),
    );
  }

  /** The line of the row that is pointed at, or []. */
  get line() {
    return this.candidates?.[this.shown]?.line ?? [];
  }
}

export class ComparisonTable extends PointedTable {
  show(game, node) {
    const { comparison, analysis } = node;
    this.actions = comparison ? topMoves(comparison) : [];
    this._fill(
      this.actions.map((action) => [
        make("td", "point", pointName(game, action)),
        bar("prior", comparison.network.prior[action], percent(comparison.network.prior[action])),
        valueBar("value", comparison.network.move_values[action]),
        valueBar("value", comparison.rollouts.move_values[action]),
        make("td", "number", searchText(analysis, action)),
      ]),
    );
  }

  get action() {
    return this.actions?.[this.shown] ?? null;
  }
}

function searchText(analysis, action) {
  const total = analysis?.visits.reduce((sum, count) => sum + count, 0);
  if (!total || !analysis.visits[action]) return "–";
  return `${percent(analysis.visits[action] / total)} ${signed(analysis.q[action] ?? 0)}`;
}

/** The moves that any of the three prefers, best prior first. */
function topMoves({ network, rollouts }) {
  const best = (numbers, count) =>
    numbers
      .map((value, action) => [value, action])
      .filter(([, action]) => network.move_values[action] !== null)
      .sort((one, other) => other[0] - one[0])
      .slice(0, count)
      .map(([, action]) => action);
  const chosen = new Set([...best(network.prior, 4), ...best(network.move_values, 2), ...best(rollouts.move_values, 3)]);
  return [...chosen].sort((one, other) => network.prior[other] - network.prior[one]);
}

/** Buttons for the branches here: those beside the move just played, and those that go on from it. */
export function showVariations(box, session) {
  const { node, game } = session;
  const groups = [];
  if (node.parent && node.parent.children.length > 1) groups.push([`Move ${node.depth}`, node.parent.children, node]);
  if (node.children.length > 1) groups.push([`Next move`, node.children, node.preferred]);
  box.hidden = !groups.length;
  box.replaceChildren(
    ...groups.map(([label, nodes, chosen]) => {
      const group = make("div", "variation-group");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", `${label}: variations`);
      group.append(make("span", "variation-label", label));
      for (const child of nodes) {
        const button = make("button", `chip ${child.toPlay === 1 ? "white" : "black"}`, pointName(game, child.action));
        button.type = "button";
        button.setAttribute("aria-pressed", String(child === chosen && child === node));
        button.title = `${SIDE_NAMES[-child.toPlay]} ${pointName(game, child.action)}`;
        button.addEventListener("click", () => session.goTo(child));
        group.append(button);
      }
      return group;
    }),
  );
}

/** The moves of the line, as buttons; a dot after a move says that it has variations. */
export function showMoves(list, session) {
  const { game, node } = session;
  const line = session.tree.line().slice(1);
  while (list.children.length > line.length) list.lastElementChild.remove();
  line.forEach((shown, index) => {
    let item = list.children[index];
    if (!item) {
      item = make("li");
      const button = make("button", "move");
      button.type = "button";
      button.append(make("span", "move-number"), make("span", "move-point"));
      button.addEventListener("click", () => session.goTo(session.tree.line()[index + 1]));
      item.append(button);
      list.append(item);
    }
    const button = item.firstElementChild;
    button.firstElementChild.textContent = String(index + 1);
    button.lastElementChild.textContent = pointName(game, shown.action);
    button.className = `move ${index % 2 ? "white" : "black"}${shown.parent.children.length > 1 ? " branched" : ""}`;
    if (shown === node) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
}
