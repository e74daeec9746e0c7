// @ts-check
// Handles that move the axes of parallel coordinates: dragged, or with the arrow keys.
import { axisKey } from "./parallel.js";

/** Free space at each side of the plot in pixels, and of the axes at its left in their distances, as `parallelCoordinates` has them. */
const [MARGIN, START] = [10, 0.4];

/**
 * Shows a handle over the name of each axis of `plot`.
 * @param {HTMLElement} figure
 * @param {import("./plot_parts.js").Plot} plot
 * @param {() => void} redraw
 */
export function offerOrder(figure, plot, redraw) {
  const lines = plot.lines ?? [];
  const keys = lines.map(({ brush }) => axisKey(brush));
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.axis : undefined;
  const list = document.createElement("div");
  list.className = "axes";
  const canvas = figure.querySelector(".canvas");
  if (canvas instanceof HTMLElement) list.style.top = `${canvas.offsetTop}px`;
  const mark = document.createElement("span");
  mark.hidden = true;
  const move = (/** @type {number} */ from, /** @type {number} */ to) => {
    if (to < 0 || to >= keys.length || to === from) return;
    const order = keys.filter((_, at) => at !== from);
    order.splice(to, 0, keys[from]);
    figure.dataset.order = JSON.stringify(order);
    redraw();
  };
  const left = (/** @type {number} */ at) => `${((at + START) / lines.length) * 100}%`;
  const handles = lines.map(({ brush }, at) => {
    const handle = document.createElement("button");
    handle.type = "button";
    handle.dataset.axis = keys[at];
    handle.style.left = left(at);
    handle.style.width = `${100 / lines.length}%`;
    handle.title = `${brush.axis.name}: drag to move the axis`;
    handle.setAttribute("aria-label", `Axis ${brush.axis.name}, ${at + 1} of ${lines.length}: move it with the arrow keys`);
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(at, at + step);
    });
    const target = (/** @type {PointerEvent} */ event) => {
      const box = list.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * lines.length - START;
      return Math.min(lines.length - 1, Math.max(0, Math.round(place)));
    };
    handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      mark.hidden = false;
      mark.style.left = left(target(event));
    });
    handle.addEventListener("pointerup", (event) => {
      mark.hidden = true;
      move(at, target(event));
    });
    return handle;
  });
  list.style.insetInline = `${MARGIN}px`;
  list.append(...handles, mark);
  figure.querySelector(".axes")?.remove();
  figure.append(list);
  handles.find((handle) => handle.dataset.axis === focused)?.focus();
}
