// The WebSocket to the server: requests with one answer, searches with many, and patience when it is gone.

const FIRST_WAIT = 500; // milliseconds before the first new try
const LONGEST_WAIT = 10000;

export class ServerError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Fires "welcome" (detail: the message), "lost" and "fault" (detail: an error without a request). */
export class Connection extends EventTarget {
  constructor(url) {
    super();
    this.url = url;
    this.connected = false;
    this._nextId = 1;
    this._wait = FIRST_WAIT;
    this._requests = new Map();
    this._open();
  }

  /** One request, one answer. Rejects with a ServerError; code "lost" where the connection went away. */
  request(type, fields = {}) {
    return new Promise((resolve, reject) => {
      this._send(type, fields, {
        frame: (message) => {
          resolve(message);
          return true;
        },
        fail: reject,
      });
    });
  }

  /** A search: `onFrame` for each analysis, the last has `done`; `onFail` with a ServerError. Gives its id. */
  search(fields, onFrame, onFail) {
    return this._send("search", fields, {
      frame: (message) => {
        onFrame(message);
        return message.done;
      },
      fail: onFail,
    });
  }

  reconnectNow() {
    clearTimeout(this._timer);
    if (!this.connected && this._socket.readyState === WebSocket.CLOSED) this._open();
  }

  _send(type, fields, handlers) {
    const id = this._nextId++;
    if (!this.connected) {
      queueMicrotask(() => handlers.fail(new ServerError("lost", "There is no connection to the server.")));
      return id;
    }
    this._requests.set(id, handlers);
    this._socket.send(JSON.stringify({ type, id, ...fields }));
    return id;
  }

  _open() {
    this._socket = new WebSocket(this.url);
    this._socket.addEventListener("message", (event) => this._receive(JSON.parse(event.data)));
    this._socket.addEventListener("close", () => this._closed());
  }

  _receive(message) {
    if (message.type === "welcome") {
      this.connected = true;
      this._wait = FIRST_WAIT;
      this.dispatchEvent(new CustomEvent("welcome", { detail: message }));
      return;
    }
    const handlers = this._requests.get(message.id);
    if (message.type === "error") {
      const error = new ServerError(message.code, message.message);
      this._requests.delete(message.id);
      if (handlers) handlers.fail(error);
      else this.dispatchEvent(new CustomEvent("fault", { detail: error }));
    } else if (handlers && handlers.frame(message)) {
      this._requests.delete(message.id);
    }
  }

  _closed() {
    const waiting = [...this._requests.values()];
    this._requests.clear();
    this.connected = false;
    for (const handlers of waiting) {
      handlers.fail(new ServerError("lost", "The connection to the server was lost."));
    }
    this.dispatchEvent(new Event("lost"));
    this._timer = setTimeout(() => this._open(), this._wait);
    this._wait = Math.min(2 * this._wait, LONGEST_WAIT);
  }
}
