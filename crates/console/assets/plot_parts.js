// @ts-check
// What plots have in common: colours, names, axes.

/**
 * @typedef {{name: string, kind: "NUMBER" | "INTEGER" | "LEVEL", isLog: boolean, levels?: string[]}} Axis
 * @typedef {{root: "id" | "metric" | "parameters", axis: Axis}} Brush What the values along an axis of a plot restrict.
 * @typedef {{header: string[], rows: (string | number | null)[][]}} Csv
 * @typedef {{traces: object[], layout: Record<string, any>, x?: Brush, y?: Brush, lines?: Line[], csv: Csv, note: string, height?: number}} Plot
 * @typedef {{brush: Brush, low: number, high: number}} Line One of several parallel axes.
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

/** @param {number} value */
export function short(value) {
  return String(Number(value.toPrecision(6)));
}

/** @param {number} count */
export function count(count) {
  return count.toLocaleString("en");
}

/**
 * The layout of an axis.
 * @param {Axis} axis
 * @param {Colours} colours
 */
function axisLayout(axis, colours) {
  const common = {
    title: { text: brief(axis.name, NARROW.matches ? 30 : 36), font: { size: 12 } },
    gridcolor: colours.line,
    zerolinecolor: colours.line,
    linecolor: colours.line,
    automargin: true,
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

/**
 * @param {string} colour As computed: rgb(…) or color(…).
 * @param {number} opacity
 */
export function transparent(colour, opacity) {
  const numbers = colour.match(/[\d.]+/g) ?? ["128", "128", "128"];
  return `rgba(${numbers.slice(0, 3).join(", ")}, ${opacity})`;
}
