// @ts-check
// The curves of a trial: the values of all metrics at the step under the pointer.
import { short } from "./plot_parts.js";

const SVG = "http://www.w3.org/2000/svg";

/** Width and height of a drawing in its own units. */
const [WIDTH, HEIGHT] = [560, 150];

/** @param {HTMLElement} figure @returns {{x: number, y: number, step: string, value: number}[]} the points of a curve */
function pointsOf(figure) {
  const words = (/** @type {string | null | undefined} */ text) => (text ?? "").trim().split(" ");
  const [steps, values] = [words(figure.dataset.steps), words(figure.dataset.values)];
  return words(figure.querySelector("polyline")?.getAttribute("points")).map((place, index) => {
    const [x, y] = place.split(",").map(Number);
    return { x, y, step: steps[index], value: Number(values[index]) };
  });
}

/** Shows the point of a curve that is next to `x`. @param {HTMLElement} figure @param {number} x */
function show(figure, x) {
  const points = pointsOf(figure);
  const nearest = points.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best));
  const line = (/** @type {string} */ name, /** @type {string} */ d) => {
    const path = document.createElementNS(SVG, "path");
    for (const [key, value] of Object.entries({ class: name, d, "vector-effect": "non-scaling-stroke" })) path.setAttribute(key, value);
    return path;
  };
  hide(figure);
  // A line without a length and with round ends is a point.
  figure.querySelector(".drawing")?.append(line("at", `M${nearest.x} 0V${HEIGHT}`), line("at point", `M${nearest.x} ${nearest.y}h0`));
  const text = figure.querySelector("output");
  if (text) text.textContent = `${Number(nearest.step).toLocaleString("en")}: ${short(nearest.value)}`;
}

/** @param {HTMLElement} figure */
function hide(figure) {
  figure.querySelectorAll(".at").forEach((mark) => mark.remove());
  const text = figure.querySelector("output");
  if (text) text.textContent = "";
}

/** @returns {HTMLElement[]} */
function figures() {
  return [...document.querySelectorAll("figure.curve")].filter((figure) => figure instanceof HTMLElement);
}

/** Place under the pointer, in units of a drawing. @type {number | undefined} */
let pointed;

function showPointed() {
  figures().forEach((figure) => (pointed === undefined ? hide(figure) : show(figure, pointed)));
}

// On the document: the figures are replaced while the trial runs.
for (const name of /** @type {const} */ (["pointermove", "pointerdown"])) {
  document.addEventListener(name, (event) => {
    const drawing = event.target instanceof Element ? event.target.closest("figure.curve .drawing") : null;
    const box = drawing?.getBoundingClientRect();
    pointed = box && ((event.clientX - box.left) / box.width) * WIDTH;
    showPointed();
  });
}
document.addEventListener("refreshed", showPointed);
