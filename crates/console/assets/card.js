// @ts-check
// The card of the trial under the pointer: its state, metrics and parameters. A click opens the trial.
import { short } from "./plot_parts.js";

/** Number of parameters on a card. */
const MOST = 14;

/** Trials that are kept. */
const KEPT = 200;

/**
 * Shows cards of the trials of a plot.
 * @param {HTMLElement} figure
 * @param {any} canvas with a plot of plotly.js
 * @param {{read: (trial: number) => Promise<any>, address: (trial: number) => string}} trials
 */
export function useCards(figure, canvas, trials) {
  const card = document.createElement("div");
  card.className = "card";
  card.hidden = true;
  // A pointer is needed to see it; the table has the same for everyone.
  card.setAttribute("aria-hidden", "true");
  figure.append(card);
  let wanted = 0;
  canvas.on("plotly_hover", async (/** @type {any} */ event) => {
    const trial = trialOf(event);
    if (trial === undefined) return;
    wanted = trial;
    canvas.classList.add("over-trial");
    const row = await trials.read(trial).catch(() => undefined);
    if (wanted !== trial || !row) return;
    fill(card, row);
    card.hidden = false;
    place(card, figure, event.event);
  });
  canvas.on("plotly_unhover", () => {
    wanted = 0;
    card.hidden = true;
    canvas.classList.remove("over-trial");
  });
  canvas.on("plotly_click", (/** @type {any} */ event) => {
    const trial = trialOf(event);
    if (trial !== undefined) location.assign(trials.address(trial));
  });
}

/** The trial of the point under the pointer. @param {any} event @returns {number | undefined} */
function trialOf(event) {
  const point = event?.points?.find((/** @type {any} */ one) => one.data?.meta === "trials");
  const trial = point?.customdata;
  return Number.isInteger(trial) ? trial : undefined;
}

/** @param {HTMLElement} card @param {any} row */
function fill(card, row) {
  const title = Object.assign(document.createElement("strong"), { textContent: `Trial ${row.id}` });
  const state = row.stoppedEarly ? "stopped early" : row.state.toLowerCase();
  const list = document.createElement("dl");
  const line = (/** @type {string} */ name, /** @type {unknown} */ value, /** @type {string} */ kind) => {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    text.textContent = typeof value === "number" ? short(value) : String(value);
    text.className = kind;
    return [term, text];
  };
  const parameters = Object.entries(row.parameters);
  list.append(...Object.entries({ ...row.metrics, ...row.constraints }).flatMap(([name, value]) => line(name, value, "strong")));
  list.append(...parameters.slice(0, MOST).flatMap(([name, value]) => line(name, value, "")));
  const rest = parameters.length - MOST;
  const note = document.createElement("span");
  note.className = "quiet";
  note.textContent = `${rest > 0 ? `and ${rest} more; ` : ""}click to open the trial`;
  if (row.note) list.append(...line("Note", row.note, ""));
  card.replaceChildren(title, Object.assign(document.createElement("span"), { className: "quiet", textContent: ` ${state}` }), list, note);
}

/** Places the card beside the pointer, on the side with more room. @param {HTMLElement} card @param {HTMLElement} figure @param {MouseEvent} pointer */
function place(card, figure, pointer) {
  const box = figure.getBoundingClientRect();
  const [x, y] = [pointer.clientX - box.left, pointer.clientY - box.top];
  const isRight = x > box.width / 2;
  const left = isRight ? x - card.offsetWidth - 14 : x + 14;
  card.style.left = `${Math.max(4, Math.min(left, box.width - card.offsetWidth - 4))}px`;
  card.style.top = `${Math.max(4, Math.min(y - card.offsetHeight / 2, box.height - card.offsetHeight - 4))}px`;
}

/**
 * Reads trials, each once.
 * @param {(trial: number) => Promise<any>} read
 */
export function remembered(read) {
  /** @type {Map<number, Promise<any>>} */
  const known = new Map();
  return (/** @type {number} */ trial) => {
    const reading = known.get(trial) ?? read(trial);
    if (known.size >= KEPT) known.clear();
    known.set(trial, reading);
    reading.catch(() => known.delete(trial));
    return reading;
  };
}
