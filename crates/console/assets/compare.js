// @ts-check
// The page Compare: the views of several studies in one plot each.
import { clearPlot, drawPlot, offerSaving, onLookChange } from "./figure.js";
import { colours as coloursOfPage } from "./plot_parts.js";
import * as plots from "./compared.js";
import { read, ViewError } from "./views.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./compared.js").Entry} Entry
 * @typedef {{name: string, study: string}} Study
 */

/** Approximate number of points of each study in a plot. */
const POINTS = "400";

/** Milliseconds between two looks for changes. */
const POLL_INTERVAL = 5000;

const root = /** @type {HTMLElement} */ (document.getElementById("compare"));
/** @type {Study[]} */
const studies = JSON.parse(root.dataset.studies ?? "[]");
const figures = /** @type {HTMLElement[]} */ ([...root.querySelectorAll("figure[data-plot]")]);
/** @type {Map<HTMLElement, Entry[]>} */
const answers = new Map();
/** @type {Map<HTMLElement, Plot>} */
const shown = new Map();

/** The view `name` of a study. @param {Study} study @param {string} name */
async function entryOf(study, name) {
  try {
    const { total, revision, view } = await read(study.study, name, { points: POINTS });
    return { name: study.name, total, revision, view };
  } catch (error) {
    throw error instanceof ViewError ? new ViewError(`${study.name}: ${error.message}`) : error;
  }
}

/** Loads what a figure shows, and draws it if it differs. @param {HTMLElement} figure */
async function load(figure) {
  const note = /** @type {HTMLElement} */ (figure.querySelector(".note"));
  try {
    const found = await Promise.all(studies.map((study) => entryOf(study, figure.dataset.view ?? "")));
    const revisions = (/** @type {Entry[] | undefined} */ entries) => entries?.map((entry) => entry.revision).join();
    if (revisions(found) === revisions(answers.get(figure))) return;
    answers.set(figure, found);
    await draw(figure);
  } catch (error) {
    answers.delete(figure);
    shown.delete(figure);
    clearPlot(/** @type {HTMLElement} */ (figure.querySelector(".canvas")));
    note.textContent = error instanceof TypeError ? "the server cannot be reached" : String(/** @type {Error} */ (error).message);
  }
}

/** @param {HTMLElement} figure */
async function draw(figure) {
  const entries = answers.get(figure);
  if (!entries) return;
  const colours = coloursOfPage();
  const drawing = figure.dataset.plot === "bestSoFar" ? plots.bestSoFar : plots.distributions;
  const plot = drawing(entries, colours);
  shown.set(figure, plot);
  /** @type {HTMLElement} */ (figure.querySelector(".note")).textContent = plot.note;
  await drawPlot(/** @type {HTMLElement} */ (figure.querySelector(".canvas")), plot, colours, false);
  figure.dataset.drawn = "true";
}

const loadAll = () => Promise.all(figures.map(load));

for (const figure of figures) offerSaving(figure, "compare", () => shown.get(figure));
onLookChange(() => figures.forEach((figure) => void draw(figure)));
setInterval(() => {
  if (!document.hidden) void loadAll();
}, POLL_INTERVAL);
void loadAll();
