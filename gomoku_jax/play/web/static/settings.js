// What the browser remembers between visits, and the theme.

const KEY = "gomoku-settings";

export function recall() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

export function remember(changes) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...recall(), ...changes }));
  } catch {
    // Without storage the page works and forgets.
  }
}

const NAMES = { auto: "automatic", light: "light", dark: "dark" };
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let chosen = "auto";

export function currentTheme() {
  if (chosen !== "auto") return chosen;
  return darkSystem.matches ? "dark" : "light";
}

/** The button goes round automatic, the other theme, this theme; `onChange` redraws. */
export function startTheme(button, stored, onChange) {
  if (stored in NAMES) chosen = stored;
  const apply = () => {
    document.documentElement.dataset.theme = currentTheme();
    button.setAttribute("aria-label", `Theme: ${NAMES[chosen]}`);
    button.title = `Theme: ${NAMES[chosen]}`;
    onChange();
  };
  button.addEventListener("click", () => {
    const system = darkSystem.matches ? "dark" : "light";
    const other = system === "dark" ? "light" : "dark";
    chosen = { auto: other, [other]: system, [system]: "auto" }[chosen];
    remember({ theme: chosen });
    apply();
  });
  darkSystem.addEventListener("change", apply);
  apply();
}
