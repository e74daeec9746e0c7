// @ts-check
// The best trials of a job or study on its first page.

import { fieldOf } from "./filters.js";

/** Number of best trials. */
const LEADERS = 5;

/** The parameters of their table. @param {string} metric @param {string} direction @returns {Record<string, string>} */
export function leaders(metric, direction) {
  return { orderBy: `${fieldOf("metric", metric)} ${direction}`, limit: String(LEADERS) };
}
