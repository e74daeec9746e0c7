// @ts-check
// Parallel coordinates: trials as lines across the axes of parameters and metrics.
import { NARROW, brief, count, counted, plain, short, transparent } from "./plot_parts.js";
import { inner } from "./scales.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./plot_parts.js").Line} Line
 * @typedef {import("./plot_parts.js").Colours} Colours
 */

/** The numbers of parameters whose axes fit into a window. */
const MOST_AXES = { wide: 12, narrow: 4 };

/**
 * How much of the order of the trials, which are listed best first, the values of `dimension` explain: the variance between groups
 * of similar values, as a share of all variance. Trials without a value are a group.
 * @param {any} dimension
 */
function relation(dimension) {
  /** @type {(number | null)[]} */
  const values = dimension.values;
  const given = values.filter((value) => value !== null).sort((a, b) => Number(a) - Number(b));
  const bounds = dimension.kind === "LEVEL" ? [] : [0.2, 0.4, 0.6, 0.8].map((share) => given[Math.floor(share * given.length)]);
  const group = (/** @type {number | null} */ value) => {
    if (value === null || dimension.kind === "LEVEL") return value;
    return bounds.filter((bound) => bound !== null && bound !== undefined && value >= bound).length;
  };
  /** @type {Map<number | null, {count: number, sum: number}>} */
  const groups = new Map();
  values.forEach((value, rank) => {
    const { count, sum } = groups.get(group(value)) ?? { count: 0, sum: 0 };
    groups.set(group(value), { count: count + 1, sum: sum + rank });
  });
  const mean = (values.length - 1) / 2;
  let between = 0;
  for (const { count, sum } of groups.values()) between += count * (sum / count - mean) ** 2;
  return between;
}

/**
 * The indices of the parameters with an axis, in their order: all, or those that are most related to the results.
 * @param {any} view
 * @param {number} parameters
 */
function mostRelated(view, parameters) {
  const all = Array.from({ length: parameters }, (_, at) => at);
  const most = NARROW.matches ? MOST_AXES.narrow : MOST_AXES.wide;
  if (parameters <= most) return all;
  const relations = all.map((at) => relation(view.dimensions[at]));
  const ordered = [...all].sort((a, b) => relations[b] - relations[a]);
  return ordered.slice(0, most).sort((a, b) => a - b);
}

/** Number of levels of a category with a label. */
const MOST_LEVELS = 12;

/**
 * The name of an axis in an order of axes.
 * @param {{root: string, axis: {name: string}}} brush
 */
export function axisKey({ root, axis }) {
  return `${root}.${axis.name}`;
}

/**
 * Parallel coordinates as lines of one plot. The WebGL version of plotly.js compiles code, which the policy of the page forbids.
 * @param {any} view
 * @param {Colours} colours
 * @param {Record<string, string | undefined>} [order] with the names of axes in the order that a visitor has chosen, as JSON
 * @returns {Plot}
 */
export function parallelCoordinates(view, colours, { order } = {}) {
  const parameters = view.dimensions.length - view.metrics;
  const chosen = mostRelated(view, parameters);
  /** @type {import("./plot_parts.js").Brush[]} */
  const brushes = [
    ...chosen.map((at) => ({ root: /** @type {const} */ ("parameters"), axis: view.dimensions[at] })),
    ...view.dimensions.slice(parameters).map((/** @type {any} */ axis) => ({ root: /** @type {const} */ ("metric"), axis })),
  ];
  /** @type {string[]} */
  const wanted = order ? JSON.parse(order) : [];
  // An axis that had no place in the order stays at the end.
  const place = (/** @type {import("./plot_parts.js").Brush} */ brush) => (wanted.indexOf(axisKey(brush)) + wanted.length + 1) % (wanted.length + 1);
  if (wanted.length > 0) brushes.sort((a, b) => place(a) - place(b));
  /** @type {any[]} */
  const dimensions = brushes.map(({ axis }) => axis);
  let omitted = 0;
  const scales = dimensions.map((dimension, at) => {
    const isLog = dimension.isLog && dimension.values.every((/** @type {number | null} */ value) => value === null || value > 0);
    const position = (/** @type {number} */ value) => (isLog ? Math.log(value) : value);
    const values = dimension.values.filter((/** @type {number | null} */ value) => value !== null).map(position);
    const isLevel = dimension.kind === "LEVEL";
    // By a loop: a spread of many values exceeds the stack.
    let [low, high] = isLevel ? [0, Math.max(1, dimension.levels.length - 1)] : [Infinity, -Infinity];
    if (!isLevel) for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    if (!(low < high)) [low, high] = [(low || 0) - 1, (low || 0) + 1];
    // Results far from the others are at the end of their axis, so that they do not flatten it.
    const [least, most] = [low, high];
    const core = brushes[at].root === "metric" ? inner(values.map((/** @type {number} */ value) => [value, 1]), undefined) : undefined;
    if (core) {
      [low, high] = [Math.max(least, core.range[0]), Math.min(most, core.range[1])];
      omitted += core.omitted;
    }
    const value = (/** @type {number} */ share) => {
      const there = low + share * (high - low);
      return isLog ? Math.exp(there) : there;
    };
    const share = (/** @type {number} */ value) => Math.min(1, Math.max(0, (position(value) - low) / (high - low)));
    return { share, value, isOpen: { low: least < low, high: most > high } };
  });
  // The best are drawn last, above the others, in one colour for each group.
  const groups = [
    { from: 0.5, to: 1, colour: transparent(colours.quiet, 0.18), width: 1 },
    { from: 0.1, to: 0.5, colour: transparent(colours.accent, 0.3), width: 1 },
    { from: 0, to: 0.1, colour: colours.good, width: 1.4 },
  ];
  const total = view.trials.length;
  const traces = groups.map(({ from, to, colour, width }) => {
    /** @type {(number | null)[]} */
    const x = [];
    /** @type {(number | null)[]} */
    const y = [];
    /** @type {(string | null)[]} */
    const text = [];
    /** @type {(number | null)[]} */
    const customdata = [];
    for (let index = Math.ceil(from * total); index < Math.ceil(to * total); index += 1) {
      dimensions.forEach((dimension, at) => {
        const value = dimension.values[index];
        x.push(at);
        y.push(value === null ? null : scales[at].share(value));
        const shown = dimension.kind === "LEVEL" ? dimension.levels[value] : value;
        customdata.push(view.trials[index]);
        text.push(value === null ? null : `trial ${view.trials[index]}: ${plain(String(shown))}`);
      });
      x.push(null);
      y.push(null);
      text.push(null);
      customdata.push(null);
    }
    return { type: "scatter", mode: "lines", x, y, text, customdata, meta: "trials", line: { color: colour, width }, hovertemplate: "%{text}<extra></extra>" };
  });
  // A value without one on either side is on no line. Marks at all values would be thousands of elements.
  const single = traces.flatMap(({ x, y, text, customdata, line }) => {
    const alone = y.flatMap((share, at) => (share !== null && (y[at - 1] ?? null) === null && (y[at + 1] ?? null) === null ? [at] : []));
    if (alone.length === 0) return [];
    const of = (/** @type {any[]} */ values) => alone.map((at) => values[at]);
    return [{ type: "scatter", mode: "markers", x: of(x), y: of(y), text: of(text), customdata: of(customdata), meta: "trials", marker: { size: 4, color: line.color }, hovertemplate: "%{text}<extra></extra>" }];
  });
  // Names are in two lines, one above the other, so that each has the room of two axes.
  const room = Math.max(8, Math.min(24, Math.floor((2 * Math.min(innerWidth - 60, 1200)) / dimensions.length / 7)));
  const width = Math.min(innerWidth - 60, 1200) / dimensions.length;
  // A label of a level ends before the next axis.
  const roomOfLevels = Math.max(3, Math.floor((width - 14) / 6));
  const annotations = dimensions.flatMap((dimension, at) => {
    const label = (/** @type {number} */ y, /** @type {string} */ text, /** @type {number} */ size) => ({
      x: at, y, text: brief(text, room), hovertext: plain(text), showarrow: false, font: { size, color: size > 10 ? colours.text : colours.quiet },
    });
    const { value, isOpen } = scales[at];
    const end = (/** @type {0 | 1} */ share) => {
      const sign = share === 0 ? isOpen.low && "≤ " : isOpen.high && "≥ ";
      return `${sign || ""}${short(value(share), 4)}`;
    };
    const step = dimension.kind === "LEVEL" ? Math.ceil(dimension.levels.length / MOST_LEVELS) : 1;
    const ends = dimension.kind === "LEVEL"
      ? dimension.levels.flatMap((/** @type {string} */ level, /** @type {number} */ index) => {
        if (index % step !== 0) return [];
        const shown = { ...label(scales[at].share(index), level, 10), text: brief(level, roomOfLevels), bgcolor: transparent(colours.surface, 0.75), borderpad: 0 };
        return [at === dimensions.length - 1 ? { ...shown, xanchor: "right", xshift: -4 } : { ...shown, xanchor: "left", xshift: 4 }];
      })
      : [label(-0.06, end(0), 10), label(1.06, end(1), 10)];
    // The first and the last name stay within the plot: beside their axis only if they do not fit above it.
    const last = dimensions.length - 1;
    const isEnd = (at === 0 || at === last) && Math.min([...dimension.name].length, room) * 3.5 > 0.4 * width;
    const name = { ...label(at % 2 ? 1.22 : 1.14, dimension.name, 12), text: brief(dimension.name, isEnd ? Math.ceil(room * 0.6) : room) };
    const edge = at === 0 ? { x: -0.35, xanchor: "left" } : { x: last + 0.5, xanchor: "right" };
    return [isEnd && last > 1 ? { ...name, ...edge } : name, ...ends];
  });
  const shapes = dimensions.map((_, at) => ({ type: "line", x0: at, x1: at, y0: 0, y1: 1, line: { color: colours.quiet, width: 1 } }));
  return {
    traces: [...traces, ...single],
    layout: {
      xaxis: { visible: false, range: [-0.4, dimensions.length - 0.4] },
      yaxis: { visible: false, range: [-0.1, 1.28] },
      annotations,
      shapes,
      margin: { l: 10, r: 10, t: 10, b: 10 },
    },
    lines: brushes.map((brush, at) => ({
      brush,
      low: scales[at].value(0),
      high: scales[at].value(1),
      isOpen: scales[at].isOpen,
    })),
    csv: {
      header: ["trial", "stands for", ...view.dimensions.map((/** @type {any} */ dimension) => dimension.name)],
      rows: view.trials.map((/** @type {number} */ trial, /** @type {number} */ index) => [
        trial,
        view.standsFor[index],
        ...view.dimensions.map((/** @type {any} */ dimension) => {
          const value = dimension.values[index];
          return dimension.kind === "LEVEL" && value !== null ? dimension.levels[value] : value;
        }),
      ]),
    },
    note: `${total < view.measured ? `${counted(total, "line")} stand for ${counted(view.measured, "trial")}` : `${counted(total, "trial")} with a result`}${chosen.length < parameters ? `; the ${chosen.length} of ${count(parameters)} parameters that are most related to the results` : ""}${omitted > 0 ? `; ${omitted === 1 ? "1 result is beyond the end of its axis" : `${count(omitted)} results are beyond the ends of their axes`}` : ""}`,
  };
}

/**
 * The value of a parallel axis at a height from 0 to 1; infinite at an end beyond which there are values.
 * @param {Line} line
 * @param {number} share
 */
export function valueOnLine({ brush, low, high, isOpen }, share) {
  if (isOpen.low && share <= 0) return -Infinity;
  if (isOpen.high && share >= 1) return Infinity;
  const { isLog } = brush.axis;
  if (isLog && low > 0) return Math.exp(Math.log(low) + share * (Math.log(high) - Math.log(low)));
  return low + share * (high - low);
}
