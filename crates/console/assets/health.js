// The prediction of the model of the search at the best result, the noise of the metric, and the influence of source studies,
// which the server computes on demand.

import { short } from "./plot_parts.js";
import { answered } from "./views.js";

/**
 * @typedef {{observed: number | null, predicted: number, lower: number, upper: number, trial: number | null}} Prediction
 * @typedef {{best: Prediction[], noiseToSignal: number, modelled: number,
 *   suspicious: {trial: number, value: number, ranges: number}[]}} Trust
 * @typedef {{study: string, ownTrials: number, share: number, description: string}} Source
 */

/** Ratios of noise to signal from which on noise matters, and from which on it hides the effects of the parameters. */
const SOME_NOISE = 0.25;
const MUCH_NOISE = 1;

/**
 * @param {number} value
 * @returns {HTMLElement} the rounded number with the exact one as its title
 */
function number(value) {
  const span = document.createElement("span");
  span.className = "number";
  span.title = String(value);
  span.textContent = short(value, 4);
  return span;
}

/**
 * @param {string} kind
 * @param {string} name
 * @param {(string | Node)[]} text
 * @returns {HTMLElement}
 */
function finding(kind, name, text) {
  const item = document.createElement("li");
  const badge = document.createElement("span");
  badge.className = `badge ${kind}`;
  badge.textContent = name;
  const body = document.createElement("div");
  body.append(...text);
  item.append(badge, body);
  return item;
}

/**
 * @param {Trust} trust
 * @returns {HTMLElement[]}
 */
function findings({ best: [best], noiseToSignal, modelled, suspicious }) {
  const items = suspicious.map(({ trial, value, ranges }) => finding("is-bad", "Wrong?", [
    `Trial ${trial} reports `, number(value), ": better than all others by ", number(ranges), " times their range. ",
    "The search ignores it until a trial nearby confirms it. Check the log of the trial, and how the program computes the metric.",
  ]));
  if (best) {
    const text = ["The model expects ", number(best.predicted), " at the point of the best result, with a 95% band from ",
      number(best.lower), " to ", number(best.upper), `. It was fitted to ${modelled} trials.`];
    items.push(finding("is-waiting", "Best", text));
  }
  const ratio = ["noise / signal ", number(noiseToSignal), ": "];
  if (noiseToSignal >= MUCH_NOISE) {
    ratio.push("noise hides the effects of the parameters. Repeat trials with other seeds, or report a mean of several runs.");
    items.push(finding("is-bad", "Noise", ratio));
  } else if (noiseToSignal >= SOME_NOISE) {
    ratio.push("the order of good results is partly chance. Repeat the best ones.");
    items.push(finding("is-ending", "Noise", ratio));
  } else {
    ratio.push("the results depend on the parameters more than on chance.");
    items.push(finding("is-good", "Noise", ratio));
  }
  return items;
}

/**
 * @param {Source[]} sources
 * @returns {HTMLElement[]}
 */
function sourceFindings(sources) {
  const isUsed = (/** @type {Source} */ source) => source.ownTrials > 0 || source.share > 0;
  return sources.map((source) => finding(isUsed(source) ? "is-good" : "is-waiting", source.study, [`${source.description}.`]));
}

/**
 * Fills a list with findings from the view at its URL.
 * @param {string} name
 * @param {(answer: any) => HTMLElement[]} toFindings
 */
async function fill(name, toFindings) {
  const list = document.getElementById(name);
  if (!list?.dataset.url) return;
  const note = document.getElementById(`${name}-note`);
  try {
    const response = await fetch(list.dataset.url);
    const answer = await response.json();
    if (response.ok) {
      list.replaceChildren(...toFindings(answer));
      note?.remove();
    } else if (note) note.textContent = `There is no model yet: ${answer.error?.message ?? response.status}`;
  } catch {
    if (note) note.textContent = "The model could not be loaded; load the page again.";
  }
}

// A model takes a processor for seconds: results come first.
await answered();
await Promise.all([
  fill("model", (answer) => findings(answer.view)),
  fill("sources", (answer) => sourceFindings(answer.sources)),
]);
