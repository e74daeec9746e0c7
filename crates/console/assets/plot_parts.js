// @ts-check
// What plots have in common: colours, names, axes.

/**
 * @typedef {{name: string, kind: "NUMBER" | "INTEGER" | "LEVEL", isLog: boolean, levels?: string[], isOwn?: boolean}} Axis A name of our own is shown in full.
 * @typedef {{root: "id" | "metric" | "parameters", axis: Axis}} Brush What the values along an axis of a plot restrict.
 * @typedef {{header: string[], rows: (string | number | null)[][]}} Csv
 * @typedef {{traces: object[], layout: Record<string, any>, x?: Brush, y?: Brush, lines?: Line[], csv: Csv, note: string, height?: number, scales?: Partial<Record<"x" | "y", Scale>>, switches?: Switch[]}} Plot
 * @typedef {[string, string, string, boolean]} Switch Key, text, label, and whether it is on.
 * @typedef {{name?: string, isMaximized?: boolean, isLog?: boolean, clips?: boolean}} Scale What is known about an axis whose scale can be changed.
 * @typedef {{brush: Brush, low: number, high: number, isOpen: {low: boolean, high: boolean}}} Line One of several parallel axes, and whether values are beyond its ends.
 * @typedef {{text: string, quiet: string, line: string, accent: string, good: string, bad: string, surface: string}} Colours
 */

/** The colours of the page. @returns {Colours} */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  // Names of colours are resolved on an element: they depend on the theme.
  const probe = document.createElement("span");
  document.body.append(probe);
  const colour = (/** @type {string} */ name) => {
    probe.style.color = style.getPropertyValue(name) ? `var(${name})` : "gray";
    return getComputedStyle(probe).color;
  };
  const found = {
    text: colour("--text"),
    quiet: colour("--quiet"),
    line: colour("--line"),
    accent: colour("--accent"),
    good: colour("--good"),
    bad: colour("--bad"),
    surface: colour("--surface"),
  };
  probe.remove();
  return found;
}

/** @param {string} text Text of a user, which plotly.js would take for markup. */
export function plain(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** Whether the window is narrow, as the style has it. */
export const NARROW = matchMedia("(max-width: 640px)");

/** The number of characters of a name that an axis has room for. */
export function roomForNames() {
  return NARROW.matches ? 16 : 30;
}

/**
 * Text of a user of at most `most` characters. What is left out is in the middle: names differ at their ends.
 * @param {string} text
 * @param {number} most
 */
export function brief(text, most) {
  const letters = [...text];
  if (letters.length <= most) return plain(text);
  const end = Math.floor((most - 1) / 2);
  return plain(`${letters.slice(0, most - 1 - end).join("")}…${letters.slice(letters.length - end).join("")}`);
}

/**
 * A number for readers, in the form that pages of the server have: an exponent below 0.0001 and from 1e9 on.
 * @param {number} value
 * @param {number} digits significant ones, at most
 */
export function short(value, digits = 6) {
  if (!Number.isFinite(value)) return String(value);
  const scientific = value.toExponential(digits - 1);
  const [mantissa, exponent] = scientific.split("e").map(Number);
  return exponent >= -4 && exponent < 9 ? String(Number(scientific)) : `${mantissa}e${exponent}`;
}

/** @param {number} count */
export function count(count) {
  return count.toLocaleString("en");
}

/** A number with its noun. @param {number} number @param {string} noun @returns {string} as in `1 trial` and `20,000 trials` */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * The layout of an axis.
 * @param {Axis} axis
 * @param {Colours} colours
 */
function axisLayout(axis, colours) {
  const common = {
    title: { text: axis.isOwn ? axis.name : brief(axis.name, NARROW.matches ? 34 : 36), font: { size: 12 } },
    gridcolor: colours.line,
    zerolinecolor: colours.line,
    linecolor: colours.line,
    automargin: true,
    tickfont: { size: 11.5 },
  };
  if (axis.kind === "LEVEL") {
    const levels = axis.levels ?? [];
    return { ...common, tickvals: levels.map((_, index) => index), ticktext: levels.map((level) => brief(level, roomForNames())) };
  }
  // Powers of ten instead of "100µ".
  return axis.isLog ? { ...common, type: "log", exponentformat: "power" } : { ...common, type: "linear" };
}

/**
 * @param {Colours} colours
 * @param {Axis} x
 * @param {Axis} y
 */
export function layout(colours, x, y) {
  return { xaxis: axisLayout(x, colours), yaxis: axisLayout(y, colours) };
}

/** Colours from the worst to the best: the best stands out from the surface in both themes. @param {Colours} colours */
export function worstToBest(colours) {
  return [[0, mixed(colours.surface, colours.quiet, 0.28)], [0.5, mixed(colours.surface, colours.accent, 0.5)], [1, colours.accent]];
}

/**
 * A colour between two, as computed.
 * @param {string} from
 * @param {string} to
 * @param {number} share
 */
function mixed(from, to, share) {
  const parts = (/** @type {string} */ colour) => (colour.match(/[\d.]+/g) ?? ["128", "128", "128"]).slice(0, 3).map(Number);
  const [first, last] = [parts(from), parts(to)];
  return `rgb(${first.map((part, at) => Math.round(part + share * (last[at] - part))).join(", ")})`;
}

/** The legend of a plot whose traces have names. */
export const LEGEND = { showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false } };

/**
 * @param {string} colour As computed: rgb(…) or color(…).
 * @param {number} opacity
 */
export function transparent(colour, opacity) {
  const numbers = colour.match(/[\d.]+/g) ?? ["128", "128", "128"];
  return `rgba(${numbers.slice(0, 3).join(", ")}, ${opacity})`;
}
