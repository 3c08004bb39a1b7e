// Games in and out: paste, files, drag and drop; the clipboard and downloads. The server reads and writes the formats.

import { formatMoves } from "./notation.js";
import { grouped } from "./overlay.js";
import { PERSON } from "./session.js";

const MAX_TEXT = 60_000; // characters, as the server takes

/** Wires the record panel. `toast` speaks to the reader, `showRecord` brings the panel to the front. */
export function importGames(session, { toast, showRecord }) {
  const find = (id) => document.getElementById(id);
  const paste = find("paste");

  function fail(text, message) {
    showRecord();
    paste.value = text;
    find("paste-error").textContent = message;
    find("paste-error").hidden = false;
    // Where the server names a place, the cursor goes there.
    const place = /line (\d+), column (\d+)/i.exec(message);
    if (!place) return;
    const before = text.split("\n").slice(0, Number(place[1]) - 1).join("\n");
    const at = before.length + (Number(place[1]) > 1 ? 1 : 0) + Number(place[2]) - 1;
    paste.focus({ preventScroll: true });
    paste.setSelectionRange(at, at + 1);
  }

  async function load(text) {
    find("paste-error").hidden = true;
    if (text.length > MAX_TEXT) {
      return fail("", `The text has ${grouped(text.length)} characters; a game has at most ${grouped(MAX_TEXT)}.`);
    }
    if (!text.trim()) return fail(text, "There is nothing to load: write or paste a game first.");
    try {
      const parsed = await session.connection.request("parse", { text, game: session.game });
      if (!(await session.load(parsed.game, parsed.moves))) return;
      const { black, white, warnings } = parsed;
      const names = black || white ? `, ${black || "?"} against ${white || "?"}` : "";
      const lines = [`Loaded ${parsed.moves.length} moves${names}.`, ...warnings.map((text) => `Note: ${text}.`)];
      toast(lines.join("\n"), "info", null, warnings.length ? 12000 : 5000);
      paste.value = "";
    } catch (error) {
      fail(text, error.message);
    }
  }

  async function loadFile(file) {
    if (file.size > 4 * MAX_TEXT) {
      return toast(`${file.name} has ${grouped(file.size)} bytes: too many for one game.`, "error");
    }
    load(await file.text());
  }

  find("load").addEventListener("click", () => load(paste.value));
  find("open-file").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", (event) => {
    if (event.target.files.length) loadFile(event.target.files[0]);
    event.target.value = "";
  });
  document.addEventListener("paste", (event) => {
    if (event.target.matches?.("textarea, input[type=number]") || document.querySelector("dialog[open]")) return;
    const text = event.clipboardData.getData("text");
    if (text) load(text);
  });
  const carriesFile = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    find("drop").hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) find("drop").hidden = true;
  });
  addEventListener("drop", (event) => {
    find("drop").hidden = true;
    if (!carriesFile(event)) return;
    event.preventDefault();
    loadFile(event.dataTransfer.files[0]);
  });

  function exported(format) {
    const name = (side) => (session.players[side] === PERSON ? "Person" : session.players[side]);
    return session.connection.request("export", {
      format,
      game: session.game,
      moves: session.node.moves(),
      black: name(1),
      white: name(-1),
    });
  }

  async function copy(text, what) {
    if (!text) return toast("There are no moves to copy.");
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Pages that are not served from this machine have no clipboard interface: the old way.
      const box = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    toast(`Copied ${what}.`);
  }

  async function save(format) {
    const { text, filename } = await exported(format);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = filename;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const say = (run) => () => run().catch((error) => toast(error.message, "error"));
  const moveString = () => formatMoves(session.game, session.node.moves());
  find("copy-moves").addEventListener("click", say(() => copy(moveString(), "the moves")));
  find("copy-sgf").addEventListener("click", say(async () => copy((await exported("sgf")).text, "the game as SGF")));
  find("copy-link").addEventListener("click", say(() => copy(location.href, "the address of this position")));
  find("save-sgf").addEventListener("click", say(() => save("sgf")));
  find("save-psq").addEventListener("click", say(() => save("psq")));
}
