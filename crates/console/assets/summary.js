// @ts-check
// The picture of a job or study on its first page: results, importance and the five best trials. They are drawn without plotly.js.
import { confirmCopy, copyText } from "./copy.js";
import { onLookChange, tableRow } from "./figure.js";
import { leaders } from "./leaders.js";
import { colours as coloursOfPage, counted, short } from "./plot_parts.js";
import { history } from "./plots.js";
import { scaled } from "./scales.js";
import { sketch } from "./sketch.js";
import { read } from "./views.js";
import { shellWord } from "./words.js";

/** Number of parameters whose importance is shown. */
const MOST_BARS = 8;

/** Least time between two drawings in milliseconds. */
const PAUSE = 2000;

const root = /** @type {HTMLElement} */ (document.getElementById("picture"));
/** @type {string[]} */
const parameters = JSON.parse(root.dataset.parameters ?? "[]");
const { study = "", metric = "", direction = "" } = root.dataset;

/** Parameters with a column: none if they are too many for a table. */
const columns = parameters.length < 30 ? parameters : [];

/** What there is to draw: a part of the page that follows the trials. */
function drawable() {
  return document.getElementById("drawable")?.dataset ?? {};
}

/** @param {string} plot */
function parts(plot) {
  const figure = /** @type {HTMLElement} */ (root.querySelector(`[data-plot="${plot}"]`));
  return {
    figure,
    canvas: /** @type {HTMLElement} */ (figure.querySelector(".canvas, .bars")),
    note: /** @type {HTMLElement} */ (figure.querySelector(".note")),
  };
}

async function drawHistory() {
  const { figure, canvas, note } = parts("history");
  try {
    const { view } = await read(study, "history", { metric });
    const plot = scaled(figure, history(view, coloursOfPage()), () => void drawHistory());
    const place = sketch(canvas, plot, coloursOfPage());
    if (place) showNew(canvas, place, view.points);
    const [trials, values] = [view.improvements.trials, view.improvements.values];
    const best = trials.length > 0 ? `, best ${short(values[values.length - 1])} in trial ${trials[trials.length - 1]}` : "";
    canvas.setAttribute("aria-label", `${metric} of the trials in their order${best}`);
    note.textContent = plot.note;
  } catch (error) {
    note.textContent = error instanceof Error ? error.message : String(error);
  }
}

/** Trials of the last drawing; `undefined` before the first. @type {Set<number> | undefined} */
let drawnTrials;

/** Marks the results that arrived since the last drawing. @param {HTMLElement} canvas @param {import("./sketch.js").Place} place @param {any} points */
function showNew(canvas, place, points) {
  const drawing = canvas.querySelector("svg");
  points.trials.forEach((/** @type {number} */ trial, /** @type {number} */ index) => {
    const [x, y] = [place.x(points.x[index]), place.y(points.y[index])];
    if (!drawnTrials || drawnTrials.has(trial) || !Number.isFinite(x + y)) return;
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    for (const [name, value] of Object.entries({ class: "arrived", cx: x.toFixed(1), cy: y.toFixed(1), r: 5 })) mark.setAttribute(name, String(value));
    drawing?.append(mark);
  });
  drawnTrials = new Set(points.trials);
}

async function drawImportance() {
  const { canvas, note } = parts("importance");
  if (!("hasModel" in drawable())) {
    note.textContent = "Known after a few more results.";
    return;
  }
  try {
    const { view } = await read(study, "importance", { metric });
    const bars = view.parameters.slice(0, MOST_BARS);
    canvas.replaceChildren(...bars.flatMap(barOf));
    const rest = view.parameters.length - bars.length;
    note.textContent = `of a model of ${counted(view.modelled, "trial")}${rest > 0 ? `; ${rest} more parameters in Explore` : ""}`;
  } catch (error) {
    canvas.replaceChildren();
    note.textContent = error instanceof Error ? `Not known yet: ${error.message}` : String(error);
  }
}

/** The name, the bar and the share of a parameter. @param {any} bar */
function barOf({ parameter, total, totalRange: [low, high] }) {
  const [name, track, fill, share] = ["span", "span", "span", "span"].map((tag) => document.createElement(tag));
  name.textContent = parameter;
  name.title = parameter;
  name.className = "name";
  track.className = "track";
  fill.style.width = `${(100 * total).toFixed(1)}%`;
  track.append(fill);
  const percent = (/** @type {number} */ part) => `${Math.round(100 * part)}%`;
  share.className = "right";
  share.textContent = percent(total);
  share.title = `${percent(low)} to ${percent(high)}`;
  return [name, track, share];
}

/** Texts of the parameters of a trial, by form. @type {Record<string, (values: Record<string, any>) => string>} */
const FORMS = {
  flags: (values) => entries(values).map(([name, value]) => shellWord(`--${name}=${value}`)).join(" "),
  YAML: (values) => entries(values).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}\n`).join(""),
  JSON: (values) => JSON.stringify(Object.fromEntries(entries(values)), null, 2),
  Python: (values) => `{${entries(values).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(", ")}}`,
};

/** The parameters that the trial has, in the order of the configuration. @param {Record<string, any>} values */
function entries(values) {
  return parameters.filter((name) => values[name] !== undefined && values[name] !== null).map((name) => [name, values[name]]);
}

async function showLeaders() {
  const section = /** @type {HTMLElement} */ (document.getElementById("leaders"));
  const { view } = await read(study, "table", leaders(metric, direction));
  const trials = view.rows.filter((/** @type {any} */ trial) => Number.isFinite(trial.metrics[metric]));
  const head = document.createElement("tr");
  head.append(...["Trial", metric, "Copy", ...columns].map((text, index) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    if (index !== 2) cell.className = "right";
    cell.textContent = text;
    return cell;
  }));
  section.querySelector("thead")?.replaceChildren(head);
  section.querySelector("tbody")?.replaceChildren(...trials.map(leaderRow));
  section.hidden = trials.length === 0;
}

/** @param {any} trial */
function leaderRow(trial) {
  const row = tableRow([trial.id, trial.metrics[metric], "", ...columns.map((name) => trial.parameters[name])]);
  const link = document.createElement("a");
  link.href = `${location.pathname}/trials/${trial.id}`;
  link.textContent = String(trial.id);
  row.cells[0].replaceChildren(link);
  // JavaScript rounds larger integers. The page of the trial has them exactly.
  const isExact = entries(trial.parameters).every(([, value]) => !Number.isInteger(value) || Number.isSafeInteger(value));
  const buttons = Object.entries(isExact ? FORMS : {}).map(([form, text]) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: form });
    button.setAttribute("aria-label", `Copy the parameters of trial ${trial.id} as ${form}`);
    button.addEventListener("click", async () => {
      await copyText(text(trial.parameters));
      confirmCopy(button);
    });
    return button;
  });
  row.cells[2].className = "copies";
  row.cells[2].replaceChildren(...buttons);
  return row;
}

let isDrawing = false;
let isDue = false;

async function draw() {
  if (isDrawing) {
    isDue = true;
    return;
  }
  if (!(Number(drawable().results) > 0)) return;
  isDrawing = true;
  root.hidden = false;
  await Promise.allSettled([drawHistory(), showLeaders()]);
  await drawImportance();
  root.dataset.drawn = "true";
  setTimeout(() => {
    isDrawing = false;
    if (isDue) void draw();
    isDue = false;
  }, PAUSE);
}

void draw();
onLookChange(() => void drawHistory());
addEventListener("resize", () => void drawHistory());
// The figures follow the text, which changes with the trials.
const text = document.querySelector('[data-live="summary"]');
if (text) new MutationObserver(() => void draw()).observe(text, { childList: true });
