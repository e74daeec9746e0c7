// @ts-check
// A smooth surface through the mean results of cells: local linear regression, near cells with trials only.
import { inner } from "./scales.js";

/** Number of points of the surface along each axis. */
const POINTS = 40;

/** Numbers of trials and of cells with trials below which there is no surface. */
const [FEWEST_TRIALS, FEWEST_CELLS] = [12, 8];

/** Widths of the kernel: at most, at least, and at one trial; it falls with the sixth root of their number (Scott's rule). */
const [WIDEST, NARROWEST, WIDTH] = [0.2, 0.05, 0.3];

/** Squared distance in widths of the kernel from which cells have no weight. */
const FAR = 12;

/** Distance from the nearest cell with trials, in widths of the kernel, up to which the surface is drawn. */
const REACH = 1.5;

/**
 * Places along an axis from 0 to 1, and back.
 * @param {{kind: string, isLog: boolean}} axis
 * @param {number[]} edges
 */
function unit(axis, edges) {
  const isLog = axis.isLog && edges[0] > 0;
  const at = (/** @type {number} */ value) => (isLog ? Math.log(value) : value);
  const [low, high] = [at(edges[0]), at(edges[edges.length - 1])];
  const place = (/** @type {number} */ value) => (at(value) - low) / (high - low);
  const value = (/** @type {number} */ share) => (isLog ? Math.exp(low + share * (high - low)) : low + share * (high - low));
  return { place, value, centres: edges.slice(1).map((edge, index) => (place(edges[index]) + place(edge)) / 2) };
}

/**
 * The surface of a view of results over two parameters; `undefined` for categories and for few trials.
 * @param {any} view
 * @returns {{x: number[], y: number[], z: (number | null)[][]} | undefined}
 */
export function surfaceOf(view) {
  const { x, y, xEdges, yEdges, counts, means } = view;
  if (x.kind === "LEVEL" || y.kind === "LEVEL" || view.measured < FEWEST_TRIALS) return undefined;
  const [across, up] = [unit(x, xEdges), unit(y, yEdges)];
  const width = across.centres.length;
  /** @type {[number, number][]} */
  const weighted = means.flatMap((/** @type {number | null} */ mean, /** @type {number} */ index) => (mean === null ? [] : [[mean, counts[index]]]));
  if (weighted.length < FEWEST_CELLS || width < 3 || up.centres.length < 3) return undefined;
  // Results far from the others would bend everything around them.
  const [low, high] = inner(weighted, view.isMaximized)?.range ?? [-Infinity, Infinity];
  const rows = up.centres.map((v, row) => {
    const cells = across.centres.flatMap((u, at) => {
      const mean = means[row * width + at];
      return mean === null ? [] : [{ u, weight: counts[row * width + at], mean: Math.min(high, Math.max(low, mean)) }];
    });
    return { v, cells };
  });
  const kernel = Math.min(WIDEST, Math.max(NARROWEST, WIDTH * view.measured ** (-1 / 6)));
  const shares = Array.from({ length: POINTS }, (_, index) => index / (POINTS - 1));
  return {
    x: shares.map(across.value),
    y: shares.map(up.value),
    z: shares.map((v) => {
      const near = rows.filter((row) => ((row.v - v) / kernel) ** 2 <= FAR);
      return shares.map((u) => fitted(near, u, v, kernel));
    }),
  };
}

/** @typedef {{v: number, cells: {u: number, weight: number, mean: number}[]}} Row Cells at one height. */

/**
 * The value at (u, v) of the plane that fits best to the cells nearby; `null` far from all of them.
 * @param {Row[]} rows
 * @param {number} u
 * @param {number} v
 * @param {number} kernel
 */
function fitted(rows, u, v, kernel) {
  let [sum, su, sv, suu, suv, svv, sz, suz, svz] = [0, 0, 0, 0, 0, 0, 0, 0, 0];
  let [nearest, least, most] = [Infinity, Infinity, -Infinity];
  for (const row of rows) {
    const dv = (row.v - v) / kernel;
    for (const cell of row.cells) {
      const du = (cell.u - u) / kernel;
      const distance = du * du + dv * dv;
      if (distance > FAR) continue;
      nearest = Math.min(nearest, distance);
      const weight = cell.weight * Math.exp(-distance / 2);
      least = Math.min(least, cell.mean);
      most = Math.max(most, cell.mean);
      sum += weight;
      su += weight * du;
      sv += weight * dv;
      suu += weight * du * du;
      suv += weight * du * dv;
      svv += weight * dv * dv;
      sz += weight * cell.mean;
      suz += weight * du * cell.mean;
      svz += weight * dv * cell.mean;
    }
  }
  if (nearest > REACH * REACH) return null;
  // A small ridge keeps the slopes finite where the cells lie on a line.
  const ridge = 0.05 * sum;
  suu += ridge;
  svv += ridge;
  const determinant = sum * (suu * svv - suv * suv) - su * (su * svv - suv * sv) + sv * (su * suv - suu * sv);
  const plane = (sz * (suu * svv - suv * suv) - su * (suz * svv - suv * svz) + sv * (suz * suv - suu * svz)) / determinant;
  return Math.min(most, Math.max(least, Number.isFinite(plane) ? plane : sz / sum));
}
