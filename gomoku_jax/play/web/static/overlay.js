// What an overlay paints on the points, and the words that say what it is and whose view it takes.

import { colourAt, css, inkOn } from "./colours.js";
import { pointName } from "./notation.js";

export const SIDE_NAMES = { 1: "Black", "-1": "White" };

export function signed(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return (value > 0 ? "+" : "−") + text;
}

export function grouped(count) {
  return count.toLocaleString("en");
}

export function percent(share) {
  if (share > 0 && share < 0.005) return "<1%";
  return `${Math.round(100 * share)}%`;
}

const SHARE_TICKS = ["0%", "25%", "100%"]; // the colour grows with the root of the share
const VALUE_TICKS = ["−1 loses", "0", "+1 wins"];

/** Each overlay: label, colour scale, ticks, where its numbers come from, and what to say. */
const KINDS = {
  visits: {
    label: "Visits",
    scale: "visits",
    ticks: SHARE_TICKS,
    source: "analysis",
    numbers: ({ visits }) => {
      const total = visits.reduce((sum, count) => sum + count, 0);
      return total ? visits.map((count) => (count ? count / total : null)) : null;
    },
    says: (side, { simulations }) =>
      `share of the search’s ${grouped(simulations)} simulations that tried each move, ` +
      `for ${side}, who is to move.`,
    waits: "no simulation has run yet.",
  },
  prior: {
    label: "Prior",
    scale: "prior",
    ticks: SHARE_TICKS,
    source: "analysis",
    // Nearly every point has some prior: what rounds to nothing is not shown.
    numbers: ({ prior }) => prior.map((share) => (share >= 0.005 ? share : null)),
    says: (side) =>
      `the network’s guess for ${side}, who is to move, before any search, ` +
      "not the search’s result. Under 0.5% is not shown.",
  },
  q: {
    label: "Q",
    scale: "value",
    ticks: VALUE_TICKS,
    source: "analysis",
    numbers: ({ q }) => (q.some((value) => value !== null) ? q : null),
    says: (side) =>
      `mean value of the search for ${side}, who is to move; −1 loses, +1 wins. ` +
      "No number: not tried.",
    waits: "no simulation has run yet.",
  },
  rollouts: {
    label: "Rollouts",
    scale: "value",
    ticks: VALUE_TICKS,
    source: "comparison",
    numbers: ({ rollouts }) => rollouts.move_values,
    says: (side, { rollouts }) =>
      `mean result for ${side}, who is to move, of ${rollouts.playouts} random games after each move; ` +
      "no network, no search.",
  },
  network: {
    label: "Network value",
    scale: "value",
    ticks: VALUE_TICKS,
    source: "comparison",
    numbers: ({ network }) => network.move_values,
    says: (side) =>
      `the network’s value after each move for ${side}, who is to move: one look at the position, no search.`,
  },
};

function number(kind, value, roomy) {
  if (kind.scale !== "value") return roomy ? percent(value) : percent(value).replace("%", "");
  const text = signed(value);
  if (text === "0.00") return roomy ? text : "0";
  return roomy ? text : text.replace(/^([+−]?)0(?=\.)/, "$1").replace(/\.00$/, "");
}

/**
 * The overlay of a node: {label, scale, ticks, text, cells: [{action, value, colour, ink, short, long}]}.
 * `cells` is empty and `text` says why where there is nothing to show yet; null for "none".
 */
export function overlayOf(name, node, game) {
  const kind = KINDS[name];
  if (!kind) return null;
  const shown = { label: kind.label, scale: kind.scale, ticks: kind.ticks, cells: [], best: null };
  if (node.position?.over) return { ...shown, text: "the game is over: there is no move to judge." };
  const data = node[kind.source];
  if (!data) {
    const waits = { analysis: "no search of this position yet: press Analyse.", comparison: "press Compare first." };
    return { ...shown, text: waits[kind.source] };
  }
  const numbers = kind.numbers(data);
  const side = SIDE_NAMES[node.toPlay];
  if (!numbers) return { ...shown, text: kind.waits };
  const taken = new Set(node.moves());
  numbers.forEach((value, action) => {
    if (value === null || taken.has(action)) return;
    if (kind.scale !== "value" && !(value > 0)) return;
    const colour = colourAt(kind.scale, kind.scale === "value" ? (value + 1) / 2 : Math.sqrt(value));
    shown.cells.push({
      action,
      value,
      colour: css(colour),
      ink: inkOn(colour),
      small: kind.scale !== "value" && value < 0.005,
      short: number(kind, value, false),
      long: number(kind, value, true),
    });
  });
  const top = shown.cells.reduce((best, cell) => (best && best.value >= cell.value ? best : cell), null);
  shown.best = kind.source === "analysis" && name !== "prior" ? (data.action ?? null) : (top?.action ?? null);
  return { ...shown, text: kind.says(side, data), side, top: top ? pointName(game, top.action) : "" };
}
