// @ts-check
// What the address of the page Explore selects.

import { fieldOf } from "./filters.js";

/** @typedef {{metrics: {name: string, isMaximized: boolean}[], parameters: {name: string}[]}} Space */

/** Number of trials of a page of the table. */
export const PAGE = 25;

/** @param {string} name */
export function selected(name) {
  return new URLSearchParams(location.search).get(name) ?? "";
}

/** The parameters of the view of a figure. @param {string} name @returns {Record<string, string>} */
export function parametersOf(name) {
  const [metric, filter] = [selected("metric"), selected("filter")];
  if (name === "slice") return { filter, metric, parameter: selected("parameter") };
  if (name === "contour" || name === "rank") return { filter, metric, x: selected("x"), y: selected("y") };
  if (name === "paretoFront") return { filter, x: selected("mx"), y: selected("my") };
  if (name === "timeline") return { filter };
  return name === "parallelCoordinates" ? { filter, metric, points: "400" } : { filter, metric };
}

/** The parameters of the table, best trials first. @param {Space} space @param {number} offset @returns {Record<string, string>} */
export function parametersOfTable(space, offset) {
  const metric = selected("metric") || space.metrics[0]?.name || "";
  const isMaximized = space.metrics.find((known) => known.name === metric)?.isMaximized;
  const orderBy = `${fieldOf("metric", metric)} ${isMaximized ? "desc" : "asc"}`;
  return { filter: selected("filter"), orderBy, offset: String(offset), limit: String(PAGE) };
}
