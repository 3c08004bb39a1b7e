// The board on a canvas: draws a view, and tells which point a person means. It knows no rules.

import { pointName } from "./notation.js";

const MIN_TAP = 28; // CSS pixels: on smaller cells a touch marks first and plays second
const LABEL_FONT = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

const SURFACES = {
  light: { wood: ["#ecd0a0", "#dfbc84"], grain: "rgb(120 78 24 / 0.055)", line: "#7a5a2c", label: "#6f5330" },
  dark: { wood: ["#b8935e", "#a37e4c"], grain: "rgb(40 20 0 / 0.08)", line: "#4d3517", label: "#38270f" },
};
const ACCENT = "#c2461b";

/** The points that boards of this size mark: the centre, and points near the corners and edges where they fit. */
export function starPoints({ height, width }) {
  const along = (side) => {
    if (side < 8) return side % 2 ? [(side - 1) / 2] : [];
    const edge = side < 12 ? 2 : 3;
    const points = [edge, side - 1 - edge];
    return side % 2 ? [...points, (side - 1) / 2] : points;
  };
  const [rows, cols] = [along(height), along(width)];
  const middle = (index, side) => side % 2 === 1 && index === (side - 1) / 2;
  const stars = [];
  for (const row of rows) {
    for (const col of cols) {
      // Points in the middle of an edge are marked from 19 on, as on a Go board.
      const edgeOnly = middle(row, height) !== middle(col, width);
      if (!edgeOnly || Math.min(height, width) >= 19) stars.push(row * width + col);
    }
  }
  return stars;
}

/** Fires "point" (detail: action) when a point is chosen, and "look" (detail: action or null) on hover. */
export class Board extends EventTarget {
  constructor(canvas, frame) {
    super();
    this.canvas = canvas;
    this.frame = frame; // the element whose size the board fits into
    this.view = null;
    this.hovered = null;
    this.cursor = null; // the keyboard's point
    this.marked = null; // a touched point that waits for the second touch
    this.canHover = true;
    this._pointer = "mouse";
    this._scheduled = false;
    new ResizeObserver(() => this._resize()).observe(frame);
    canvas.addEventListener("pointerdown", (event) => (this._pointer = event.pointerType));
    canvas.addEventListener("pointermove", (event) => this._hover(event));
    canvas.addEventListener("pointerleave", () => this._setHovered(null));
    canvas.addEventListener("click", (event) => this._click(event));
    canvas.addEventListener("blur", () => this.draw());
    canvas.addEventListener("focus", () => this.draw());
    this._watchPixelRatio();
  }

  /**
   * view: {game, moves, numbers, winning: [actions], forbidden: [actions], closedBy, overlay, line: [actions], lineSide, mark, playable, side, theme}.
   * `forbidden` are empty points that are closed by the "rule", with a cross, or by the "opening", with a veil.
   * `line` is drawn as numbered ghost stones, `lineSide` moves first; `mark` is a point to ring.
   */
  show(view) {
    const fresh = !this.view || this.view.game.height !== view.game.height || this.view.game.width !== view.game.width;
    this.view = view;
    if (fresh) {
      this.hovered = this.cursor = this.marked = null;
      this._resize();
    }
    if (this.marked !== null && view.moves.includes(this.marked)) this.marked = null;
    this.draw();
  }

  draw() {
    if (this._scheduled || !this.view) return;
    this._scheduled = true;
    requestAnimationFrame(() => {
      this._scheduled = false;
      this._paint();
    });
  }

  moveCursor(rows, cols) {
    const { height, width } = this.view.game;
    const last = this.view.moves.at(-1);
    const start = this.cursor ?? last ?? Math.floor(height / 2) * width + Math.floor(width / 2);
    const fresh = this.cursor === null && last === undefined;
    const row = Math.min(Math.max(Math.floor(start / width) + (fresh ? 0 : rows), 0), height - 1);
    const col = Math.min(Math.max((start % width) + (fresh ? 0 : cols), 0), width - 1);
    this.cursor = row * width + col;
    this.draw();
    return this.cursor;
  }

  /** CSS pixels of a point, from the canvas's corner. */
  place(action) {
    const { height, width } = this.view.game;
    return {
      x: this.left + (action % width) * this.cell,
      y: this.top + (height - 1 - Math.floor(action / width)) * this.cell,
    };
  }

  _watchPixelRatio() {
    matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener(
      "change",
      () => {
        this._resize();
        this._watchPixelRatio();
      },
      { once: true },
    );
  }

  _resize() {
    if (!this.view) return;
    const { height, width } = this.view.game;
    const room = this.frame.getBoundingClientRect();
    const margin = (cell) => Math.max(13, Math.min(26, 0.62 * cell));
    // Labels need a margin that depends on the cell: two rounds settle it.
    let cell = 40;
    for (let round = 0; round < 4; round++) {
      const space = 2 * margin(cell);
      cell = Math.min((room.width - space) / width, (room.height - space) / height, 110);
    }
    cell = Math.max(cell, 8);
    this.cell = cell;
    this.margin = margin(cell);
    this.wide = Math.floor(cell * width + 2 * this.margin);
    this.high = Math.floor(cell * height + 2 * this.margin);
    this.left = this.margin + cell / 2;
    this.top = this.margin + cell / 2;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.wide * ratio);
    this.canvas.height = Math.round(this.high * ratio);
    this.canvas.style.width = `${this.wide}px`;
    this.canvas.style.height = `${this.high}px`;
    this._surface = null;
    this._paint();
  }

  _pointAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const { height, width } = this.view.game;
    const col = Math.round((event.clientX - box.left - this.left) / this.cell);
    const up = Math.round((event.clientY - box.top - this.top) / this.cell);
    if (col < 0 || col >= width || up < 0 || up >= height) return null;
    return (height - 1 - up) * width + col;
  }

  _hover(event) {
    if (!this.view || event.pointerType !== "mouse") return;
    this._setHovered(this._pointAt(event));
  }

  _setHovered(action) {
    if (action === this.hovered) return;
    this.hovered = action;
    this.dispatchEvent(new CustomEvent("look", { detail: action }));
    this.draw();
  }

  _click(event) {
    if (!this.view) return;
    const action = this._pointAt(event);
    if (action === null) return;
    const small = this.cell < MIN_TAP && this._pointer === "touch";
    if (small && this.marked !== action && this.view.playable && !this.view.moves.includes(action)) {
      this.marked = action;
      this.dispatchEvent(new CustomEvent("mark", { detail: action }));
      this.draw();
      return;
    }
    this.marked = null;
    this.cursor = null;
    this.dispatchEvent(new CustomEvent("point", { detail: action }));
  }

  // Drawing, from the wood up.

  _paint() {
    const { view } = this;
    if (!view || !this.cell) return;
    const context = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.wide;
    const colours = SURFACES[view.theme];
    if (!this._surface || this._surface.theme !== view.theme) this._surface = this._makeSurface(ratio, colours);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this._surface.canvas, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textAlign = "center";
    context.textBaseline = "middle";
    if (view.overlay) this._paintOverlay(context, view.overlay);
    if (view.closedBy === "opening") this._paintVeil(context, view);
    else for (const action of view.forbidden) this._paintCross(context, action);
    const stones = view.moves.length;
    view.moves.forEach((action, index) => {
      this._paintStone(context, action, index % 2 === 0 ? 1 : -1, 1);
      if (view.numbers) this._paintStoneText(context, action, index % 2 === 0, String(index + 1), index === stones - 1);
    });
    if (stones && !view.numbers && !view.winning.length) this._paintLastMark(context, view.moves.at(-1));
    if (view.winning.length) this._paintWin(context, view.winning);
    if (view.line.length) this._paintLine(context, view);
    if (view.mark !== null) this._paintRing(context, view.mark, ACCENT, 0.46, 2.5);
    this._paintIntent(context, view);
  }

  _makeSurface(ratio, colours) {
    const canvas = document.createElement("canvas");
    canvas.width = this.canvas.width;
    canvas.height = this.canvas.height;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const { game } = this.view;
    const { wide, high, cell, left, top, margin } = this;
    const wood = context.createLinearGradient(0, 0, wide * 0.35, high);
    wood.addColorStop(0, colours.wood[0]);
    wood.addColorStop(1, colours.wood[1]);
    context.fillStyle = wood;
    context.fillRect(0, 0, wide, high);
    // Grain: long, slightly wavy lines; the same on every visit.
    context.strokeStyle = colours.grain;
    let seed = 7;
    const next = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
    for (let x = 0; x < wide; x += 3 + 9 * next()) {
      context.lineWidth = 0.5 + 2.2 * next();
      context.beginPath();
      context.moveTo(x, 0);
      context.bezierCurveTo(x + 14 * next(), high / 3, x - 14 * next(), (2 * high) / 3, x + 6 * next(), high);
      context.stroke();
    }
    const crisp = (value) => (Math.round(value * ratio) + 0.5) / ratio;
    const right = left + (game.width - 1) * cell;
    const bottom = top + (game.height - 1) * cell;
    context.strokeStyle = colours.line;
    for (let col = 0; col < game.width; col++) {
      context.lineWidth = col === 0 || col === game.width - 1 ? 1.5 : 1;
      context.beginPath();
      context.moveTo(crisp(left + col * cell), top);
      context.lineTo(crisp(left + col * cell), bottom);
      context.stroke();
    }
    for (let row = 0; row < game.height; row++) {
      context.lineWidth = row === 0 || row === game.height - 1 ? 1.5 : 1;
      context.beginPath();
      context.moveTo(left, crisp(top + row * cell));
      context.lineTo(right, crisp(top + row * cell));
      context.stroke();
    }
    context.fillStyle = colours.line;
    for (const action of starPoints(game)) {
      const { x, y } = this.place(action);
      context.beginPath();
      context.arc(crisp(x), crisp(y), Math.max(2, Math.min(4.5, cell * 0.09)), 0, 2 * Math.PI);
      context.fill();
    }
    context.fillStyle = colours.label;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const size = Math.max(8.5, Math.min(14, cell * 0.34));
    context.font = `500 ${size}px ${LABEL_FONT}`;
    const inset = Math.max(margin * 0.62, 8);
    for (let col = 0; col < game.width; col++) {
      const letter = String.fromCharCode(97 + col);
      context.fillText(letter, left + col * cell, inset);
      context.fillText(letter, left + col * cell, high - inset);
    }
    for (let row = 0; row < game.height; row++) {
      const y = top + (game.height - 1 - row) * cell;
      context.fillText(String(row + 1), inset, y);
      context.fillText(String(row + 1), wide - inset, y);
    }
    return { canvas, theme: this.view.theme };
  }

  _paintOverlay(context, overlay) {
    const roomy = this.cell >= 46;
    const half = this.cell * 0.43;
    for (const cell of overlay.cells) {
      if (this.view.line.includes(cell.action)) continue;
      const { x, y } = this.place(cell.action);
      context.fillStyle = cell.colour;
      context.beginPath();
      if (cell.small) {
        context.roundRect(x - half * 0.3, y - half * 0.3, half * 0.6, half * 0.6, half * 0.15);
        context.fill();
        continue;
      }
      context.roundRect(x - half, y - half, 2 * half, 2 * half, this.cell * 0.13);
      context.fill();
      if (cell.action === overlay.best) {
        context.lineWidth = Math.max(1.5, this.cell * 0.05);
        context.strokeStyle = ACCENT;
        context.stroke();
      }
      const text = roomy ? cell.long : cell.short;
      let size = Math.min(18, this.cell * (roomy ? 0.3 : 0.4));
      context.font = `600 ${size}px ${LABEL_FONT}`;
      const width = context.measureText(text).width;
      if (width > 2 * half - 2) {
        size *= (2 * half - 2) / width;
        context.font = `600 ${size}px ${LABEL_FONT}`;
      }
      context.fillStyle = cell.ink;
      context.fillText(text, x, y + size * 0.04);
    }
  }

  _paintStone(context, action, side, opacity) {
    const { x, y } = this.place(action);
    const radius = this.cell * 0.46;
    context.save();
    context.globalAlpha = opacity;
    if (opacity === 1) {
      context.shadowColor = "rgb(30 15 0 / 0.42)";
      context.shadowBlur = this.cell * 0.1 * (this.canvas.width / this.wide);
      context.shadowOffsetY = this.cell * 0.045 * (this.canvas.width / this.wide);
    }
    const shade = context.createRadialGradient(x - radius * 0.36, y - radius * 0.42, radius * 0.06, x, y, radius * 1.08);
    if (side === 1) {
      shade.addColorStop(0, "#6a6865");
      shade.addColorStop(0.45, "#2c2b2a");
      shade.addColorStop(1, "#111010");
    } else {
      shade.addColorStop(0, "#ffffff");
      shade.addColorStop(0.6, "#f4f1ea");
      shade.addColorStop(1, "#cfc9bd");
    }
    context.fillStyle = shade;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.restore();
  }

  _paintStoneText(context, action, onBlack, text, accent) {
    const { x, y } = this.place(action);
    const size = this.cell * (text.length > 2 ? 0.32 : 0.38);
    context.font = `600 ${size}px ${LABEL_FONT}`;
    context.fillStyle = accent ? (onBlack ? "#ff9a6b" : "#b53a10") : onBlack ? "#f6f3ec" : "#1b1a18";
    context.fillText(text, x, y + size * 0.04);
  }

  _paintLastMark(context, action) {
    const size = Math.min(0.2, 12 / this.cell);
    this._paintRing(context, action, "#e8602c", size, Math.max(1.75, this.cell * 0.22 * size));
  }

  _paintCross(context, action) {
    const { x, y } = this.place(action);
    const arm = this.cell * 0.2;
    context.strokeStyle = ACCENT;
    context.lineWidth = Math.max(1.5, this.cell * 0.06);
    context.beginPath();
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x - arm, y + arm);
    context.lineTo(x + arm, y - arm);
    context.stroke();
  }

  /** A shade over the points that are closed, and over the stones among them. */
  _paintVeil(context, { forbidden, moves }) {
    const { width } = this.view.game;
    const lines = [(action) => action % width, (action) => Math.floor(action / width)];
    const ranges = lines.map((line) => [Math.min(...forbidden.map(line)), Math.max(...forbidden.map(line))]);
    const among = (action) => lines.every((line, i) => line(action) >= ranges[i][0] && line(action) <= ranges[i][1]);
    context.fillStyle = "rgb(50 25 0 / 0.15)";
    for (const action of [...forbidden, ...moves.filter(among)]) {
      const { x, y } = this.place(action);
      context.fillRect(x - this.cell / 2, y - this.cell / 2, this.cell, this.cell);
    }
  }

  _paintRing(context, action, colour, radius, width) {
    const { x, y } = this.place(action);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.arc(x, y, this.cell * radius, 0, 2 * Math.PI);
    context.stroke();
  }

  _paintWin(context, winning) {
    for (const action of winning) this._paintRing(context, action, "#e8602c", 0.4, Math.max(2, this.cell * 0.05));
  }

  _paintLine(context, view) {
    view.line.forEach((action, index) => {
      const side = index % 2 === 0 ? view.lineSide : -view.lineSide;
      this._paintStone(context, action, side, 0.86);
      this._paintStoneText(context, action, side === 1, String(index + 1), index === 0);
      this._paintRing(context, action, side === 1 ? "rgb(255 255 255 / 0.55)" : "rgb(0 0 0 / 0.4)", 0.45, 1);
    });
  }

  /** Where a stone would go: the mouse's ghost, the keyboard's cursor, the touched point. */
  _paintIntent(context, view) {
    const free = (action) =>
      action !== null && !view.moves.includes(action) && !view.forbidden.includes(action) && view.playable;
    if (this.marked !== null && free(this.marked)) {
      const { x, y } = this.place(this.marked);
      context.strokeStyle = ACCENT;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x, this.margin);
      context.lineTo(x, this.high - this.margin);
      context.moveTo(this.margin, y);
      context.lineTo(this.wide - this.margin, y);
      context.stroke();
      this._paintStone(context, this.marked, view.side, 0.8);
      this._paintRing(context, this.marked, ACCENT, 0.5, 2);
    } else if (free(this.hovered) && !view.line.length) {
      this._paintStone(context, this.hovered, view.side, 0.5);
    }
    if (this.cursor !== null && document.activeElement === this.canvas) {
      const { x, y } = this.place(this.cursor);
      const half = this.cell * 0.47;
      if (free(this.cursor)) this._paintStone(context, this.cursor, view.side, 0.4);
      context.lineWidth = Math.max(2, this.cell * 0.06);
      context.strokeStyle = "#ffffff";
      context.beginPath();
      context.roundRect(x - half, y - half, 2 * half, 2 * half, this.cell * 0.12);
      context.stroke();
      context.lineWidth /= 2;
      context.strokeStyle = ACCENT;
      context.stroke();
    }
  }

  describe(action) {
    const { game, moves } = this.view;
    const index = moves.indexOf(action);
    const closed = this.view.closedBy === "opening" ? "closed by the opening" : "forbidden to black";
    const open = this.view.forbidden.includes(action) ? closed : "empty";
    const what = index < 0 ? open : `${index % 2 ? "white" : "black"} stone, move ${index + 1}`;
    return `${pointName(game, action)}, ${what}`;
  }
}
