// @ts-check
// A report: the plots of one study, drawn from the views that are part of the page. It sends no requests.
import { bestRows, clearPlot, drawPlot, offerSaving, onLookChange } from "./figure.js";
import { parallelCoordinates } from "./parallel.js";
import { colours as coloursOfPage } from "./plot_parts.js";
import * as plots from "./plots.js";
import { scaled } from "./scales.js";
import { useThemeSwitch } from "./theme.js";
import { showLocalTimes } from "./times.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {{view?: any, error?: string}} Answer What the server answered for a view when the page was written.
 * @typedef {{name: string, metrics: number, goals: Record<string, boolean>, parameters: string[], views: Record<string, Answer>}} Report
 */

/** The functions that draw, by the name of the plot. @type {Record<string, any>} */
const drawings = { ...plots, parallelCoordinates };

/** @type {Report} */
const report = JSON.parse(document.getElementById("data")?.textContent ?? "{}");
const figures = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("figure[data-plot]")]);
const choices = /** @type {HTMLSelectElement[]} */ ([...document.querySelectorAll("select[name]")]);
/** @type {Map<HTMLElement, Plot>} */
const shown = new Map();

/** The index of what is chosen. @param {string} name */
function chosen(name) {
  return choices.find((choice) => choice.name === name)?.selectedIndex ?? 0;
}

/** The name of the view of a figure in the data of the page. @param {string} view */
function keyOf(view) {
  const metric = chosen("metric");
  if (view === "slice") return [view, metric, chosen("parameter")].join(" ");
  if (view === "contour" || view === "rank") return [view, metric, chosen("x"), chosen("y")].join(" ");
  if (view === "paretoFront") return [view, chosen("mx"), chosen("my")].join(" ");
  return view === "timeline" ? view : [view, metric].join(" ");
}

/** @param {HTMLElement} figure */
async function draw(figure) {
  const name = figure.dataset.plot ?? "";
  const canvas = /** @type {HTMLElement} */ (figure.querySelector(".canvas"));
  const note = /** @type {HTMLElement} */ (figure.querySelector(".note"));
  const answer = report.views[keyOf(figure.dataset.view ?? "")] ?? { error: "Choose two different axes." };
  if (name === "trust") showBest(answer.view?.best ?? []);
  if (answer.error !== undefined) {
    clearPlot(canvas);
    shown.delete(figure);
    note.textContent = answer.error;
  } else {
    const colours = coloursOfPage();
    if (name === "parallelCoordinates") answer.view.metrics = report.metrics;
    answer.view.isMaximized ??= report.goals[answer.view.metric?.name ?? Object.keys(report.goals)[chosen("metric")]];
    answer.view.goals = report.goals;
    const plot = scaled(figure, /** @type {Plot} */ (drawings[name](answer.view, colours, figure.dataset)), () => void draw(figure));
    shown.set(figure, plot);
    note.textContent = plot.note;
    await drawPlot(canvas, plot, colours, false);
  }
  figure.dataset.drawn = keyOf(figure.dataset.view ?? "");
}

/** Shows the best points of the model. @param {any[]} points */
function showBest(points) {
  const section = document.getElementById("best-points");
  if (section) section.hidden = points.length === 0;
  document.querySelector("#best tbody")?.replaceChildren(...bestRows(points, report.parameters));
}

/** Draws the figures one after the other, so that the first ones appear early. */
async function drawAll() {
  for (const figure of figures) await draw(figure);
}

for (const choice of choices) {
  choice.selectedIndex = Number(choice.dataset.first ?? 0);
  choice.addEventListener("change", () => void drawAll());
}
for (const figure of figures) offerSaving(figure, report.name, () => shown.get(figure));
onLookChange(() => void drawAll());
showLocalTimes(document);
useThemeSwitch();
void drawAll();
