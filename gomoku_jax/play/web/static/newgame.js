// The dialog that starts a game: a usual board or any other, the rule, and the opening.

import { describeBoard, gameFault, openingFault, OPENING_SIDES, PRESETS, sameRules } from "./notation.js";

const SWAPS = ["swap", "swap2"]; // openings that are between the players, and no part of the game

/** Gives a function that opens the dialog; `start` gets the game, and "swap", "swap2" or null. */
export function newGameDialog(session, start) {
  const find = (id) => document.getElementById(id);
  const dialog = find("new-dialog");
  const boxes = ["height", "width", "k"].map(find);

  for (const [index, preset] of PRESETS.entries()) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "preset", value: String(index) });
    const text = document.createElement("span");
    const small = document.createElement("small");
    small.textContent = `${preset.k} in a row`;
    text.append(describeBoard(preset), small);
    input.addEventListener("change", () => fill(preset));
    label.append(input, text);
    find("presets").append(label);
  }
  const custom = () => {
    const game = read();
    document.querySelectorAll("#presets input").forEach((input, index) => {
      input.checked = ["height", "width", "k"].every((field) => PRESETS[index][field] === game[field]);
    });
    check();
  };
  for (const box of boxes) box.addEventListener("input", custom);
  for (const input of document.querySelectorAll("#new-form :is([name=rule], [name=opening])")) {
    input.addEventListener("change", check);
  }
  const chosen = (name) => document.querySelector(`#new-form [name=${name}]:checked`).value;

  function fill(game) {
    boxes.forEach((box) => (box.value = game[box.id]));
    custom();
  }

  function read() {
    const [height, width, k] = boxes.map((box) => (box.value === "" ? NaN : Number(box.value)));
    const game = { height, width, k, rule: chosen("rule") };
    return chosen("opening") in OPENING_SIDES ? { ...game, opening: chosen("opening") } : game;
  }

  /** Openings that this board cannot have say why. */
  function checkOpenings(game) {
    for (const opening of Object.keys(OPENING_SIDES)) {
      const input = document.querySelector(`#new-form [value=${opening}]`);
      const small = input.parentElement.querySelector("small");
      small.dataset.says ??= small.textContent;
      const fault = openingFault(game, opening);
      input.disabled = Boolean(fault);
      small.textContent = fault || small.dataset.says;
    }
  }

  function check() {
    const game = read();
    checkOpenings(game);
    const fault = gameFault(game, session.welcome.limits, session.welcome.rules);
    find("new-error").textContent = fault;
    find("new-error").hidden = !fault;
    find("start").disabled = Boolean(fault);
    const able = session.agents.filter((agent) => session.canPlay(agent, game));
    const trained = able.filter((agent) => sameRules(agent.game, game));
    let note = "No agent here can play this board: person against person only.";
    if (able.length) note = "No agent here was trained on this game; size-free ones play it as best they can.";
    if (trained.length) note = `Trained on this game: ${trained.map((agent) => agent.name).join(", ")}.`;
    find("new-note").textContent = note;
    find("new-note").hidden = Boolean(fault);
    return fault ? null : game;
  }

  find("new-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const game = check();
    if (!game) return;
    dialog.close();
    start(game, SWAPS.find((swap) => swap === chosen("opening")) ?? null);
  });

  return () => {
    if (!session.welcome) return;
    document.querySelector(`#new-form [value=${session.game.rule}]`).checked = true;
    const opening = session.tree.opening?.swap ?? session.game.opening ?? "free";
    document.querySelector(`#new-form [name=opening][value=${opening}]`).checked = true;
    fill(session.game);
    dialog.showModal();
    find("start").focus({ preventScroll: true });
    dialog.scrollTop = 0;
  };
}
