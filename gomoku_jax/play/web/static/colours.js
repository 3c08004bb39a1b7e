// Colour scales of the overlays: one hue for shares, two hues around a pale middle for values.

const SCALES = {
  visits: ["#d6e4f7", "#7fb0e6", "#2f74c0", "#123f7c"],
  prior: ["#d3eee7", "#7ccbb9", "#1f8f7c", "#07544a"],
  value: ["#6a2380", "#b58bc4", "#f5f2ec", "#86bd86", "#12692f"], // purple loses, green wins
};

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** The colour at t in [0, 1] of a scale, as [red, green, blue]. */
export function colourAt(scale, t) {
  const stops = SCALES[scale];
  const place = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const [from, to] = [channels(stops[low]), channels(stops[low + 1])];
  return from.map((value, i) => Math.round(value + (to[i] - value) * (place - low)));
}

/** Black or white, whichever has more contrast on a colour (WCAG's relative luminance). */
export function inkOn(colour) {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.19 ? "#14130f" : "#ffffff";
}

export function css(colour) {
  return `rgb(${colour.join(" ")})`;
}

/** The scale as a CSS background, left to right. */
export function gradient(scale) {
  const steps = Array.from({ length: 11 }, (_, i) => css(colourAt(scale, i / 10)));
  return `linear-gradient(90deg, ${steps.join(", ")})`;
}
