// @ts-check
// Sketches of plots, shown until plotly.js is loaded: points, lines and cells in their places, with the ends of the axes.

import { short } from "./plot_parts.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./plot_parts.js").Colours} Colours
 * @typedef {{low: number, high: number, isLog: boolean, isFixed?: boolean}} Scale
 */

const SVG = "http://www.w3.org/2000/svg";

/** Space around the plot area in pixels, as `drawPlot` leaves it. */
const MARGIN = { left: 64, right: 12, top: 10, bottom: 44 };

/** Share of the range of values that stays free at each end of an axis. */
const PADDING = 0.05;

/**
 * Draws the points, lines and cells of `plot` into `canvas`. Does nothing if the plot has traces of other types, or values
 * that are not numbers.
 * @param {HTMLElement} canvas
 * @param {Plot} plot
 * @param {Colours} colours
 * @returns {Place | undefined} where values are drawn; `undefined` without a drawing
 */
export function sketch(canvas, plot, colours) {
  const traces = /** @type {any[]} */ (plot.traces);
  const isKnown = traces.every(({ type, x, y }) => (type === "scatter" || type === "heatmap") && Array.isArray(x) && Array.isArray(y));
  const x = isKnown && scale(traces.flatMap((trace) => trace.x), plot.layout.xaxis);
  const y = isKnown && scale(traces.flatMap((trace) => trace.y), plot.layout.yaxis);
  if (!x || !y) return undefined;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const place = {
    x: (/** @type {number} */ value) => MARGIN.left + share(x, value) * (right - MARGIN.left),
    y: (/** @type {number} */ value) => bottom - share(y, value) * (bottom - MARGIN.top),
  };
  const drawing = element("svg", { class: "sketch", width, height, "aria-hidden": "true" });
  drawing.append(element("path", { d: `M${MARGIN.left} ${MARGIN.top}V${bottom}H${right}`, fill: "none", stroke: colours.line }));
  for (const trace of traces) drawing.append(...(trace.type === "heatmap" ? cells(trace, place, colours) : series(trace, place, colours)));
  const label = (/** @type {number} */ value, /** @type {Record<string, string | number>} */ at) => {
    const text = element("text", { fill: colours.text, "font-size": 12, ...at });
    text.textContent = short(value, 3);
    drawing.append(text);
  };
  label(x.low, { x: MARGIN.left, y: bottom + 16 });
  label(x.high, { x: right, y: bottom + 16, "text-anchor": "end" });
  label(y.low, { x: MARGIN.left - 4, y: bottom, "text-anchor": "end" });
  label(y.high, { x: MARGIN.left - 4, y: MARGIN.top + 10, "text-anchor": "end" });
  const title = (/** @type {any} */ axis, /** @type {Record<string, string | number>} */ at) => {
    const text = element("text", { fill: colours.quiet, "font-size": 12, "text-anchor": "middle", ...at });
    // Plotly.js would take it for markup.
    const plain = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
    text.textContent = String(axis?.title?.text ?? "").replace(/&(lt|gt|amp);/g, (escaped) => plain[/** @type {keyof typeof plain} */ (escaped)]);
    drawing.append(text);
  };
  title(plot.layout.xaxis, { x: (MARGIN.left + right) / 2, y: bottom + 34 });
  const [left, middle] = [12, (MARGIN.top + bottom) / 2];
  title(plot.layout.yaxis, { x: left, y: middle, transform: `rotate(-90 ${left} ${middle})` });
  canvas.replaceChildren(drawing);
  return place;
}

/**
 * The range of `values`; `undefined` without a finite one, or with text among them.
 * @param {unknown[]} values
 * @param {any} axis
 * @returns {Scale | undefined}
 */
function scale(values, axis) {
  const isLog = axis?.type === "log";
  if (!isLog && Array.isArray(axis?.range)) return { low: axis.range[0], high: axis.range[1], isLog, isFixed: true };
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (typeof value === "string") return undefined;
    if (typeof value !== "number" || !Number.isFinite(value) || (isLog && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? { low, high, isLog } : undefined;
}

/** The place of `value` along an axis, from 0 to 1. @param {Scale} scale @param {number} value */
function share({ low, high, isLog, isFixed }, value) {
  // Outside of the plot.
  if (isFixed) return value < low || value > high ? NaN : (value - low) / (high - low);
  const [from, to, at] = isLog ? [Math.log(low), Math.log(high), Math.log(value)] : [low, high, value];
  return to > from ? PADDING + ((at - from) / (to - from)) * (1 - 2 * PADDING) : 0.5;
}

/** @typedef {{x: (value: number) => number, y: (value: number) => number}} Place */

/**
 * The points and lines of a trace.
 * @param {any} trace
 * @param {Place} place
 * @param {Colours} colours
 */
function series(trace, place, colours) {
  const points = trace.x.map((/** @type {number} */ x, /** @type {number} */ index) => [place.x(x), place.y(trace.y[index])]);
  const finite = points.filter((/** @type {number[]} */ point) => point.every(Number.isFinite));
  /** @type {string[][]} */
  const rounded = finite.map((/** @type {number[]} */ point) => point.map((coordinate) => coordinate.toFixed(1)));
  const drawn = [];
  const opacity = trace.opacity ?? 1;
  if (trace.mode.includes("lines") && rounded.length > 0) {
    const isStepped = trace.line?.shape === "hv";
    const parts = rounded.map(([x, y]) => (isStepped ? `H${x}V${y}` : `L${x} ${y}`)).slice(1);
    const path = `M${rounded[0].join(" ")}${parts.join("")}`;
    drawn.push(element("path", { d: path, fill: "none", stroke: trace.line?.color ?? colours.accent, "stroke-width": trace.line?.width ?? 2, opacity }));
  }
  if (trace.mode.includes("markers")) {
    // A line without a length and with round ends is a point.
    const path = rounded.map(([x, y]) => `M${x} ${y}h0`).join("");
    const color = typeof trace.marker?.color === "string" ? trace.marker.color : colours.accent;
    const size = trace.marker?.size ?? 5;
    const look = { fill: "none", stroke: color, "stroke-width": size, "stroke-linecap": "round", opacity: trace.marker?.opacity ?? opacity };
    drawn.push(element("path", { d: path, ...look }));
  }
  return drawn;
}

/**
 * The cells of a heat map between the edges `x` and `y`, the darker the larger their value.
 * @param {any} trace
 * @param {Place} place
 * @param {Colours} colours
 */
function cells(trace, place, colours) {
  const values = trace.z.flat().filter(Number.isFinite);
  const low = values.reduce((/** @type {number} */ least, /** @type {number} */ value) => Math.min(least, value), Infinity);
  const high = values.reduce((/** @type {number} */ most, /** @type {number} */ value) => Math.max(most, value), -Infinity);
  return trace.z.flatMap((/** @type {(number | null)[]} */ row, /** @type {number} */ j) =>
    row.flatMap((value, i) => {
      if (value === null || !Number.isFinite(value)) return [];
      const [left, right] = [place.x(trace.x[i]), place.x(trace.x[i + 1])];
      const [bottom, top] = [place.y(trace.y[j]), place.y(trace.y[j + 1])];
      const opacity = high > low ? 0.12 + (0.73 * (value - low)) / (high - low) : 0.5;
      const area = { x: Math.min(left, right), y: Math.min(top, bottom), width: Math.abs(right - left), height: Math.abs(top - bottom) };
      return Object.values(area).every(Number.isFinite) ? [element("rect", { ...area, fill: colours.accent, opacity })] : [];
    }),
  );
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}
