// Wires the page together: the session's state on one side, buttons, keys, files and the board on the other.

import { Board } from "./board.js";
import { Connection } from "./connection.js";
import { gradient } from "./colours.js";
import { ValueGraph } from "./graph.js";
import { importGames } from "./files.js";
import { renderMarkdown } from "./markdown.js";
import { newGameDialog } from "./newgame.js";
import { describeBoard, describeGame, formatFragment, parseFragment } from "./notation.js";
import { pointName, sameGame, sameRules } from "./notation.js";
import { FIRST, SECOND } from "./opening.js";
import { grouped, overlayOf, SIDE_NAMES, signed } from "./overlay.js";
import { CandidateList, ComparisonTable, showMoves, showVariations } from "./panels.js";
import { PERSON, Session } from "./session.js";
import { currentTheme, recall, remember, startTheme } from "./settings.js";
import { MoveTree } from "./tree.js";

const find = (id) => document.getElementById(id);
const scheme = location.protocol === "https:" ? "wss:" : "ws:";
const connection = new Connection(`${scheme}//${location.host}/ws`);
const session = new Session(connection);
const board = new Board(find("board"), find("board-frame"));
const graph = new ValueGraph(find("graph"));
const candidates = new CandidateList(find("candidates"));
const comparison = new ComparisonTable(find("comparison"));
const settings = recall();
let overlay = settings.overlay ?? "none";
let overlayChosen = overlay !== "none"; // since the page was opened
let welcomed = false;
let renderScheduled = false;
let lastNode = null;

const OVERLAYS = [["none", "None"], ["visits", "Visits"], ["prior", "Prior"], ["q", "Q"]];

// Words for the reader.

function toast(text, kind = "info", action = null, time = 0) {
  const box = document.createElement("div");
  box.className = `toast ${kind}`;
  box.append(text);
  if (action) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = action.label;
    button.addEventListener("click", () => {
      box.remove();
      action.run();
    });
    box.append(button);
  }
  const toasts = find("toasts");
  for (const old of toasts.children) if (old.firstChild.textContent === text) old.remove();
  while (toasts.children.length > 1) toasts.firstElementChild.remove();
  toasts.append(box);
  const long = kind === "error" || action || text.length > 80;
  setTimeout(() => box.remove(), time || (long ? 9000 : 5000));
}

function announce(text) {
  find("announce").textContent = text;
}

// The address.

function syncAddress() {
  const fragment = `#${formatFragment(session.game, session.node.moves())}`;
  if (location.hash !== fragment) history.replaceState(null, "", fragment);
  remember({ players: session.players, limit: session.limit, delay: session.delay, agent: session.agent, overlay });
  try {
    sessionStorage.setItem("gomoku-tree", JSON.stringify(session.tree));
  } catch {
    // A tab without storage forgets its branches on reload, and nothing else.
  }
}

/** The tree of this tab before a reload, where it holds the position of the address. */
function storedTree(game, moves) {
  try {
    const tree = MoveTree.fromJSON(JSON.parse(sessionStorage.getItem("gomoku-tree")));
    const fits = sameGame(tree.game, game) && tree.current.moves().join() === moves.join();
    return fits ? tree : null;
  } catch {
    return null;
  }
}

async function loadAddress(atStart) {
  const { limits, rules, defaults } = session.welcome;
  let asked = null;
  try {
    asked = parseFragment(location.hash, limits, rules, atStart ? defaults.game : session.game);
  } catch (error) {
    toast(`The address does not hold a position: ${error.message}.`, "error");
  }
  if (atStart) {
    const game = asked?.game ?? defaults.game;
    // Shown at once; what the rules refuse of it is taken back when they answer.
    const kept = asked && storedTree(game, asked.moves);
    const tree = kept || new MoveTree({ ...game });
    if (asked) tree.playLine(asked.moves);
    // A position that somebody sent is looked at first; a reload goes on with the game.
    session.restore(tree, session.numAgents === 2 || (!kept && tree.current !== tree.root));
  } else if (asked) {
    await session.load(asked.game, asked.moves);
  }
}

connection.addEventListener("welcome", ({ detail: welcome }) => {
  find("banner").hidden = true;
  if (!welcomed) {
    welcomed = true;
    const agent = welcome.defaults.agent;
    session.agent = settings.agent ?? agent;
    session.limit = settings.limit ?? { kind: "simulations", amount: welcome.defaults.simulations };
    session.delay = settings.delay ?? 500;
    session.players = settings.players ?? { 1: PERSON, "-1": agent };
    session.welcome = welcome;
    find("reason").textContent = welcome.reason;
    find("playouts").max = welcome.limits.max_playouts;
    loadAddress(true).then(() => session.start(welcome));
  } else {
    toast("Connected again.");
    session.start(welcome);
  }
});
connection.addEventListener("lost", () => (find("banner").hidden = false));
find("reconnect").addEventListener("click", () => connection.reconnectNow());
addEventListener("hashchange", () => session.welcome && connection.connected && loadAddress(false));

session.addEventListener("notice", ({ detail }) => toast(detail.text, detail.kind, detail.action));
session.addEventListener("change", () => {
  if (session.node !== lastNode) arriveAt(session.node);
  if (renderScheduled) return;
  renderScheduled = true;
  requestAnimationFrame(render);
});
session.addEventListener("chosen", syncAddress);
session.addEventListener("moved", ({ detail: node }) => {
  const side = SIDE_NAMES[-node.toPlay];
  announce(`${side} ${pointName(session.game, node.action)}. ${session.verdict()}.`);
});

// Drawing everything that is shown.

/** Another position: what pointed at the one before is over, and the address tells at once, before any drawing. */
function arriveAt(node) {
  lastNode = node;
  candidates.clear();
  comparison.clear();
  find("tap-hint").hidden = true;
  if (session.welcome) syncAddress();
}

function render() {
  renderScheduled = false;
  const { node, game } = session;
  const swap = session.tree.opening?.swap;
  find("game-name").textContent = `${describeGame(game)}${swap ? `, ${swap}` : ""}`;
  find("board-frame").style.setProperty("--board-ratio", String((game.width + 0.8) / (game.height + 0.8)));
  renderBoard();
  renderStatus();
  renderChoices();
  renderPlayers();
  renderAnalysis();
  renderFeedback();
  showVariations(find("variations"), session);
  showMoves(find("moves"), session);
  find("no-moves").hidden = session.tree.root.children.length > 0;
}

function renderBoard() {
  const { node, game } = session;
  board.show({
    game,
    moves: node.moves(),
    numbers: find("numbers").checked,
    winning: node.position?.winning_points ?? [],
    forbidden: node.forbidden(),
    closedBy: session.closedBy,
    overlay: overlayOf(overlay, node, game),
    line: candidates.line,
    lineSide: node.toPlay,
    mark: comparison.action,
    playable: session.playable && session.welcome !== null,
    side: node.toPlay,
    theme: currentTheme(),
  });
  board.canvas.classList.toggle("playable", session.playable);
  const last = node.action === null ? "empty" : `last move ${pointName(game, node.action)}`;
  board.canvas.setAttribute("aria-label", `Board of ${describeGame(game)}; ${last}. ${session.verdict()}.`);
}

function renderStatus() {
  const { node, task } = session;
  const { position } = node;
  const side = position?.over ? position.winner : node.toPlay;
  find("status-stone").className = `stone ${side === 1 ? "black" : "white"}`;
  find("status-stone").hidden = side === 0 || session.stage?.missing === 0;
  find("status").classList.toggle("over", Boolean(position?.over));
  let text = session.verdict();
  if (session.loading) text = "Loading…";
  else if (task?.kind === "move") text = `${SIDE_NAMES[node.toPlay]} is thinking`;
  else if (task?.kind === "opening") text = `${task.agent} is ${session.stage.missing ? "placing stones" : "choosing"}`;
  else if (session.mover !== PERSON && session.holding && !position?.over) text += ", paused";
  find("status-text").textContent = session.welcome ? text : "Connecting…";
  const total = session.tree.line().length - 1;
  find("move-count").textContent = total === node.depth ? String(node.depth) : `${node.depth} of ${total}`;
  find("first").disabled = find("undo").disabled = !node.parent;
  find("last").disabled = find("redo").disabled = !node.preferred;
}

/** The buttons of a person who chooses in an opening. */
function renderChoices() {
  const { stage, node } = session;
  const waits = node.position && !node.position.over && session.mover === PERSON;
  const choices = (waits && stage?.choices) || [];
  find("choices").hidden = !choices.length;
  for (const kind of ["white", "black", "add"]) find(`choose-${kind}`).hidden = !choices.includes(kind);
}

function fillAgents(select, chosen, withPerson) {
  const options = withPerson ? [[PERSON, "Person", true]] : [];
  for (const agent of session.agents) {
    const fits = session.canPlay(agent);
    options.push([agent.name, fits ? agent.name : `${agent.name} (${describeBoard(agent.game)} only)`, fits]);
  }
  const state = JSON.stringify(options);
  if (select.dataset.options !== state) {
    select.dataset.options = state;
    select.replaceChildren(
      ...options.map(([value, label, enabled]) => {
        const option = new Option(label, value);
        option.disabled = !enabled;
        return option;
      }),
    );
  }
  if (select.value !== chosen) select.value = chosen;
}

/** What to say where an agent was not trained on this game, or "". */
function untrained(name) {
  const agent = session.agentNamed(name);
  if (!agent || sameRules(agent.game, session.game)) return "";
  const known = describeGame(agent.game);
  if (agent.game.k !== session.game.k) return `Trained on ${known}: not this game.`;
  return `Trained on ${known}: not this ${agent.game.rule === session.game.rule ? "board" : "rule"}.`;
}

function renderPlayers() {
  const over = session.node.position?.over;
  find("players").classList.toggle("opening", Boolean(session.stage));
  for (const [side, id] of [[1, "black"], [-1, "white"]]) {
    const name = session.players[side];
    fillAgents(find(id), name, true);
    find(`player-${id}`).classList.toggle("turn", !over && session.turn === side);
    find(`label-${id}`).textContent = session.stage ? { [FIRST]: "First", [SECOND]: "Second" }[side] : SIDE_NAMES[side];
    find(`about-${id}`).hidden = name === PERSON;
    const note = untrained(name);
    const repeated = side === -1 && name === session.players[1];
    find(`note-${id}`).textContent = note;
    find(`note-${id}`).hidden = !note || repeated;
  }
  fillAgents(find("agent"), session.agent, false);
  const note = untrained(session.agent);
  find("note-agent").textContent = note;
  find("note-agent").hidden = !note || Object.values(session.players).includes(session.agent);
  find("agent-row").hidden = session.numAgents === 0;
  find("watch-row").hidden = session.numAgents < 2;
  find("pause").textContent = session.holding ? "Go on" : "Pause";
  find("pause").disabled = find("step").disabled = Boolean(over);
  if (document.activeElement !== find("amount")) find("amount").value = session.limit.amount;
  find("limit-kind").value = session.limit.kind;
  find("delay").value = String(session.delay);
}

function renderLegend(prefix, shown) {
  const legend = find(prefix === "legend" ? "legend" : `${prefix}-legend`);
  legend.hidden = !shown;
  if (!shown) return;
  const background = gradient(shown.scale);
  const bar = find(`${prefix}-bar`);
  if (bar.dataset.scale !== shown.scale) {
    bar.dataset.scale = shown.scale;
    bar.style.background = background;
  }
  const ticks = find(`${prefix}-ticks`);
  if (ticks.textContent !== shown.ticks.join("")) {
    ticks.replaceChildren();
    for (const tick of shown.ticks) ticks.append(Object.assign(document.createElement("span"), { textContent: tick }));
  }
  const title = document.createElement("b");
  title.textContent = `${shown.label}: `;
  find(`${prefix}-text`).replaceChildren(title, shown.text);
}

function renderAnalysis() {
  const { node, game, task } = session;
  const button = find("analyse");
  button.setAttribute("aria-pressed", String(session.analysing));
  button.textContent = session.analysing && task ? "Stop" : "Analyse";
  const ofSearch = ["visits", "prior", "q"].includes(overlay);
  for (const input of document.querySelectorAll("#overlays input")) {
    input.checked = input.value === (ofSearch ? overlay : "none") && (ofSearch || overlay === "none");
  }
  renderLegend("legend", ofSearch ? overlayOf(overlay, node, game) : null);
  const { analysis } = node;
  let text = "";
  if (analysis) {
    const { simulations, seconds, done } = analysis;
    const rate = !done && seconds > 0 ? `, ${grouped(Math.round(simulations / seconds))} a second` : "";
    text =
      `${signed(analysis.value)} for ${SIDE_NAMES[analysis.to_play]} after ` +
      `${grouped(simulations)} simulations of ${analysis.agent}${rate}.`;
  } else if (task && task.node === node) text = `${task.agent}: starting the search…`;
  else if (!node.position?.over) text = "Best moves appear here while a search runs.";
  find("search-text").textContent = text;
  candidates.show(game, analysis);
  find("candidate-table").hidden = !analysis;
  const line = session.tree.line();
  graph.show(
    line.map((shown) => ({
      network: shown.values.get(session.agent) ?? null,
      search: shown.analysis?.simulations ? shown.analysis.value * shown.toPlay : null,
    })),
    node.depth,
  );
}

function renderFeedback() {
  const { node, game } = session;
  for (const name of ["rollouts", "network"]) {
    find(`paint-${name}`).setAttribute("aria-pressed", String(overlay === name));
  }
  renderLegend("feedback", ["rollouts", "network"].includes(overlay) ? overlayOf(overlay, node, game) : null);
  comparison.show(game, node);
  find("comparison-table").hidden = !node.comparison;
  find("comparison-table").classList.toggle("searched", Boolean(node.analysis?.simulations));
  const found = node.comparison;
  const searched = node.analysis?.simulations ? node.analysis : null;
  find("compare").disabled = Boolean(node.position?.over) || !session.agent;
  find("compare-text").textContent = found
    ? `The position for ${SIDE_NAMES[found.to_play]}, who is to move: rollouts ${signed(found.rollouts.value)}, ` +
      `network (${found.agent}) ${signed(found.network.value)}` +
      (searched ? `, search ${signed(searched.value)} after ${grouped(searched.simulations)} simulations.` : ".")
    : "Puts random games beside the network at this position.";
}

// Board, lists and graph.

board.addEventListener("point", ({ detail: action }) => {
  find("tap-hint").hidden = true;
  session.play(action);
});
board.addEventListener("mark", ({ detail: action }) => {
  find("tap-hint").hidden = false;
  announce(`${board.describe(action)}. Tap again to play.`);
});
candidates.addEventListener("point", () => render());
comparison.addEventListener("point", () => render());
graph.addEventListener("choose", ({ detail: index }) => session.goTo(session.tree.line()[index]));

// Buttons.

const CLICKS = {
  first: () => session.first(),
  undo: () => session.undo(),
  redo: () => session.redo(),
  last: () => session.last(),
  analyse: toggleAnalysis,
  pause: () => session.setHolding(!session.holding),
  step: () => session.step(),
  "new-game": () => openNewGame(),
  help: () => find("help-dialog").showModal(),
  "about-black": () => showAbout(session.players[1]),
  "about-white": () => showAbout(session.players[-1]),
  "about-agent": () => showAbout(session.agent),
  "paint-rollouts": () => setOverlay(overlay === "rollouts" ? "none" : "rollouts"),
  "paint-network": () => setOverlay(overlay === "network" ? "none" : "network"),
  compare: () => runComparison(),
  "choose-white": () => session.choose("white"),
  "choose-black": () => session.choose("black"),
  "choose-add": () => session.choose("add"),
};
for (const [id, run] of Object.entries(CLICKS)) find(id).addEventListener("click", run);
for (const [id, side] of [["black", 1], ["white", -1]]) {
  find(id).addEventListener("change", (event) => {
    session.setPlayer(side, event.target.value);
    syncAddress();
  });
}
find("agent").addEventListener("change", (event) => {
  session.setAgent(event.target.value);
  syncAddress();
});
find("numbers").addEventListener("change", () => {
  remember({ numbers: find("numbers").checked });
  render();
});
find("numbers").checked = settings.numbers ?? false;
for (const id of ["amount", "limit-kind"]) find(id).addEventListener("change", changeLimit);
find("delay").addEventListener("change", (event) => {
  session.delay = Number(event.target.value);
  syncAddress();
});
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}

function changeLimit(event) {
  const kind = find("limit-kind").value;
  const most = kind === "seconds" ? session.welcome.limits.max_seconds : session.welcome.limits.max_simulations;
  const least = kind === "seconds" ? 0.1 : 0; // no simulation: the network alone
  // Another unit starts from a usual amount: 200 seconds a move is not what was meant.
  const usual = kind === "seconds" ? 2 : 200;
  let amount = event.target.id === "limit-kind" ? usual : Number(find("amount").value);
  if (!(amount >= least && amount <= most)) {
    toast(`${kind}: ${find("amount").value || "nothing"}; from ${least} to ${most.toLocaleString("en")}.`, "error");
    amount = Math.min(Math.max(amount || usual, least), most);
  }
  if (kind === "simulations") amount = Math.round(amount);
  find("amount").step = kind === "seconds" ? "0.5" : "1";
  find("amount").min = "0";
  find("amount").value = amount;
  session.setLimit({ kind, amount });
  syncAddress();
}

async function runComparison() {
  const playouts = Number(find("playouts").value);
  const most = session.welcome.limits.max_playouts;
  if (!Number.isInteger(playouts) || playouts < 1 || playouts > most) {
    return toast(`random games: ${find("playouts").value || "nothing"}; a whole number from 1 to ${most}.`, "error");
  }
  const button = find("compare");
  button.disabled = true;
  button.textContent = "Playing…";
  try {
    await session.compare(playouts);
  } catch (error) {
    toast(error.message, "error");
  }
  button.textContent = "Compare";
  render();
}

function toggleAnalysis() {
  // Who asks for a search wants to see it; None is for who has chosen it since.
  if (!session.analysing && !overlayChosen) setOverlay("visits");
  session.setAnalysing(!session.analysing);
}

function setOverlay(name) {
  overlay = name;
  overlayChosen = true;
  remember({ overlay });
  render();
}

for (const [value, label] of OVERLAYS) {
  const box = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "radio", name: "overlay", value });
  const text = Object.assign(document.createElement("span"), { textContent: label });
  input.addEventListener("change", () => setOverlay(value));
  // Choosing None again takes off what the other panel painted.
  input.addEventListener("click", () => overlay !== value && setOverlay(value));
  box.append(input, text);
  find("overlays").append(box);
}

// Tabs.

const tabs = [...document.querySelectorAll('[role="tab"]')];

function chooseTab(chosen, focus = false) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    find(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
  }
  if (focus) chosen.focus();
}

for (const [index, tab] of tabs.entries()) {
  tab.addEventListener("click", () => chooseTab(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    chooseTab(tabs[(index + step + tabs.length) % tabs.length], true);
  });
}

// Dialogs.

function showAbout(name) {
  const agent = session.agentNamed(name);
  if (!agent) return;
  find("about-title").textContent = agent.name;
  find("about-description").textContent = agent.description;
  find("about-card").replaceChildren(agent.card ? renderMarkdown(agent.card) : "It has no model card.");
  find("about-dialog").showModal();
  find("about-dialog").scrollTop = 0;
}

const openNewGame = newGameDialog(session, (game, swap) => session.newGame(game, swap));
importGames(session, { toast, showRecord: () => chooseTab(find("tab-record")) });
startTheme(find("theme"), settings.theme, () => render());

// Keys.

const STEPS = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const KEYS = {
  u: () => session.undo(),
  r: () => session.redo(),
  Home: () => session.first(),
  End: () => session.last(),
  0: () => setOverlay("none"),
  1: () => setOverlay("visits"),
  2: () => setOverlay("prior"),
  3: () => setOverlay("q"),
  a: toggleAnalysis,
  p: () => session.numAgents && session.setHolding(!session.holding),
  n: () => openNewGame(),
  "?": () => find("help-dialog").showModal(),
};

addEventListener("keydown", (event) => {
  const target = event.target;
  const writing = target.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  if (writing || !session.welcome || document.querySelector("dialog[open]")) return;
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.altKey && event.key.toLowerCase() === "z") {
    event.preventDefault();
    if (event.shiftKey) session.redo();
    else session.undo();
  } else if (command && !event.altKey && event.key.toLowerCase() === "y") {
    event.preventDefault();
    session.redo();
  }
  if (command || event.altKey) return;
  const onBoard = target === board.canvas || target === document.body;
  if (onBoard && STEPS[event.key]) {
    event.preventDefault();
    board.canvas.focus({ preventScroll: true });
    announce(board.describe(board.moveCursor(...STEPS[event.key])));
  } else if (onBoard && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    if (board.cursor !== null) session.play(board.cursor);
  } else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

// What tests and the curious may read; nothing here changes the page.
window.gomoku = Object.freeze({
  get game() { return { ...session.game }; },
  get moves() { return session.node.moves(); },
  get line() { return session.tree.line().slice(1).map((node) => node.action); },
  get over() { return Boolean(session.node.position?.over); },
  get winner() { return session.node.position?.winner ?? 0; },
  get players() { return { ...session.players }; },
  get stage() { return session.stage; },
  get judged() { return session.node.position !== null; },
  get overlay() { return overlay; },
  get overlayCells() { return overlayOf(overlay, session.node, session.game)?.cells ?? []; },
  get lastAnalysis() { return session.lastAnalysis; },
  get thinking() { return session.task !== null; },
  get connected() { return connection.connected; },
  get marked() { return board.marked; },
  place(action) { return board.place(action); },
});

render();
