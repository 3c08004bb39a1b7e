// The value over the game, from Black's view: the network's line, and the search's points where one was run.

const NAMESPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 128;
const MARGIN = { left: 30, right: 10, top: 10, bottom: 20 };

function element(name, attributes, text) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Fires "choose" (detail: index in the line) on a click or a key. */
export class ValueGraph extends EventTarget {
  constructor(svg) {
    super();
    this.svg = svg;
    this.line = [];
    this.index = 0;
    new ResizeObserver(() => this._paint()).observe(svg);
    svg.addEventListener("click", (event) => {
      if (this.line.length < 2) return;
      const x = event.clientX - svg.getBoundingClientRect().left;
      const index = Math.round(((x - MARGIN.left) / this._inner) * (this._span || 1));
      this._choose(index);
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      this._choose(this.index + step);
    });
  }

  /** line: [{network: number or null, search: number or null, name}] from the root on; index: the node shown. */
  show(line, index) {
    this.line = line;
    this.index = index;
    this._paint();
  }

  _choose(index) {
    const clipped = Math.min(Math.max(index, 0), this.line.length - 1);
    this.dispatchEvent(new CustomEvent("choose", { detail: clipped }));
  }

  _paint() {
    const { svg, line } = this;
    const width = svg.clientWidth;
    if (!width) return;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this._inner = width - MARGIN.left - MARGIN.right;
    this._span = Math.max(line.length - 1, 8);
    const bottom = HEIGHT - MARGIN.bottom;
    const x = (index) => MARGIN.left + (this._inner * index) / this._span;
    const y = (value) => MARGIN.top + ((1 - value) / 2) * (bottom - MARGIN.top);
    const parts = [];
    for (const [value, label] of [[1, "+1"], [0, "0"], [-1, "−1"]]) {
      const ends = { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) };
      parts.push(element("line", { ...ends, class: value ? "rule" : "rule zero" }));
      parts.push(element("text", { x: MARGIN.left - 6, y: y(value) + 4, class: "tick end" }, label));
    }
    const every = [1, 2, 5, 10, 20, 50, 100, 200].find((step) => this._span / step <= Math.max(this._inner / 34, 2));
    for (let index = 0; index <= this._span; index += every) {
      parts.push(element("text", { x: x(index), y: HEIGHT - 5, class: "tick middle" }, String(index)));
    }
    parts.push(element("text", { x: MARGIN.left + 6, y: y(1) + 13, class: "tick side" }, "Black wins"));
    parts.push(element("text", { x: MARGIN.left + 6, y: y(-1) - 6, class: "tick side" }, "White wins"));
    parts.push(element("line", { x1: x(this.index), x2: x(this.index), y1: MARGIN.top, y2: bottom, class: "now" }));
    const known = line.map((node, index) => [index, node.network]).filter(([, value]) => value !== null);
    if (known.length) {
      const path = known.map(([index, value]) => `${x(index)},${y(value)}`).join(" ");
      const area = `${x(known[0][0])},${y(0)} ${path} ${x(known.at(-1)[0])},${y(0)}`;
      parts.push(element("polygon", { points: area, class: "network-area" }));
      parts.push(element("polyline", { points: path, class: "network-line" }));
    }
    const here = line[this.index];
    if (here && here.network !== null) {
      parts.push(element("circle", { cx: x(this.index), cy: y(here.network), r: 4, class: "network-point" }));
    }
    const searched = line.map((node, index) => [index, node.search]).filter(([, value]) => value !== null);
    const trail = searched.map(([index, value]) => `${x(index)},${y(value)}`).join(" ");
    parts.push(element("polyline", { points: trail, class: "search-line" }));
    for (const [index, value] of searched) {
      parts.push(element("circle", { cx: x(index), cy: y(value), r: 2.6, class: "search-point" }));
    }
    svg.replaceChildren(...parts);
    svg.setAttribute("aria-valuemin", "0");
    svg.setAttribute("aria-valuemax", String(Math.max(line.length - 1, 0)));
    svg.setAttribute("aria-valuenow", String(this.index));
    const text = (value, name) => (value === null || value === undefined ? "" : `, ${name} ${value.toFixed(2)}`);
    svg.setAttribute(
      "aria-valuetext",
      `move ${this.index}${text(here?.network, "network")}${text(here?.search, "search")}, from Black’s view`,
    );
  }
}
