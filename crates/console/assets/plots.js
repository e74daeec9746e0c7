// @ts-check
// Plots of views: each function turns the answer of the server into traces of plotly.js, their axes, and a table.
import { surfaceOf } from "./surface.js";
import { LEGEND, brief, count, counted, layout, plain, roomForNames, short, transparent, worstToBest } from "./plot_parts.js";

/**
 * @typedef {import("./plot_parts.js").Axis} Axis
 * @typedef {import("./plot_parts.js").Csv} Csv
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./plot_parts.js").Colours} Colours
 */

/**
 * The places of trials with their numbers, and what is shown under the pointer where there is no card.
 * @param {{trials: number[], x: number[], y: number[]}} points
 * @param {Axis[]} axes across and up
 */
function trialsAt(points, axes) {
  const [x, y] = axes.map((axis) => plain(axis.name));
  return {
    x: points.x,
    y: points.y,
    meta: "trials",
    customdata: points.trials,
    hovertemplate: `trial %{customdata}<br>${x}: %{x}<br>${y}: %{y}<extra></extra>`,
  };
}

/** Number of trials of a column below which they are all shown one by one. */
const FEW_TRIALS = 12;

/**
 * The traces of trials: cells with numbers of trials, and the trials that are shown.
 * @param {any} view
 * @param {Axis[]} axes across and up
 * @param {Colours} colours
 * @param {boolean} [areShares] Whether a cell is as dark as its share of the trials of its column: columns have different widths.
 * @param {object} [marker] The look of the trials.
 */
function scatter(view, axes, colours, areShares = false, marker = {}) {
  const traces = [];
  if (view.density) {
    const { xEdges, yEdges, counts } = view.density;
    const width = xEdges.length - 1;
    const rows = yEdges.slice(1).map((/** @type {number} */ _, /** @type {number} */ row) => counts.slice(row * width, (row + 1) * width));
    const totals = xEdges.slice(1).map((/** @type {number} */ _, /** @type {number} */ at) => rows.reduce((/** @type {number} */ sum, /** @type {number[]} */ row) => sum + row[at], 0));
    const shade = (/** @type {number} */ cell, /** @type {number} */ at) => {
      if (cell === 0 || (areShares && totals[at] < FEW_TRIALS)) return null;
      return Math.log10(areShares ? cell / totals[at] : cell);
    };
    traces.push({
      type: "heatmap",
      x: xEdges,
      y: yEdges,
      z: rows.map((/** @type {number[]} */ row) => row.map(shade)),
      customdata: rows,
      colorscale: [[0, transparent(colours.accent, 0.12)], [1, transparent(colours.accent, 0.85)]],
      showscale: false,
      meta: "density",
      hovertemplate: "%{customdata} trials<extra></extra>",
    });
  }
  traces.push({
    type: "scatter",
    mode: "markers",
    name: "trials",
    ...trialsAt(view.points, axes),
    marker: { size: view.density ? 4 : 5, color: colours.accent, opacity: 0.7, ...marker },
  });
  return traces;
}

/** @param {any} view @param {string} x @param {string} y @returns {Csv} */
function csvOfPoints(view, x, y) {
  const { points } = view;
  const rows = points.trials.map((/** @type {number} */ trial, /** @type {number} */ index) => [trial, points.x[index], points.y[index]]);
  return { header: ["trial", x, y], rows };
}

/** @param {any} view */
function noteOf(view) {
  return view.density
    ? `${counted(view.measured, "trial")} with a result: ${count(view.points.trials.length)} of them are shown one by one, all are counted in the cells`
    : `${counted(view.measured, "trial")} with a result`;
}

/** @type {Axis} */
export const TRIALS = { name: "trial", kind: "INTEGER", isLog: false, isOwn: true };

/** Number of trials from which their axis is logarithmic: most improvements are among the first ones. */
const MANY_TRIALS = 5000;

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function history(view, colours) {
  const { trials, values } = view.improvements;
  /** @type {number} */
  const latest = view.points.x.reduce((/** @type {number} */ most, /** @type {number} */ trial) => Math.max(most, trial), view.density?.xEdges.at(-1) ?? 0);
  // The best result holds up to the latest trial.
  const best = {
    type: "scatter",
    mode: "lines",
    name: "best so far",
    x: [...trials, ...(trials.length > 0 ? [latest] : [])],
    y: [...values, ...values.slice(-1)],
    line: { shape: "hv", color: colours.good, width: 2 },
    hoverinfo: "skip",
  };
  const improvements = {
    type: "scatter",
    mode: "markers",
    showlegend: false,
    ...trialsAt({ trials, x: trials, y: values }, [TRIALS, view.metric]),
    marker: { size: 5, color: colours.good },
  };
  return {
    traces: [...scatter(view, [TRIALS, view.metric], colours, true), best, improvements],
    layout: { ...layout(colours, TRIALS, view.metric), ...LEGEND },
    scales: { y: { name: view.metric.name, isMaximized: view.isMaximized }, x: { name: "trial", clips: false, isLog: view.measured >= MANY_TRIALS } },
    x: { root: "id", axis: TRIALS },
    y: { root: "metric", axis: view.metric },
    csv: csvOfPoints(view, "number", view.metric.name),
    note: noteOf(view),
  };
}

/**
 * Results over a parameter. The colour of a trial is its number, which shows where the search was when.
 * @param {any} view
 * @param {Colours} colours
 * @returns {Plot}
 */
export function slice(view, colours) {
  const colorbar = { title: { text: "trial", side: "right", font: { color: colours.quiet, size: 12 } }, thickness: 10, outlinewidth: 0, tickfont: { color: colours.quiet } };
  const byTrial = { color: view.points.trials, colorscale: worstToBest(colours), showscale: true, colorbar, opacity: 0.9 };
  const isColoured = !view.density && view.points.trials.length > 1;
  return {
    traces: scatter(view, [view.parameter, view.metric], colours, false, isColoured ? byTrial : {}),
    layout: layout(colours, view.parameter, view.metric),
    scales: { y: { name: view.metric.name, isMaximized: view.isMaximized } },
    x: { root: "parameters", axis: view.parameter },
    y: { root: "metric", axis: view.metric },
    csv: csvOfPoints(view, view.parameter.name, view.metric.name),
    note: noteOf(view),
  };
}

/**
 * A surface that is fitted to the cells, or the cells themselves if a visitor has chosen them or a surface does not fit.
 * @param {any} view
 * @param {Colours} colours
 * @param {Record<string, string | undefined>} [chosen]
 * @returns {Plot}
 */
export function contour(view, colours, chosen = {}) {
  const surface = surfaceOf(view);
  const areCells = !surface || chosen.cells === "on";
  const width = view.xEdges.length - 1;
  const rows = view.yEdges.slice(1).map((/** @type {number} */ _, /** @type {number} */ row) => view.means.slice(row * width, (row + 1) * width));
  const counts = view.yEdges.slice(1).map((/** @type {number} */ _, /** @type {number} */ row) => view.counts.slice(row * width, (row + 1) * width));
  const cells = {
    type: "heatmap",
    x: view.xEdges,
    y: view.yEdges,
    z: rows,
    customdata: counts,
    colorscale: worstToBest(colours),
    reversescale: view.isMaximized === false,
    colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: colours.quiet } },
    hovertemplate: "mean %{z} of %{customdata} trials<extra></extra>",
  };
  const lines = {
    ...cells,
    type: "contour",
    ...surface,
    customdata: undefined,
    line: { width: 0.8, color: transparent(colours.text, 0.4), smoothing: 1 },
    ncontours: 12,
    contours: { coloring: "heatmap" },
    hovertemplate: "about %{z:.4g}<extra></extra>",
  };
  const best = {
    type: "scatter",
    mode: "markers",
    ...trialsAt(view.points, [view.x, view.y]),
    marker: { size: 6, color: colours.surface, line: { color: colours.text, width: 1 } },
  };
  return {
    traces: [areCells ? cells : lines, best],
    switches: surface ? [["cells", "cells", "Show the means of cells", areCells]] : [],
    layout: layout(colours, view.x, view.y),
    x: { root: "parameters", axis: view.x },
    y: { root: "parameters", axis: view.y },
    csv: csvOfPoints(view, view.x.name, view.y.name),
    note: `mean ${view.metric.name} of ${counted(view.measured, "trial")} ${areCells ? "in cells" : "by a fitted surface, drawn near trials only"}, and the best ${counted(view.points.trials.length, "trial")}`,
  };
}

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function rank(view, colours) {
  const trace = {
    type: "scatter",
    mode: "markers",
    ...trialsAt(view.points, [view.x, view.y]),
    hovertemplate: "trial %{customdata}<br>better than %{marker.color:.0%} of the trials<extra></extra>",
    marker: {
      size: 6,
      color: view.ranks.map((/** @type {number} */ share) => 1 - share),
      colorscale: worstToBest(colours),
      cmin: 0,
      cmax: 1,
      colorbar: { thickness: 10, outlinewidth: 0, tickformat: ".0%", tickfont: { color: colours.quiet } },
    },
  };
  const shown = view.points.trials.length;
  return {
    traces: [trace],
    layout: layout(colours, view.x, view.y),
    x: { root: "parameters", axis: view.x },
    y: { root: "parameters", axis: view.y },
    csv: csvOfPoints(view, view.x.name, view.y.name),
    note: `${shown < view.measured ? `${counted(shown, "trial")} stand for ${count(view.measured)}` : noteOf(view)}; colour: the share of trials that each is better than`,
  };
}

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function paretoFront(view, colours) {
  const named = (/** @type {string} */ name) => view.frontValues.find((/** @type {any} */ axis) => axis.name === name)?.values ?? [];
  const axes = [view.x, view.y];
  // With more metrics, the points of the front are no line over two of them.
  const isLine = view.frontValues.length === 2;
  const goals = view.goals ?? {};
  const front = {
    type: "scatter",
    mode: isLine ? "lines+markers" : "markers",
    name: "not dominated",
    ...trialsAt({ trials: view.front, x: named(view.x.name), y: named(view.y.name) }, axes),
    line: { color: colours.good, width: 1.5, shape: goals[view.x.name] ? "vh" : "hv" },
    marker: { size: 8, color: colours.good },
  };
  const scale = (/** @type {Axis} */ axis) => ({ name: axis.name, isMaximized: goals[axis.name] });
  return {
    traces: [...scatter(view, axes, colours), front],
    layout: { ...layout(colours, view.x, view.y), ...LEGEND },
    scales: { x: scale(view.x), y: scale(view.y) },
    x: { root: "metric", axis: view.x },
    y: { root: "metric", axis: view.y },
    csv: csvOfPoints(view, view.x.name, view.y.name),
    note: `${count(view.frontSize)} of ${counted(view.measured, "trial")} not dominated`,
  };
}

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function distribution(view, colours) {
  const trace = {
    type: "scatter",
    mode: "lines",
    line: { shape: "hv", color: colours.accent },
    x: view.values,
    y: view.shares,
    hovertemplate: "%{y:.1%} of the trials are at most %{x}<extra></extra>",
  };
  const drawn = layout(colours, view.metric, { name: "share of trials", kind: "NUMBER", isLog: false, isOwn: true });
  return {
    traces: [trace],
    layout: { ...drawn, yaxis: { ...drawn.yaxis, range: [0, 1.02], tickformat: ".0%" } },
    x: { root: "metric", axis: view.metric },
    csv: {
      header: [view.metric.name, "share"],
      rows: view.values.map((/** @type {number} */ value, /** @type {number} */ index) => [value, view.shares[index]]),
    },
    note: `${counted(view.measured, "trial")} with a result`,
  };
}

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function learningCurves(view, colours) {
  const traces = view.curves.map((/** @type {any} */ curve, /** @type {number} */ index) => ({
    type: "scatter",
    mode: curve.steps.length > 1 ? "lines" : "markers",
    x: curve.steps,
    y: curve.values,
    name: index === 0 ? "best trial" : "sample of the others",
    showlegend: index < 2,
    meta: "trials",
    customdata: curve.steps.map(() => curve.trial),
    line: { width: index === 0 ? 2.5 : 1, color: index === 0 ? colours.good : colours.accent },
    opacity: index === 0 ? 1 : 0.5,
    hovertemplate: `trial ${curve.trial}<br>step %{x}: %{y}<extra></extra>`,
  }));
  const steps = { name: "step", kind: /** @type {const} */ ("INTEGER"), isLog: false, isOwn: true };
  return {
    traces,
    layout: { ...layout(colours, steps, view.metric), ...LEGEND },
    scales: { y: { name: view.metric.name, isMaximized: view.isMaximized } },
    csv: {
      header: ["trial", "step", view.metric.name],
      rows: view.curves.flatMap((/** @type {any} */ curve) =>
        curve.steps.map((/** @type {number} */ step, /** @type {number} */ index) => [curve.trial, step, curve.values[index]]),
      ),
    },
    note: `${count(view.curves.length)} of ${counted(view.measured, "trial")} with measurements: the best first, then a sample`,
  };
}

/** The number of bars that a person can compare. The table that is saved has all. */
const MOST_BARS = 30;

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function importance(view, colours) {
  const bars = [...view.parameters].slice(0, MOST_BARS).reverse();
  const value = (/** @type {string} */ key) => bars.map((bar) => bar[key]);
  const trace = {
    type: "bar",
    orientation: "h",
    // By number: two names may look the same when they are shortened.
    y: bars.map((_, index) => index),
    text: bars.map((bar) => plain(bar.parameter)),
    textposition: "none",
    x: value("total"),
    marker: { color: colours.accent },
    error_x: {
      type: "data",
      symmetric: false,
      array: bars.map((bar) => bar.totalRange[1] - bar.total),
      arrayminus: bars.map((bar) => bar.total - bar.totalRange[0]),
      color: colours.quiet,
      thickness: 1.2,
    },
    hovertemplate: "%{text}: %{x:.0%}<extra></extra>",
  };
  const drawn = layout(colours, { name: "share of the variance, with interactions", kind: "NUMBER", isLog: false, isOwn: true }, { name: "", kind: "NUMBER", isLog: false });
  return {
    traces: [trace],
    layout: {
      ...drawn,
      xaxis: { ...drawn.xaxis, range: [0, 1.02], tickformat: ".0%" },
      yaxis: {
        automargin: true,
        tickvals: bars.map((_, index) => index),
        ticktext: bars.map((bar) => brief(bar.parameter, roomForNames())),
        range: [-0.6, bars.length - 0.4],
        zeroline: false,
        showgrid: false,
      },
    },
    height: Math.max(320, 90 + bars.length * 18),
    csv: {
      header: ["parameter", "total", "total lower", "total upper", "alone", "alone lower", "alone upper"],
      rows: view.parameters.map((/** @type {any} */ bar) => [bar.parameter, bar.total, ...bar.totalRange, bar.firstOrder, ...bar.firstOrderRange]),
    },
    note: `by a model of ${counted(view.modelled, "point")}; ranges over ${view.refits} refits${bars.length < view.parameters.length ? `; the first ${bars.length} of ${count(view.parameters.length)} parameters` : ""}`,
  };
}

/** Each result beside what the model predicts from the others. @param {any} view @param {Colours} colours @returns {Plot} */
export function trust(view, colours) {
  const points = {
    type: "scatter",
    mode: "markers",
    x: view.observed,
    y: view.predicted,
    error_y: {
      type: "data",
      symmetric: false,
      array: view.upper.map((/** @type {number} */ upper, /** @type {number} */ index) => upper - view.predicted[index]),
      arrayminus: view.lower.map((/** @type {number} */ lower, /** @type {number} */ index) => view.predicted[index] - lower),
      color: transparent(colours.quiet, 0.35),
      thickness: 1,
      width: 0,
    },
    meta: "trials",
    customdata: view.trials,
    hovertemplate: "trial %{customdata}<br>observed %{x}, predicted %{y}<extra></extra>",
    marker: { size: 6, color: colours.accent, opacity: 0.8 },
  };
  const ends = [Math.min(...view.observed), Math.max(...view.observed)];
  const diagonal = { type: "scatter", mode: "lines", x: ends, y: ends, line: { color: colours.quiet, dash: "dot", width: 1 }, hoverinfo: "skip" };
  const shown = [...view.observed, ...view.predicted];
  const [low, high] = [Math.min(...shown), Math.max(...shown)];
  // Long bands leave the plot, so that the points stay apart.
  const margin = (high - low || 1) * 0.08;
  const base = layout(colours, view.metric, { name: "predicted from the other trials, 95% band", kind: "NUMBER", isLog: false, isOwn: true });
  const correlation = view.rankCorrelation === null ? "all predictions are equal" : `rank correlation ${short(Number(view.rankCorrelation.toPrecision(2)))}`;
  return {
    traces: [diagonal, points],
    layout: { ...base, yaxis: { ...base.yaxis, range: [low - margin, high + margin] } },
    scales: { x: { name: "observed", isMaximized: view.isMaximized }, y: { name: "predicted", isMaximized: view.isMaximized } },
    x: { root: "metric", axis: view.metric },
    csv: {
      header: ["trial", "observed", "predicted", "lower", "upper"],
      rows: view.trials.map((/** @type {number} */ trial, /** @type {number} */ index) => [
        trial, view.observed[index], view.predicted[index], view.lower[index], view.upper[index],
      ]),
    },
    note: `${correlation}; noise to signal ${short(Number(view.noiseToSignal.toPrecision(2)))}; ${counted(view.modelled, "point")}`,
  };
}

/** The share of results within the predicted bands. @param {any} view @param {Colours} colours @returns {Plot} */
export function coverage(view, colours) {
  const labels = view.nominalCoverage.map((/** @type {number} */ share) => `${Math.round(share * 100)}% band`);
  const bars = { type: "bar", x: labels, y: view.observedCoverage, marker: { color: colours.accent }, hovertemplate: "%{y:.0%} of the results are in the %{x}<extra></extra>" };
  const expected = {
    type: "scatter", mode: "markers", x: labels, y: view.nominalCoverage,
    marker: { symbol: "line-ew-open", size: 44, color: colours.text, line: { width: 2 } }, hovertemplate: "expected: %{y:.0%}<extra></extra>",
  };
  const share = { name: "share of results inside", kind: /** @type {const} */ ("NUMBER"), isLog: false, isOwn: true };
  const drawn = layout(colours, { name: "", kind: "NUMBER", isLog: false }, share);
  return {
    traces: [bars, expected],
    layout: { ...drawn, xaxis: { type: "category" }, yaxis: { ...drawn.yaxis, range: [0, 1.02], tickformat: ".0%" } },
    csv: {
      header: ["nominal", "observed"],
      rows: view.nominalCoverage.map((/** @type {number} */ nominal, /** @type {number} */ index) => [nominal, view.observedCoverage[index]]),
    },
    note: "bars: the observed shares; lines: the expected ones",
  };
}

/** @param {any} view @param {Colours} colours @returns {Plot} */
export function timeline(view, colours) {
  const time = (/** @type {number} */ seconds) => new Date(seconds * 1000).toISOString();
  const latest = view.edges.at(-1);
  const drawn = (/** @type {boolean} */ failed) => {
    /** @type {(string | null)[]} */
    const x = [];
    /** @type {(number | null)[]} */
    const y = [];
    /** @type {(string | null)[]} */
    const text = [];
    view.lanes.forEach((/** @type {any} */ lane, /** @type {number} */ index) => {
      lane.starts.forEach((/** @type {number} */ start, /** @type {number} */ at) => {
        if (lane.failed[at] !== failed) return;
        const trials = lane.counts[at] > 1 ? `${count(lane.counts[at])} trials from ${lane.trials[at]}` : `trial ${lane.trials[at]}`;
        x.push(time(start), time(lane.ends[at] ?? latest), null);
        y.push(index, index, null);
        text.push(trials, trials, null);
      });
    });
    return {
      type: "scatter",
      mode: "lines",
      line: { width: Math.max(3, Math.min(14, 260 / Math.max(1, view.lanes.length))), color: failed ? colours.bad : colours.accent },
      x,
      y,
      text,
      hovertemplate: "%{text}<br>%{x}<extra></extra>",
    };
  };
  const running = {
    type: "scatter",
    mode: "lines",
    line: { shape: "hv", color: colours.quiet, width: 1 },
    x: view.edges.slice(0, -1).map(time),
    y: view.running,
    yaxis: "y2",
    hovertemplate: "%{y:.1f} at once<extra></extra>",
  };
  const base = layout(colours, { name: "", kind: "NUMBER", isLog: false }, { name: "", kind: "NUMBER", isLog: false });
  const shown = view.lanes.map((/** @type {any} */ lane, /** @type {number} */ index) =>
    index > 0 && view.lanes[index - 1].clientId === lane.clientId ? "" : plain(lane.clientId.slice(0, 30)),
  );
  return {
    traces: [drawn(false), drawn(true), running],
    layout: {
      ...base,
      xaxis: { ...base.xaxis, type: "date", anchor: "free", position: 0 },
      yaxis: { ...base.yaxis, domain: [0.3, 1], tickvals: shown.map((/** @type {string} */ _, /** @type {number} */ index) => index), ticktext: shown, autorange: "reversed" },
      yaxis2: { ...base.yaxis, anchor: "x", title: { text: "at once", font: { size: 12 } }, domain: [0, 0.22], rangemode: "tozero" },
    },
    csv: {
      header: ["client", "first trial", "trials", "start", "end", "failed"],
      rows: view.lanes.flatMap((/** @type {any} */ lane) =>
        lane.starts.map((/** @type {number} */ start, /** @type {number} */ at) => [
          lane.clientId,
          lane.trials[at],
          lane.counts[at],
          time(start),
          lane.ends[at] === null ? null : time(lane.ends[at]),
          String(lane.failed[at]),
        ]),
      ),
    },
    note: `${counted(view.started, "trial")} started${view.notShown > 0 ? `; ${count(view.notShown)} of them are in lanes that are not shown` : ""}`,
  };
}
