// The moves of one game with all their branches. Nothing is forgotten when a move is taken back.

let nextId = 1;

class Node {
  constructor(action, parent) {
    this.id = nextId++;
    this.action = action; // null at the root
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : 0;
    this.children = [];
    this.preferred = null; // the child that redo goes to
    this.position = null; // the server's reply: over, winner, winning_points, legal
    this.values = new Map(); // agent -> the network's value, from black's view
    this.analysis = null; // the latest frame of a search here, with its agent
    this.comparison = null; // the latest comparison with rollouts here, with its agent
  }

  /** +1 black, -1 white: who moves next. */
  get toPlay() {
    return this.depth % 2 === 0 ? 1 : -1;
  }

  /** The nodes from the root to here. */
  path() {
    const nodes = [];
    for (let node = this; node; node = node.parent) nodes.push(node);
    return nodes.reverse();
  }

  moves() {
    return this.path().slice(1).map((node) => node.action);
  }

  /** Empty points that may not be played, as far as the server has told. */
  forbidden() {
    if (!this.position || this.position.over) return [];
    const taken = new Set(this.moves());
    return this.position.legal.flatMap((legal, action) => (legal || taken.has(action) ? [] : [action]));
  }
}

export class MoveTree {
  constructor(game) {
    this.game = game;
    this.opening = null; // of a game that begins with swap or swap2: see opening.js
    this.root = new Node(null, null);
    this.current = this.root;
  }

  /** Goes to a node, and makes its path the one that redo follows. */
  goTo(node) {
    this.current = node;
    for (let child = node; child.parent; child = child.parent) child.parent.preferred = child;
  }

  /** The child of a node by an action, made where it is new. */
  child(node, action) {
    let found = node.children.find((child) => child.action === action);
    if (!found) {
      found = new Node(action, node);
      node.children.push(found);
    }
    return found;
  }

  play(action) {
    this.goTo(this.child(this.current, action));
    return this.current;
  }

  /** Adds a line from the root and goes to its end. */
  playLine(moves) {
    let node = this.root;
    for (const action of moves) node = this.child(node, action);
    this.goTo(node);
    return node;
  }

  /** Takes a node out, for a move that the rules refused. */
  remove(node) {
    const parent = node.parent;
    parent.children = parent.children.filter((child) => child !== node);
    if (parent.preferred === node) parent.preferred = parent.children[0] ?? null;
    if (this.current.path().includes(node)) this.current = parent;
  }

  /** The nodes from the root through the current one to the end of the preferred line. */
  line() {
    const nodes = this.current.path();
    for (let node = this.current; node.preferred; node = node.preferred) nodes.push(node.preferred);
    return nodes;
  }

  /** Plain data, for the tab's storage. */
  toJSON() {
    const pack = (node) => [node.action, node.children.map(pack), node.children.indexOf(node.preferred)];
    return { game: this.game, opening: this.opening, tree: pack(this.root), moves: this.current.moves() };
  }

  static fromJSON({ game, opening, tree, moves }) {
    const made = new MoveTree(game);
    made.opening = opening ?? null;
    const unpack = (node, [, children, preferred]) => {
      for (const packed of children) unpack(made.child(node, packed[0]), packed);
      node.preferred = node.children[preferred] ?? null;
    };
    unpack(made.root, tree);
    made.playLine(moves);
    return made;
  }
}
