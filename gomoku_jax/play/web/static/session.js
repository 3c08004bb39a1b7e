// The game at this page: who plays, what is searched, and what the server says about it.

import { MoveTree } from "./tree.js";
import { describeGame, pointName, sameGame } from "./notation.js";
import { SIDE_NAMES } from "./overlay.js";

export const PERSON = "person";

/**
 * Fires "change" after anything that is shown changed, "notice" (detail: {text, kind, action}) for the reader,
 * and "moved" (detail: node) when a move was played and the server has judged it.
 */
export class Session extends EventTarget {
  constructor(connection) {
    super();
    this.connection = connection;
    this.welcome = null;
    this.game = { height: 15, width: 15, k: 5, rule: "freestyle" };
    this.tree = new MoveTree(this.game);
    this.players = { 1: PERSON, "-1": PERSON };
    this.limit = { kind: "simulations", amount: 200 };
    this.delay = 500; // milliseconds a move, where agents play each other
    this.agent = ""; // who analyses
    this.holding = false; // agents wait
    this.stepping = false; // one move, then hold again
    this.analysing = false;
    this.task = null; // the search that runs: {key, kind, node, agent, id, frame}
    this.lastAnalysis = null;
    this._finished = null; // key of the analysis that came to its end
    this._previous = null;
    this.loading = false; // a line is with the server, which may have to compile its board
    this._valuesBusy = false;
    connection.addEventListener("lost", () => {
      this.task = null;
      this._changed();
    });
    connection.addEventListener("fault", (event) => this.notify(event.detail.message, "error"));
  }

  get node() {
    return this.tree.current;
  }

  get agents() {
    return this.welcome?.agents ?? [];
  }

  get numAgents() {
    return [1, -1].filter((side) => this.players[side] !== PERSON).length;
  }

  /** Who moves here: "person" or an agent's name. */
  get mover() {
    return this.players[this.node.toPlay];
  }

  /** Whether a person may play here now. */
  get playable() {
    return !this.node.position?.over && (this.mover === PERSON || this.holding);
  }

  canPlay(agent, game = this.game) {
    const same = agent.game.height === game.height && agent.game.width === game.width;
    return agent.any_board || same;
  }

  agentNamed(name) {
    return this.agents.find((agent) => agent.name === name) ?? null;
  }

  notify(text, kind = "info", action = null) {
    this.dispatchEvent(new CustomEvent("notice", { detail: { text, kind, action } }));
  }

  // Playing.

  start(welcome) {
    this.welcome = welcome;
    this._valuesBusy = false;
    this._checkAgents();
    this._arrived();
  }

  /** A person plays. */
  async play(action) {
    const { node } = this;
    const position = await this._judge(node);
    if (!position || this.node !== node) return;
    if (position.over) return this.notify("The game is over. Take a move back, or start a new game.");
    if (!this.playable) return this.notify(`It is the turn of ${this.mover}. Pause to play for it.`);
    if (!position.legal[action]) {
      const why = node.moves().includes(action) ? "the point is taken" : "it is forbidden to Black";
      return this.notify(`${pointName(this.game, action)} cannot be played here: ${why}.`);
    }
    if (this.numAgents < 2) this.holding = false;
    this._append(action);
  }

  undo() {
    let node = this.node.parent;
    if (!node) return;
    // Against an agent, back to the person's own turn.
    while (this.numAgents === 1 && node.parent && this.players[node.toPlay] !== PERSON) node = node.parent;
    this.goTo(node);
  }

  redo() {
    let node = this.node.preferred;
    if (!node) return;
    while (this.numAgents === 1 && node.preferred && this.players[node.toPlay] !== PERSON) node = node.preferred;
    this.goTo(node);
  }

  first() {
    this.goTo(this.tree.root);
  }

  last() {
    this.goTo(this.tree.line().at(-1));
  }

  /** Shows a node; agents wait there until told to go on. */
  goTo(node) {
    this.tree.goTo(node);
    this.holding = this.mover !== PERSON;
    this.stepping = false;
    this._arrived();
  }

  setHolding(holding) {
    this.holding = holding;
    this.stepping = false;
    this._arrived();
  }

  step() {
    this.holding = true;
    this.stepping = true;
    this._arrived();
  }

  setPlayer(side, name) {
    this.players[side] = name;
    this._arrived();
  }

  setAgent(name) {
    this.agent = name;
    this._finished = null;
    this._arrived();
  }

  setLimit(limit) {
    this.limit = limit;
    this._arrived();
  }

  setAnalysing(analysing) {
    this.analysing = analysing;
    this._finished = null;
    this._arrived();
  }

  newGame(game) {
    this._keepPrevious();
    this._setTree(new MoveTree({ ...game }));
    this.holding = false;
    if (this._previous.tree.root.children.length) {
      const back = { label: "Bring back the last one", run: () => this.bringBack() };
      this.notify(`New game: ${describeGame(game)}.`, "info", back);
    }
    this._arrived();
  }

  bringBack() {
    const { tree } = this._previous;
    this._keepPrevious();
    this.restore(tree);
  }

  /** Shows a tree that was kept. */
  restore(tree, holding = true) {
    this._setTree(tree);
    this.holding = holding && this.mover !== PERSON;
    this._arrived();
  }

  /** Loads a line: a branch where the board is the same, else a new game. False where the server refused it. */
  async load(game, moves, holding = true) {
    this.loading = true;
    this._changed();
    try {
      await this.connection.request("position", { game, moves });
    } catch (error) {
      this.notify(error.message, "error");
      return false;
    } finally {
      this.loading = false;
      this._changed();
    }
    if (!sameGame(game, this.game)) {
      this._keepPrevious();
      this._setTree(new MoveTree({ ...game }));
    }
    this.tree.playLine(moves);
    this.holding = holding && this.mover !== PERSON;
    this._arrived();
    return true;
  }

  /** The random playouts' view beside the network's, kept at the node. */
  async compare(playouts) {
    const { node, agent } = this;
    const reply = await this.connection.request("compare", {
      agent,
      game: this.game,
      moves: node.moves(),
      playouts,
    });
    node.comparison = { ...reply, agent };
    this._changed();
  }

  _setTree(tree) {
    this.tree = tree;
    this.game = tree.game;
    this._finished = null;
    this.stepping = false;
    this._checkAgents();
  }

  _keepPrevious() {
    this._previous = { tree: this.tree };
  }

  /** Agents that cannot play this board give way to one that can. */
  _checkAgents() {
    const fits = (name) => this.agentNamed(name) && this.canPlay(this.agentNamed(name));
    const fallback = this.agents.find((agent) => this.canPlay(agent))?.name ?? "";
    if (!this.agents.length) return;
    if (!fits(this.agent)) this.agent = fallback;
    for (const side of [1, -1]) {
      if (this.players[side] !== PERSON && !fits(this.players[side])) this.players[side] = fallback || PERSON;
    }
  }

  _append(action) {
    const child = this.tree.play(action);
    this._changed();
    this._judge(child).then((position) => {
      if (position) this.dispatchEvent(new CustomEvent("moved", { detail: child }));
    });
    this._arrived();
  }

  /** What the rules say of a node; null where they refused it (it is taken back) or the server is away. */
  _judge(node) {
    if (node.position) return Promise.resolve(node.position);
    node.judging ??= this.connection
      .request("position", { game: this.game, moves: node.moves() })
      .then((position) => (node.position = position))
      .catch((error) => {
        if (error.code !== "lost") {
          this.holding = true;
          this.notify(error.message, "error");
          if (node.parent) {
            this.tree.remove(node);
            this._arrived();
          }
        }
        return null;
      })
      .finally(() => (node.judging = null));
    return node.judging;
  }

  _changed() {
    this.dispatchEvent(new Event("change"));
  }

  /** After every step: asks the rules, starts or stops searches, fetches values. */
  async _arrived() {
    this._changed();
    if (!this.connection.connected) return;
    const { node } = this;
    // A search of the position before must not go on while the rules are asked.
    if (this.task && this.task.node !== node) this._stopTask();
    if (!(await this._judge(node)) || node !== this.node) return;
    this._chooseTask();
    this._fetchValues();
    this._changed();
  }

  // Searching.

  _wanted() {
    const { node } = this;
    if (!this.connection.connected || !node.position || node.position.over) return null;
    const agentMoves = this.mover !== PERSON && (!this.holding || this.stepping);
    if (agentMoves) {
      const { kind, amount } = this.limit;
      const limits = { simulations: null, seconds: null, [kind]: amount };
      return { kind: "move", node, agent: this.mover, ...limits };
    }
    if (this.analysing && this.agent) {
      const simulations = this.welcome.limits.max_simulations;
      return { kind: "analysis", node, agent: this.agent, simulations, seconds: null };
    }
    return null;
  }

  _chooseTask() {
    const wanted = this._wanted();
    const key = wanted && [wanted.kind, wanted.node.id, wanted.agent, wanted.simulations, wanted.seconds].join(" ");
    if (this.task?.key === key) return;
    if (!wanted || key === this._finished) return this._stopTask();
    this._stopTask(false); // the server stops it for the new one
    const task = { ...wanted, key, frame: null, started: performance.now() };
    const { agent, simulations, seconds } = wanted;
    this.task = task;
    task.id = this.connection.search(
      { agent, game: this.game, moves: wanted.node.moves(), simulations, seconds },
      (frame) => this._receive(task, frame),
      (error) => this._failed(task, error),
    );
  }

  _stopTask(tell = true) {
    if (!this.task) return;
    clearTimeout(this.task.timer);
    const searching = !this.task.frame?.done;
    this.task = null;
    if (tell && searching && this.connection.connected) this.connection.request("stop").catch(() => {});
  }

  _receive(task, frame) {
    task.frame = frame;
    task.node.analysis = { ...frame, agent: task.agent };
    this.lastAnalysis = frame;
    if (frame.done && this.task === task) {
      if (task.kind === "move" && frame.reason === "finished") {
        const wait = this.numAgents === 2 && !this.stepping ? this.delay - (performance.now() - task.started) : 0;
        task.timer = setTimeout(() => this._playFor(task, frame.action), Math.max(0, wait));
      } else {
        this._finished = task.kind === "analysis" ? task.key : null;
        if (task.kind === "move") this.holding = true;
        this.task = null;
      }
    }
    this._changed();
  }

  _playFor(task, action) {
    if (this.task !== task || this.node !== task.node) return;
    this.task = null;
    if (this.stepping) {
      this.stepping = false;
      this.holding = true;
    }
    this._append(action);
  }

  _failed(task, error) {
    if (this.task !== task) return;
    this.task = null;
    if (error.code !== "lost") {
      if (task.kind === "move") this.holding = true;
      else this.analysing = false;
      this.notify(`${task.agent}: ${error.message}`, "error");
    }
    this._changed();
  }

  /** The network's value along the whole line, where some is not known yet. */
  async _fetchValues() {
    const { agent } = this;
    if (this._valuesBusy || !agent || !this.connection.connected) return;
    const line = this.tree.line();
    if (line.every((node) => node.values.has(agent))) return;
    this._valuesBusy = true;
    try {
      const fields = { agent, game: this.game, moves: line.at(-1).moves() };
      const { values } = await this.connection.request("values", fields);
      line.forEach((node, index) => node.values.set(agent, values[index]));
      this._valuesBusy = false;
      this._changed();
      this._fetchValues();
    } catch (error) {
      this._valuesBusy = false;
      if (error.code !== "lost" && error.code !== "illegal_move") this.notify(error.message, "error");
    }
  }

  /** Who won or is to move, in words. */
  verdict() {
    const { position } = this.node;
    if (!position?.over) return `${SIDE_NAMES[this.node.toPlay]} to move`;
    if (!position.winner) return "A draw: the board is full";
    const count = position.winning_points.length;
    return `${SIDE_NAMES[position.winner]} wins${count ? ` with ${count} in a row` : ": black has no move left"}`;
  }
}
