// Actions: requests of the documented API, with the session of the visitor.

import { confirmCopy, copyText } from "./copy.js";
import { refresh } from "./live.js";
import { createModel } from "./new_model.js";
import { trialBody } from "./trial_form.js";

/**
 * Sends a change.
 * @param {string} method
 * @param {string} url
 * @param {unknown} body
 * @returns {Promise<string>} the message of the error, empty if there was none
 */
export async function send(method, url, body) {
  return (await request(method, url, body)).error;
}

/**
 * Sends a change, and returns the answer.
 * @param {string} method
 * @param {string} url
 * @param {unknown} body a file, or what is sent as JSON
 * @returns {Promise<{error: string, answer: any, status: number}>} the message of the error, empty if there was none, the answer, and its status,
 *   0 without one
 */
export async function request(method, url, body) {
  const type = body instanceof File ? "application/octet-stream" : "application/json";
  const sent = method === "DELETE" ? undefined : body instanceof File ? body : JSON.stringify(body);
  const { error, text, status } = await exchange(method, url, type, sent);
  return { error, answer: error ? null : parsed(text), status };
}

/**
 * Sends JSON as it is written, and returns the answer as it is.
 * @param {string} url
 * @param {string} json
 */
export async function sendText(url, json) {
  return exchange("POST", url, "application/json", json);
}

/**
 * @param {string} method
 * @param {string} url
 * @param {string} type
 * @param {File | string | undefined} body
 */
async function exchange(method, url, type, body) {
  const csrf = document.querySelector('meta[name="csrf"]')?.getAttribute("content") ?? "";
  const headers = { "content-type": type, ...(csrf && { "x-tunesmith-csrf": csrf }) };
  try {
    const response = await fetch(url, { method, headers, ...(body !== undefined && { body }) });
    const [text, status] = [await response.text(), response.status];
    const error = response.ok ? "" : (parsed(text)?.error?.message ?? `the server answered with status ${status}`);
    return { error, text, status };
  } catch {
    const error = "the server cannot be reached; nothing was changed unless it answers again with another state";
    return { error, text: "", status: 0 };
  }
}

/** JSON, or null for other text. @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Asks before something is changed.
 * @param {string} text
 * @param {string} action
 * @param {boolean} isDanger whether it cannot be undone
 * @returns {Promise<boolean>}
 */
function confirmed(text, action, isDanger) {
  const dialog = document.createElement("dialog");
  const question = document.createElement("p");
  question.id = "question";
  question.textContent = text;
  dialog.setAttribute("aria-labelledby", "question");
  const form = document.createElement("form");
  form.method = "dialog";
  form.className = "actions";
  for (const [value, label, kind] of [["", "Back", ""], ["yes", action, isDanger ? "primary danger" : "primary"]]) {
    const button = document.createElement("button");
    Object.assign(button, { value, textContent: label, className: kind });
    form.append(button);
  }
  dialog.append(question, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

/**
 * Shows a message at the top of the page.
 * @param {string} text
 */
function report(text) {
  let notice = document.getElementById("report");
  if (!notice) {
    notice = document.createElement("p");
    notice.id = "report";
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    document.getElementById("content")?.prepend(notice);
  }
  notice.textContent = text;
  notice.hidden = !text;
}

/** The bodies of requests that are not empty, by the attribute `data-send` of their buttons. @type {Record<string, unknown>} */
const BODIES = { infeasible: { trialInfeasible: true, infeasibleReason: "ended in the console" } };

/** @param {HTMLElement} button */
async function press(button) {
  const { method, url, confirm, next, copy, dialog, send: sent } = button.dataset;
  if (dialog) {
    const shown = document.getElementById(dialog);
    if (shown instanceof HTMLDialogElement) shown.showModal();
  } else if (copy) {
    await copyText(copy === "address" ? location.href : document.getElementById(copy)?.textContent ?? "");
    confirmCopy(button);
  } else if (method && url) {
    if (confirm && !(await confirmed(confirm, button.textContent ?? "", button.classList.contains("danger")))) return;
    const error = await send(method, url, BODIES[sent ?? ""] ?? {});
    report(error);
    if (!error && next) location.assign(next);
    else if (!error) await refresh();
  }
}

/**
 * The body of the request that a form sends.
 * @param {HTMLFormElement} form
 * @returns {unknown}
 */
function body(form) {
  const fields = new FormData(form);
  if (form.dataset.body === "trials") {
    const number = (/** @type {string} */ name) => Number(fields.get(name));
    const hyperparameters = { maxTrials: number("maxTrials"), maxParallelTrials: number("maxParallelTrials") };
    return { trainingInput: { hyperparameters } };
  }
  if (form.dataset.body === "study") return { studyConfig: { tunesmith: { maxTrials: String(fields.get("maxTrials")) } } };
  if (form.dataset.body === "note") return { text: String(fields.get("text") ?? ""), etag: String(fields.get("etag") ?? "") };
  if (form.dataset.body === "trial") return trialBody(form);
  if (form.dataset.body === "token" || form.dataset.body === "rotation") return tokenBody(form);
  /** @type {Record<string, string>} */
  const labels = {};
  for (const line of String(fields.get("labels") ?? "").split("\n")) {
    if (!line.trim()) continue;
    const index = line.indexOf("=");
    const key = index < 0 ? line : line.slice(0, index);
    labels[key.trim()] = index < 0 ? "" : line.slice(index + 1).trim();
  }
  return { labels };
}

/**
 * @param {HTMLFormElement} form
 * @returns {unknown} the token, or the rotation of one
 */
function tokenBody(form) {
  const fields = new FormData(form);
  const text = (/** @type {string} */ name) => String(fields.get(name) ?? "").trim();
  const lifetime = text("days") && { lifetime: `${Number(text("days")) * 86400}s` };
  if (form.dataset.body === "rotation") return { ...lifetime, overlap: `${Number(text("overlap")) * 3600}s` };
  const project = text("project");
  return { principal: text("principal"), roles: [text("role") + (project && `@${project}`)], ...lifetime };
}

/**
 * Shows the secret of a new token until the dialog is closed; then the page is loaded again.
 * @param {HTMLFormElement} form
 * @param {string} secret
 */
function showSecret(form, secret) {
  form.closest("dialog")?.close();
  const [dialog, text] = [document.getElementById("secret"), document.getElementById("secret-text")];
  if (!(dialog instanceof HTMLDialogElement) || !text) return;
  text.textContent = secret;
  dialog.addEventListener("close", () => location.reload(), { once: true });
  dialog.showModal();
}

/** Makes buttons and forms work. */
export function useActions() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("button[data-url], button[data-copy], button[data-dialog]");
    if (button instanceof HTMLElement) void press(button);
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.dataset.url) return;
    event.preventDefault();
    const isModel = form.dataset.body === "model";
    const { error, answer } = isModel
      ? { error: await createModel(form), answer: null }
      : await request(form.dataset.method ?? "POST", form.dataset.url, body(form));
    const notice = form.querySelector('[role="alert"]');
    if (notice instanceof HTMLElement) {
      notice.textContent = error;
      notice.hidden = !error;
    }
    if (!error && "secret" in form.dataset) showSecret(form, answer.secret);
    else if (!error && !isModel) location.reload();
  });
}
