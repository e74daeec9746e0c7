// @ts-check
// Scales of plots: values far from the others are left out at first, and axes can be logarithmic.
import { count } from "./plot_parts.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {"x" | "y"} Side
 */

/** Distance from the quartiles, in ranges between them, of what is left out (Tukey's outer fence). */
const FENCE = 3;

/** How many times larger the range with all values has to be, so that leaving some out is worth it. */
const LEAST_GAIN = 2;

/** Share of the range that stays free at each end. */
const MARGIN = 0.06;

/**
 * The values along an axis, with the number of trials that each stands for.
 * @param {Plot} plot
 * @param {Side} side
 * @returns {[number, number][]}
 */
function weighted(plot, side) {
  const traces = /** @type {any[]} */ (plot.traces);
  const density = traces.find((trace) => trace.meta === "density");
  if (density) {
    const edges = density[side];
    return edges.slice(1).map((/** @type {number} */ edge, /** @type {number} */ at) => {
      const cells = side === "y" ? density.customdata[at] : density.customdata.map((/** @type {number[]} */ row) => row[at]);
      return [(edges[at] + edge) / 2, cells.reduce((/** @type {number} */ sum, /** @type {number} */ cell) => sum + cell, 0)];
    });
  }
  const trials = traces.filter((trace) => trace.meta === "trials");
  return trials.flatMap((trace) => trace[side].map((/** @type {number} */ value) => [value, 1]));
}

/**
 * The range of an axis without outliers, and their number; `undefined` if there are none worth leaving out.
 * @param {[number, number][]} values with their weights
 * @param {boolean | undefined} isMaximized whether high values are good: good ones are never left out
 */
export function inner(values, isMaximized) {
  const sorted = values.filter(([value, weight]) => Number.isFinite(value) && weight > 0).sort(([a], [b]) => a - b);
  const total = sorted.reduce((sum, [, weight]) => sum + weight, 0);
  if (total < 8) return undefined;
  const quantile = (/** @type {number} */ share) => {
    let sum = 0;
    return sorted.find(([, weight]) => (sum += weight) >= share * total)?.[0] ?? 0;
  };
  const [low, high] = [quantile(0.25), quantile(0.75)];
  const fence = FENCE * (high - low);
  const isInside = (/** @type {number} */ value) =>
    (isMaximized === false || value >= low - fence) && (isMaximized === true || value <= high + fence);
  const inside = sorted.filter(([value]) => isInside(value));
  if (inside.length === sorted.length || !(high > low)) return undefined;
  const [least, most] = [inside[0][0], inside[inside.length - 1][0]];
  if (sorted[sorted.length - 1][0] - sorted[0][0] < LEAST_GAIN * (most - least)) return undefined;
  const margin = MARGIN * (most - least);
  const omitted = total - inside.reduce((sum, [, weight]) => sum + weight, 0);
  return { range: /** @type {[number, number]} */ ([least - margin, most + margin]), omitted };
}

/**
 * Whether an axis could be logarithmic.
 * @param {Plot} plot
 * @param {Side} side
 */
function canBeLog(plot, side) {
  const density = /** @type {any} */ (plot.traces.find((trace) => /** @type {any} */ (trace).meta === "density"));
  const values = weighted(plot, side);
  return values.length > 1 && values.every(([value]) => value > 0) && (!density || density[side][0] > 0);
}

/**
 * `plot` with the scales that a visitor has chosen on `figure`, by the buttons that this function shows.
 * @param {HTMLElement} figure
 * @param {Plot} plot
 * @param {() => void} redraw
 * @returns {Plot}
 */
export function scaled(figure, plot, redraw) {
  const sides = /** @type {Side[]} */ (Object.keys(plot.scales ?? {}));
  const layout = { ...plot.layout };
  let omitted = 0;
  const buttons = [...(plot.switches ?? [])];
  for (const side of sides) {
    const axis = layout[`${side}axis`];
    const scale = plot.scales?.[side] ?? {};
    const key = `log${side}`;
    if (canBeLog(plot, side)) {
      const isLog = figure.dataset[key] ? figure.dataset[key] === "on" : scale.isLog === true;
      buttons.push([key, `log ${side}`, `Logarithmic ${scale.name ?? side} axis`, isLog]);
      if (isLog) {
        layout[`${side}axis`] = { ...axis, type: "log", exponentformat: "power", range: undefined };
        continue;
      }
    }
    const part = scale.clips === false ? undefined : inner(weighted(plot, side), scale.isMaximized);
    if (!part) continue;
    const isAll = figure.dataset.all === "on";
    buttons.push(["all", "all values", "Show the values far from the others", isAll]);
    if (isAll) continue;
    layout[`${side}axis`] = { ...axis, range: part.range };
    omitted = Math.max(omitted, part.omitted);
  }
  showButtons(figure, buttons, redraw);
  const note = omitted === 1 ? "; 1 result far from the others is not shown" : `; ${count(omitted)} results far from the others are not shown`;
  return { ...plot, layout, note: `${plot.note}${omitted > 0 ? note : ""}` };
}

/**
 * @param {HTMLElement} figure
 * @param {import("./plot_parts.js").Switch[]} buttons
 * @param {() => void} redraw
 */
function showButtons(figure, buttons, redraw) {
  const save = figure.querySelector(".save");
  if (!save) return;
  save.querySelectorAll("[data-scale]").forEach((button) => button.remove());
  const known = new Set();
  const shown = buttons.filter(([key]) => !known.has(key) && known.add(key)).map(([key, text, label, isOn]) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: text });
    button.dataset.scale = key;
    button.setAttribute("aria-label", label);
    button.setAttribute("aria-pressed", String(isOn));
    button.addEventListener("click", () => {
      figure.dataset[key] = isOn ? "off" : "on";
      redraw();
    });
    return button;
  });
  save.prepend(...shown);
}
