// @ts-check
// Views of a study from the API: what plots and tables of trials show.

/** An answer that is not a view. */
export class ViewError extends Error {}

/** Views that were requested before the scripts that show them were loaded. @type {Map<string, Promise<Response>>} */
const requested = new Map();

/** The same, until they are answered. @type {Promise<Response>[]} */
const awaited = [];

/**
 * The address of the view `name`. The browser asks for an unchanged one with its ETag.
 * @param {string} study The address of the study.
 * @param {string} name
 * @param {Record<string, string>} parameters Those without a value are left out.
 */
function addressOf(study, name, parameters) {
  const query = new URLSearchParams({ prettyPrint: "false" });
  for (const [key, value] of Object.entries(parameters)) if (value !== "") query.set(key, value);
  query.sort();
  return `${study}/views/${name}?${query}`;
}

/**
 * Requests a view that the page will read.
 * @param {string} study
 * @param {string} name
 * @param {Record<string, string>} parameters
 */
export function request(study, name, parameters) {
  const address = addressOf(study, name, parameters);
  const response = fetch(address);
  // The reader of the view gets the error.
  response.catch(() => {});
  requested.set(address, response);
  awaited.push(response);
}

/** Waits for the views that were requested. */
export async function answered() {
  await Promise.allSettled(awaited);
}

/**
 * Reads a view.
 * @param {string} study
 * @param {string} name
 * @param {Record<string, string>} parameters
 */
export async function read(study, name, parameters) {
  const address = addressOf(study, name, parameters);
  const early = requested.get(address);
  requested.delete(address);
  const response = await (early ?? fetch(address));
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ViewError(answer?.error?.message ?? `the server answered ${response.status}`);
  return answer;
}
