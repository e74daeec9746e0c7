// @ts-check
// The page Explore: plots and a table of the trials that the filter in the address selects. A brushed plot changes the filter.
import { offerOrder } from "./axes.js";
import { remembered, useCards } from "./card.js";
import { showChips } from "./chips.js";
import { bestRows, clearPlot, drawPlot, hasLibrary, library, offerSaving, onLookChange, tableRow } from "./figure.js";
import { fieldOf, levelsOf, rangeOf, withRestrictions } from "./filters.js";
import { parallelCoordinates, valueOnLine } from "./parallel.js";
import { colours as coloursOfPage } from "./plot_parts.js";
import * as plots from "./plots.js";
import { scaled } from "./scales.js";
import { PAGE, parametersOf, parametersOfTable, selected } from "./selection.js";
import { sketch } from "./sketch.js";
import { read, ViewError } from "./views.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./plot_parts.js").Brush} Brush
 * @typedef {import("./selection.js").Space} Space
 */

/** The functions that draw, by the name of the plot. @type {Record<string, any>} */
const drawings = { ...plots, parallelCoordinates };

/** Selections of the address besides the filter. */
const CHOICES = ["metric", "parameter", "x", "y", "mx", "my"];

/** Milliseconds between two looks for changes. */
const POLL_INTERVAL = 5000;

/** Milliseconds for which plots and trials that come first are awaited before plotly.js is run, which halts the page. */
const LONGEST_SKETCHING = 1000;

const root = /** @type {HTMLElement} */ (document.getElementById("explore"));
const study = root.dataset.study ?? "";
/** @type {Space} */
const space = JSON.parse(root.dataset.space ?? "{}");
const form = /** @type {HTMLFormElement} */ (document.getElementById("selection"));
const input = /** @type {HTMLInputElement} */ (form.elements.namedItem("filter"));
const problem = /** @type {HTMLElement} */ (document.getElementById("filter-problem"));
const matched = /** @type {HTMLElement} */ (document.getElementById("matched"));
const figures = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("figure[data-plot]")]);

/** What is shown: counts up with every change of the selection, so that late answers are not shown. */
let version = 0;
let revision = "";
let offset = 0;
/** @type {Map<HTMLElement, Plot>} */
const shown = new Map();
/** Figures that were seen since the selection changed. @type {Set<HTMLElement>} */
const visible = new Set();
/** @type {Map<HTMLElement, number>} */
const drawn = new Map();
/** The requests for what the page shows first. @type {Set<Promise<unknown>>} */
const first = new Set();

/**
 * Draws what the window shows, and then the figures near it: drawing halts the page, and what a visitor looks at comes first.
 * @param {Iterable<HTMLElement>} figures
 * @param {Promise<unknown>[]} before What is shown before the figures near the window as well.
 */
async function drawAll(figures, before = []) {
  const wanted = version;
  const near = [];
  const seen = [...before];
  for (const figure of figures) {
    const { top, bottom } = figure.getBoundingClientRect();
    if (top < innerHeight && bottom > 0) seen.push(draw(figure));
    else near.push(figure);
  }
  await Promise.allSettled(seen);
  // A later selection draws them anew.
  for (const figure of near) if (wanted === version && visible.has(figure)) await draw(figure);
}

/** @param {HTMLElement} figure */
async function draw(figure) {
  const name = figure.dataset.plot ?? "";
  const wanted = version;
  const view = figure.dataset.view ?? "";
  if (drawn.get(figure) === wanted) return;
  drawn.set(figure, wanted);
  const canvas = /** @type {HTMLElement} */ (figure.querySelector(".canvas"));
  const note = /** @type {HTMLElement} */ (figure.querySelector(".note"));
  canvas.setAttribute("aria-busy", "true");
  try {
    const reading = read(study, view, parametersOf(view));
    if (!hasLibrary()) first.add(reading);
    const answer = await reading;
    if (wanted !== version) return;
    const colours = coloursOfPage();
    const plot = scaled(figure, withoutLabels(drawings[name](completed(name, answer.view), colours, figure.dataset)), () => redraw(figure));
    shown.set(figure, plot);
    if (name === "trust") showBest(answer.view.best);
    note.textContent = plot.note;
    if (!hasLibrary()) {
      sketch(canvas, plot, colours);
      figure.dataset.sketched = String(wanted);
      await Promise.race([Promise.allSettled(first), new Promise((resolve) => setTimeout(resolve, LONGEST_SKETCHING))]);
      await library();
      if (wanted !== version) return;
    }
    await drawPlot(canvas, plot, colours, Boolean(plot.x || plot.y || plot.lines));
    listen(figure, canvas);
    if (plot.lines) offerOrder(figure, plot, () => redraw(figure));
    figure.dataset.drawn = String(wanted);
  } catch (error) {
    if (wanted !== version) return;
    clearPlot(canvas);
    shown.delete(figure);
    note.textContent = error instanceof ViewError ? error.message : "the server cannot be reached; the plot is drawn at the next change";
    figure.dataset.drawn = String(wanted);
  } finally {
    canvas.removeAttribute("aria-busy");
  }
}

/** A view with what its plot needs to know about the study. @param {string} name @param {any} view */
function completed(name, view) {
  if (name === "parallelCoordinates") view.metrics = space.metrics.length;
  const metric = view.metric?.name ?? (selected("metric") || space.metrics[0]?.name);
  view.isMaximized ??= space.metrics.find((known) => known.name === metric)?.isMaximized;
  view.goals = Object.fromEntries(space.metrics.map((known) => [known.name, known.isMaximized]));
  return view;
}

/** A plot without labels under the pointer for trials, which have cards. @param {Plot} plot */
function withoutLabels(plot) {
  const traces = /** @type {any[]} */ (plot.traces);
  return { ...plot, traces: traces.map((trace) => (trace.meta === "trials" ? { ...trace, hovertemplate: undefined, hoverinfo: "none" } : trace)) };
}

/** Draws a figure again, in other scales. @param {HTMLElement} figure */
function redraw(figure) {
  drawn.delete(figure);
  void draw(figure);
}

/** The address of the page of a trial. @param {number} trial */
function addressOf(trial) {
  return `${location.pathname.replace(/\/(explore|trust)$/, "")}/trials/${trial}`;
}

const trialOf = remembered(async (trial) => {
  const { view } = await read(study, "table", { filter: `id = ${trial}`, limit: "1" });
  return view.rows[0];
});

/** @param {HTMLElement} figure @param {any} canvas */
function listen(figure, canvas) {
  if (canvas.dataset.listens) return;
  canvas.dataset.listens = "true";
  useCards(figure, canvas, { read: trialOf, address: addressOf });
  canvas.on("plotly_selected", (/** @type {any} */ event) => {
    const plot = shown.get(figure);
    if (plot && event?.range) brushed(plot, event.range);
  });
}

/**
 * Changes the filter to what was brushed.
 * @param {Plot} plot
 * @param {{x: number[], y: number[]}} range
 */
function brushed(plot, range) {
  let filter = selected("filter");
  const ordered = (/** @type {number[]} */ ends) => /** @type {[number, number]} */ ([Math.min(...ends), Math.max(...ends)]);
  const [x, y] = [ordered(range.x.map(Number)), ordered(range.y.map(Number))];
  if (plot.lines) {
    plot.lines.forEach((line, at) => {
      if (x[0] > at || at > x[1]) return;
      const ends = /** @type {[number, number]} */ (y.map((share) => valueOnLine(line, Math.min(1, Math.max(0, share)))));
      filter = restricted(filter, line.brush, ends);
    });
  } else {
    if (plot.x) filter = restricted(filter, plot.x, x);
    if (plot.y) filter = restricted(filter, plot.y, y);
  }
  go({ filter });
}

/** @param {string} filter @param {Brush} brush @param {[number, number]} range */
function restricted(filter, { root: kind, axis }, range) {
  const field = kind === "id" ? "id" : fieldOf(kind, axis.name);
  if (axis.kind !== "LEVEL") return withRestrictions(filter, field, rangeOf(field, range, axis.kind === "INTEGER"));
  const levels = (axis.levels ?? []).filter((_, index) => range[0] <= index && index <= range[1]);
  return withRestrictions(filter, field, levels.length > 0 ? levelsOf(field, levels) : []);
}

/** Changes the address, and shows what it selects. @param {Record<string, string>} changes */
function go(changes) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  if (address.href !== location.href) window.history.pushState(null, "", address);
  show();
}

/** Shows what the address selects. */
function show() {
  version += 1;
  offset = 0;
  delete root.dataset.shown;
  input.value = selected("filter");
  showChips(form);
  for (const name of CHOICES) {
    const choice = form.ownerDocument.querySelector(`select[name="${name}"]`);
    if (choice instanceof HTMLSelectElement) choice.value = selected(name) || (choice.options[Number(choice.dataset.first ?? 0)]?.value ?? "");
  }
  const shownTable = table();
  if (!hasLibrary()) first.add(shownTable);
  void drawAll(visible, [shownTable]);
}

async function table() {
  const wanted = version;
  const body = /** @type {HTMLElement} */ (document.querySelector("#matches tbody"));
  try {
    const answer = await read(study, "table", parametersOfTable(space, offset));
    if (wanted !== version) return;
    problem.textContent = "";
    delete root.dataset.problem;
    input.removeAttribute("aria-invalid");
    revision = answer.revision;
    matched.textContent = `${answer.matched.toLocaleString("en")} of ${answer.total.toLocaleString("en")} trials`;
    body.replaceChildren(...answer.view.rows.map(rowOf));
    const next = /** @type {HTMLButtonElement} */ (document.getElementById("next"));
    const previous = /** @type {HTMLButtonElement} */ (document.getElementById("previous"));
    next.disabled = offset + PAGE >= answer.matched;
    previous.disabled = offset === 0;
    root.dataset.shown = String(wanted);
  } catch (error) {
    if (wanted !== version) return;
    problem.textContent = error instanceof ViewError ? error.message : "the server cannot be reached";
    root.dataset.problem = "true";
    input.setAttribute("aria-invalid", "true");
    body.replaceChildren();
    matched.textContent = "";
    root.dataset.shown = String(wanted);
  }
}

/** @param {any} trial */
function rowOf(trial) {
  const results = space.metrics.map(({ name }) => trial.metrics[name]);
  const state = trial.state.charAt(0) + trial.state.slice(1).toLowerCase();
  const row = tableRow([trial.id, state, ...results, ...space.parameters.map(({ name }) => trial.parameters[name])]);
  const link = Object.assign(document.createElement("a"), { href: addressOf(trial.id), textContent: String(trial.id) });
  row.cells[0].replaceChildren(link);
  row.cells[1].className = "";
  return row;
}

/** Shows the best points of the model. @param {any[]} points */
function showBest(points) {
  document.querySelector("#best tbody")?.replaceChildren(...bestRows(points, space.parameters.map(({ name }) => name)));
}

for (const figure of figures) offerSaving(figure, root.dataset.name ?? "", () => shown.get(figure));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  go({ filter: input.value.trim() });
});
document.getElementById("clear")?.addEventListener("click", () => go({ filter: "" }));
document.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement && CHOICES.includes(event.target.name)) go({ [event.target.name]: event.target.value });
});
document.getElementById("next")?.addEventListener("click", () => {
  offset += PAGE;
  void table();
});
document.getElementById("previous")?.addEventListener("click", () => {
  offset = Math.max(0, offset - PAGE);
  void table();
});
window.addEventListener("popstate", show);

// A plot is drawn when it is seen for the first time.
const seen = new IntersectionObserver((entries) => {
  const shown = [];
  for (const entry of entries) {
    const figure = /** @type {HTMLElement} */ (entry.target);
    if (entry.isIntersecting) {
      visible.add(figure);
      shown.push(figure);
    } else visible.delete(figure);
  }
  void drawAll(shown);
}, { rootMargin: "200px" });
figures.forEach((figure) => seen.observe(figure));

// The colours of plots follow the theme, their names the width of the window.
onLookChange(() => {
  drawn.clear();
  void drawAll(visible);
});

setInterval(async () => {
  if (document.hidden || revision === "") return;
  try {
    const answer = await read(study, "table", { filter: selected("filter"), limit: "1" });
    if (answer.revision === revision) return;
    revision = answer.revision;
    drawn.clear();
    void drawAll(visible, [table()]);
  } catch {
    // The next look may succeed.
  }
}, POLL_INTERVAL);

show();
