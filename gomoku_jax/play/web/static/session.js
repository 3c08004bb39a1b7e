// The game at this page: who plays, what is searched, and what the server says about it.

import { MoveTree } from "./tree.js";
import { describeGame, pointName, sameGame } from "./notation.js";
import { newOpening, SEAT_NAMES, stageOf, stonesKey } from "./opening.js";
import { SIDE_NAMES, signed } from "./overlay.js";

export const PERSON = "person";

/**
 * Fires "change" after anything that is shown changed, "notice" (detail: {text, kind, action}) for the reader,
 * "moved" (detail: node) when a move was played and the server has judged it, and "chosen" when an opening's
 * choice was made.
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

  /** The opening by swap or swap2, until the colours are taken. */
  get opening() {
    return this.tree.opening?.over ? null : this.tree.opening;
  }

  /** How far the opening has come here; null in the game itself. */
  get stage() {
    return this.opening && stageOf(this.opening, this.node.moves());
  }

  /** Whose turn it is here: +1 or -1, a colour, or the seat of a player that has none yet. */
  get turn() {
    return this._turnAt(this.node);
  }

  /** Who moves here, or takes part in the opening: "person" or an agent's name. */
  get mover() {
    return this.players[this.turn];
  }

  /** Why points are closed here, if any are: the "opening" binds Black's first two stones, else it is the "rule". */
  get closedBy() {
    return this.game.opening && [0, 2].includes(this.node.depth) ? "opening" : "rule";
  }

  /** Whether a person may play here now. */
  get playable() {
    if (this.stage) return !this.node.position?.over && this.mover === PERSON && this.stage.missing > 0;
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
    if (this.stage && this.mover !== PERSON) return this.notify(`It is the turn of ${this.mover}.`);
    if (this.stage && !this.stage.missing) return this.notify(`${this.verdict()}, under the board.`);
    if (!this.playable) return this.notify(`It is the turn of ${this.mover}. Pause to play for it.`);
    if (!position.legal[action]) {
      const taken = node.moves().includes(action);
      if (!taken && this.closedBy === "opening") return this.notify(await this._refusal(node, action));
      const why = taken ? "the point is taken" : "it is forbidden to Black";
      return this.notify(`${pointName(this.game, action)} cannot be played here: ${why}.`);
    }
    if (this.numAgents < 2) this.holding = false;
    this._append(action);
  }

  /** A person chooses in an opening: "white", "black" or "add". */
  choose(kind) {
    if (!this.stage?.choices.includes(kind) || this.mover !== PERSON) return;
    if (this.numAgents < 2) this.holding = false;
    this._choose(kind);
    this._arrived();
  }

  undo() {
    let node = this.node.parent;
    if (!node) return;
    // Against an agent, back to the person's own turn.
    while (this.numAgents === 1 && node.parent && this._playerAt(node) !== PERSON) node = node.parent;
    this.goTo(node);
  }

  redo() {
    let node = this.node.preferred;
    if (!node) return;
    while (this.numAgents === 1 && node.preferred && this._playerAt(node) !== PERSON) node = node.preferred;
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

  /** `swap` is "swap" or "swap2" where the game begins with it. */
  newGame(game, swap = null) {
    this._keepPrevious();
    const tree = new MoveTree({ ...game });
    if (swap) tree.opening = newOpening(swap);
    this._setTree(tree);
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
    if (this.opening) this.tree.opening = null; // a position, from wherever it comes
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

  _turnAt(node) {
    return this.opening ? stageOf(this.opening, node.moves()).seat : node.toPlay;
  }

  _playerAt(node) {
    return this.players[this._turnAt(node)];
  }

  _append(action) {
    const child = this.tree.play(action);
    this._changed();
    this._judge(child).then((position) => {
      if (position?.over && this.opening) {
        this.tree.remove(child);
        this.notify(`${pointName(this.game, action)} cannot be played here: an opening must not end the game.`);
        this._arrived();
      } else if (position) this.dispatchEvent(new CustomEvent("moved", { detail: child }));
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

  /** Why the opening's rule does not have a stone here, as the server says. */
  async _refusal(node, action) {
    try {
      await this.connection.request("position", { game: this.game, moves: [...node.moves(), action] });
      return `${pointName(this.game, action)} cannot be played here.`;
    } catch (error) {
      return `${error.message.replace(/^move \d+, \d+: /, "")}.`;
    }
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
      return { kind: this.opening ? "opening" : "move", node, agent: this.mover, ...limits };
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
    this._stopTask(wanted.kind === "opening"); // for a new search the server stops it
    const task = { ...wanted, key, frame: null, started: performance.now() };
    const { agent, simulations, seconds } = wanted;
    this.task = task;
    if (task.kind === "opening") return this._ask(task);
    task.id = this.connection.search(
      { agent, game: this.game, moves: wanted.node.moves(), simulations, seconds },
      (frame) => this._receive(task, frame),
      (error) => this._failed(task, error),
    );
  }

  _stopTask(tell = true) {
    if (!this.task) return;
    clearTimeout(this.task.timer);
    const searching = this.task.kind !== "opening" && !this.task.frame?.done;
    this.task = null;
    if (tell && searching && this.connection.connected) this.connection.request("stop").catch(() => {});
  }

  _receive(task, frame) {
    task.frame = frame;
    task.node.analysis = { ...frame, agent: task.agent };
    this.lastAnalysis = frame;
    if (frame.done && this.task === task) {
      if (task.kind === "move" && frame.reason === "finished") {
        task.timer = setTimeout(() => this._playFor(task, frame.action), this._wait(task));
      } else {
        this._finished = task.kind === "analysis" ? task.key : null;
        if (task.kind === "move") this.holding = true;
        this.task = null;
      }
    }
    this._changed();
  }

  _playFor(task, action) {
    if (this._ends(task)) this._append(action);
  }

  /** Milliseconds before what an agent does is shown. */
  _wait(task) {
    if (this.numAgents < 2 || this.stepping) return 0;
    return Math.max(0, this.delay - (performance.now() - task.started));
  }

  /** The end of an agent's turn; false where nobody waits for it any more. */
  _ends(task) {
    if (this.task !== task || this.node !== task.node) return false;
    this.task = null;
    if (this.stepping) {
      this.stepping = false;
      this.holding = true;
    }
    return true;
  }

  _failed(task, error) {
    if (this.task !== task) return;
    this.task = null;
    if (error.code !== "lost") {
      if (task.kind === "analysis") this.analysing = false;
      else this.holding = true;
      this.notify(`${task.agent}: ${error.message}`, "error");
    }
    this._changed();
  }

  // An opening by swap or swap2.

  /** An agent's part: what it places is placed anew where somebody has gone back into the middle of it. */
  _ask(task) {
    const start = task.node.path()[this.stage.base];
    const { agent, simulations, seconds } = task;
    const fields = { agent, game: this.game, moves: start.moves(), swap: this.opening.swap, simulations, seconds };
    this.connection.request("opening", fields).then(
      (answer) => {
        if (this.task === task) task.timer = setTimeout(() => this._openFor(task, start, answer), this._wait(task));
      },
      (error) => this._failed(task, error),
    );
  }

  _openFor(task, start, { kind, moves, value }) {
    if (!this._ends(task)) return;
    this.tree.goTo(start);
    if (kind !== "place") this._choose(kind, value);
    if (!moves.length) return this._arrived();
    for (const action of moves.slice(0, -1)) this.tree.play(action);
    this._append(moves.at(-1));
  }

  /** What the player whose turn it is makes of the stones. Once colours are taken, going back asks nobody again. */
  _choose(kind, value = null) {
    const { seat } = this.stage;
    const [chooser, other] = [seat, -seat].map((side) => this._seatLabel(side));
    const thinks = value === null ? "" : `: its value of the position, for White, is ${signed(value)}`;
    if (kind === "add") {
      const key = stonesKey(this.node.moves());
      if (!this.opening.added.includes(key)) this.opening.added.push(key);
      if (this.mover !== PERSON) this.notify(`${chooser} places two more stones${thinks}.`);
    } else {
      const color = kind === "black" ? 1 : -1;
      if (color !== seat) this.players = { 1: this.players[-1], "-1": this.players[1] };
      this.opening.over = true;
      const taken = `${chooser} takes ${SIDE_NAMES[color]}${thinks}.`;
      this.notify(`${taken} ${other} has ${SIDE_NAMES[-color]}. White moves next.`);
    }
    this.dispatchEvent(new Event("chosen"));
  }

  _seatLabel(seat) {
    const name = this.players[seat];
    return name === PERSON ? SEAT_NAMES[seat] : `${SEAT_NAMES[seat]} (${name})`;
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
    if (this.stage && !position?.over) {
      const { seat, missing } = this.stage;
      if (!missing) return `${SEAT_NAMES[seat]}: choose a colour`;
      const more = missing < 3 ? " more" : "";
      return `${SEAT_NAMES[seat]}: place ${missing}${more} stone${missing > 1 ? "s" : ""}`;
    }
    if (!position?.over) return `${SIDE_NAMES[this.node.toPlay]} to move`;
    if (!position.winner) return "A draw: the board is full";
    const count = position.winning_points.length;
    return `${SIDE_NAMES[position.winner]} wins${count ? ` with ${count} in a row` : ": black has no move left"}`;
  }
}
