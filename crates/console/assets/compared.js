// @ts-check
// Plots of several studies side by side: one line for each.
import { count, counted, layout, plain } from "./plot_parts.js";
import { TRIALS } from "./plots.js";

/**
 * @typedef {import("./plot_parts.js").Axis} Axis
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./plot_parts.js").Colours} Colours
 */

/**
 * @typedef {{name: string, total: number, revision: string, view: any}} Entry The view of one of several studies.
 */

/** Colours that differ from each other, also for people who see fewer of them, for light and for dark pages (Okabe and Ito). */
const DIFFERENT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a67c00", "#56b4e9", "#8a63d2", "#7f7f7f"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];

/** The line of the study with this index: a colour, and another dash after all colours. @param {number} index */
function lineOf(index) {
  return {
    shape: "hv", width: 2,
    color: DIFFERENT[index % DIFFERENT.length],
    dash: DASHES[Math.floor(index / DIFFERENT.length) % DASHES.length],
  };
}

/** The layout of a plot with one line for each study. @param {Colours} colours @param {Axis} x @param {Axis} y */
function layoutOfStudies(colours, x, y) {
  return { ...layout(colours, x, y), showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" } };
}

/** The best result up to each trial, of several studies. @param {Entry[]} entries @param {Colours} colours @returns {Plot} */
export function bestSoFar(entries, colours) {
  const traces = entries.map(({ name, total, view }, index) => {
    const { trials, values } = view.improvements;
    // The line goes on to the last trial.
    const isAtEnd = trials.length === 0 || trials.at(-1) >= total;
    return {
      type: "scatter",
      mode: trials.length > 1 || !isAtEnd ? "lines" : "markers",
      name: plain(name),
      x: isAtEnd ? trials : [...trials, total],
      y: isAtEnd ? values : [...values, values.at(-1)],
      line: lineOf(index),
      hovertemplate: "best up to trial %{x}: %{y}",
    };
  });
  return {
    traces,
    layout: layoutOfStudies(colours, TRIALS, entries[0].view.metric),
    csv: {
      header: ["job", "trial", entries[0].view.metric.name],
      rows: entries.flatMap(({ name, view: { improvements } }) =>
        improvements.trials.map((/** @type {number} */ trial, /** @type {number} */ at) => [name, trial, improvements.values[at]]),
      ),
    },
    note: `${counted(entries.length, "job")}; a line falls or rises where a trial was better than all before it`,
  };
}

/** The distributions of the results of several studies. @param {Entry[]} entries @param {Colours} colours @returns {Plot} */
export function distributions(entries, colours) {
  const traces = entries.map(({ name, view }, index) => ({
    type: "scatter",
    mode: view.values.length > 1 ? "lines" : "markers",
    name: plain(name),
    x: view.values,
    y: view.shares,
    line: lineOf(index),
    hovertemplate: "%{y:.1%} of the trials are at most %{x}",
  }));
  const { metric } = entries[0].view;
  const measured = entries.map(({ view }) => view.measured);
  const [fewest, most] = [Math.min(...measured), Math.max(...measured)];
  const drawn = layoutOfStudies(colours, metric, { name: "share of trials", kind: "NUMBER", isLog: false, isOwn: true });
  return {
    traces,
    layout: { ...drawn, yaxis: { ...drawn.yaxis, range: [0, 1.02], tickformat: ".0%" } },
    csv: {
      header: ["job", metric.name, "share"],
      rows: entries.flatMap(({ name, view }) =>
        view.values.map((/** @type {number} */ value, /** @type {number} */ at) => [name, value, view.shares[at]]),
      ),
    },
    note: fewest === most ? `${counted(most, "trial")} with a result of each job` : `${count(fewest)} to ${counted(most, "trial")} with a result`,
  };
}
