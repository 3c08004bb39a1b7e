// Swap and swap2: the stones before a game, and who takes which colour. White moves next in any case.

export const FIRST = 1; // the players before they have colours: who sits at Black is the first
export const SECOND = -1;
export const SEAT_NAMES = { 1: "First player", "-1": "Second player" };

const NUM_STONES = 3;
const NUM_ADDED = 2;

/** What a tree keeps: plain data. `added` names the three stones to which two more were asked for, by `stonesKey`. */
export function newOpening(swap) {
  return { swap, added: [], over: false };
}

export function stonesKey(moves) {
  return moves.slice(0, NUM_STONES).join();
}

/**
 * How far an opening has come after some moves: {seat, missing, choices, base}. `seat` places `missing` stones, or
 * takes one of `choices`; what it does begins after `base` stones.
 */
export function stageOf(opening, moves) {
  const count = moves.length;
  if (count < NUM_STONES) return { seat: FIRST, missing: NUM_STONES - count, choices: [], base: 0 };
  if (count >= NUM_STONES + NUM_ADDED) return { seat: FIRST, missing: 0, choices: ["white", "black"], base: count };
  const adding = opening.added.includes(stonesKey(moves));
  const missing = adding ? NUM_STONES + NUM_ADDED - count : 0;
  const choices = opening.swap === "swap2" ? ["white", "black", "add"] : ["white", "black"];
  return { seat: SECOND, missing, choices: adding ? [] : choices, base: NUM_STONES };
}
