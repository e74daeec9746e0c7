// @ts-check
// What all pages with plots have in common: drawing a plot, saving it, the colours of the theme, rows of tables.
import { NARROW, short } from "./plot_parts.js";

/**
 * @typedef {import("./plot_parts.js").Plot} Plot
 * @typedef {import("./plot_parts.js").Colours} Colours
 */

/** @type {Promise<any> | undefined} */
let loading;

/** Whether plotly.js is loaded. */
export function hasLibrary() {
  return "Plotly" in window;
}

/**
 * plotly.js, which a page preloads. It is run after what the page shows by now has been painted: that takes a second on a slow
 * machine, and nothing is painted meanwhile.
 */
export function library() {
  loading ??= hasLibrary() ? Promise.resolve(/** @type {any} */ (window).Plotly) : load();
  return loading;
}

async function load() {
  const preload = /** @type {HTMLLinkElement | null} */ (document.querySelector("link[rel=preload][as=script]"));
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  const script = document.createElement("script");
  script.src = preload?.href ?? "";
  const loaded = new Promise((resolve, reject) => {
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new TypeError("plotly.js cannot be loaded")));
  });
  document.head.append(script);
  try {
    await loaded;
  } catch (error) {
    // The next plot tries again.
    loading = undefined;
    throw error;
  }
  return /** @type {any} */ (window).Plotly;
}

/**
 * Draws a plot, in place of the one that the canvas shows.
 * @param {HTMLElement} canvas
 * @param {Plot} plot
 * @param {Colours} colours
 * @param {boolean} canSelect Whether dragging selects a range; otherwise it magnifies.
 */
export async function drawPlot(canvas, plot, colours, canSelect) {
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colours.text, family: getComputedStyle(document.body).fontFamily, size: 12 },
    margin: { l: 64, r: 12, t: 10, b: 44 },
    showlegend: false,
    hovermode: "closest",
    dragmode: canSelect ? "select" : "zoom",
    newselection: { line: { color: colours.text, dash: "dot", width: 1 } },
    ...plot.layout,
  };
  const plotly = await library();
  canvas.querySelector(":scope > .sketch")?.remove();
  canvas.style.height = plot.height ? `${plot.height}px` : "";
  await plotly.react(canvas, plot.traces, layout, {
    responsive: true,
    displaylogo: false,
    // It would cover data and labels.
    displayModeBar: false,
  });
}

/** Removes the plot of a canvas. @param {HTMLElement} canvas */
export function clearPlot(canvas) {
  if (hasLibrary()) /** @type {any} */ (window).Plotly.purge(canvas);
  canvas.replaceChildren();
}

/** Calls `redraw` when the theme changes, or the window becomes narrow or wide: plots follow both. @param {() => void} redraw */
export function onLookChange(redraw) {
  NARROW.addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** Theme before the page was printed. @type {string | undefined} */
let themeBefore;

// Paper is light: while the page is printed, its drawings have the colours of the light theme.
addEventListener("beforeprint", () => {
  themeBefore ??= document.documentElement.dataset.theme ?? "system";
  document.documentElement.dataset.theme = "light";
});
addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = themeBefore;
  themeBefore = undefined;
});

/**
 * A row of a table: rounded numbers, with the exact ones on hover. The first cell is its head.
 * @param {unknown[]} values
 */
export function tableRow(values) {
  const row = document.createElement("tr");
  values.forEach((value, index) => {
    const element = document.createElement(index === 0 ? "th" : "td");
    if (index === 0) element.setAttribute("scope", "row");
    const isNumber = typeof value === "number";
    if (isNumber || index > 0) element.className = "right";
    element.textContent = value === undefined || value === null ? "–" : isNumber ? short(value) : String(value);
    if (isNumber) element.title = String(value);
    row.append(element);
  });
  return row;
}

/**
 * The rows of the best points of the model.
 * @param {any[]} points
 * @param {string[]} parameters
 */
export function bestRows(points, parameters) {
  const titles = ["Best measured", "Recommended, by the model", "Where the search would look next"];
  return points.map((point, index) => {
    const band = [point.lower, point.upper].map((end) => short(end)).join(" to ");
    return tableRow([titles[index], point.trial, point.observed, point.predicted, band, ...parameters.map((name) => point.parameters[name])]);
  });
}

/** @param {string} name @param {string} content @param {string} type */
function save(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A field of a CSV file. Text that a spreadsheet would take for a formula is text. @param {string | number | null} value */
function csvField(value) {
  if (value === null || typeof value === "number") return value === null ? "" : String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/**
 * Makes the buttons of a figure save its plot as PNG, SVG or CSV.
 * @param {HTMLElement} figure
 * @param {string} prefix The start of the name of the file.
 * @param {() => Plot | undefined} shown The plot that the figure shows.
 */
export function offerSaving(figure, prefix, shown) {
  figure.addEventListener("click", (event) => {
    const form = event.target instanceof HTMLElement ? event.target.dataset.save : undefined;
    const plot = shown();
    if (!form || !plot) return;
    const name = `${prefix}-${figure.dataset.plot}`;
    if (form === "csv") {
      const lines = [plot.csv.header, ...plot.csv.rows].map((row) => row.map(csvField).join(","));
      save(`${name}.csv`, `${lines.join("\r\n")}\r\n`, "text/csv");
    } else {
      const canvas = figure.querySelector(".canvas");
      void library().then((plotly) => plotly.downloadImage(canvas, { format: form, filename: name, width: 1200, height: 700, scale: form === "png" ? 2 : 1 }));
    }
  });
}
