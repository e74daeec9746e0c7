// The form that creates a model with the files of a trial.

import { request } from "./actions.js";

/** Status of a creation whose name is taken. */
const CONFLICT = 409;

/**
 * Creates the model, unless it exists, and begins the creation of a version. Opens the page of the model.
 * @param {HTMLFormElement} form
 * @returns {Promise<string>} the message of the error, empty if there was none
 */
export async function createModel(form) {
  const fields = new FormData(form);
  const text = (/** @type {string} */ name) => String(fields.get(name) ?? "").trim();
  const [models, model] = [form.dataset.url ?? "", text("model")];
  const created = await request("POST", models, { name: model });
  if (created.error && created.status !== CONFLICT) return created.error;
  const given = Object.fromEntries(["framework", "runtimeVersion"].map((name) => [name, text(name)]).filter(([, value]) => value));
  const version = { name: text("version"), ...given, tunesmith: { job: form.dataset.job, trial: text("trial") } };
  const begun = await request("POST", `${models}/${model}/versions`, version);
  if (begun.error) {
    // A new model without a version is of no use to anyone.
    if (!created.error) await request("DELETE", `${models}/${model}`, null);
    return begun.error;
  }
  const name = begun.answer?.metadata?.version?.name?.split("/").pop() ?? "";
  location.assign(`${form.dataset.next}${model}?version=${encodeURIComponent(name)}`);
  return "";
}
