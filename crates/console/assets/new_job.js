// The pages that submit a job and create a study: they check the configuration while it is written, keep the form in step with it, and
// submit what the check has read.

import { send } from "./actions.js";
import { offerCompletion } from "./completion.js";
import { withLineNumbers } from "./editor.js";
import { onChange, showForm, showProblems } from "./job_form.js";
import { offerUpload } from "./upload.js";

/** Time without a key after which the text is checked, in milliseconds. */
const PAUSE = 300;

const form = document.getElementById("new-job");

/** Whether the page creates a study. */
const isStudy = form?.dataset.kind === "study";

/**
 * @typedef {{isError: boolean, line: number, column: number, field: string, text: string}} Remark
 * @typedef {{remarks: Remark[], request?: {jobId?: string}, text: string, form: import("./job_form.js").Form, refusal: string | null}} Checked
 */

/**
 * @param {string} text
 * @param {import("./job_form.js").Change} [change] a change of the form, which the server makes in the text
 * @returns {Promise<Checked>}
 */
async function checked(text, change) {
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ text, isStudy, change }) };
  const response = await fetch("/console/check", init);
  if (!response.ok) throw new Error(`the server answered with status ${response.status}`);
  return response.json();
}

/**
 * @param {HTMLTextAreaElement} field
 * @param {Remark[]} remarks
 */
function show(field, remarks) {
  const list = document.createElement("ul");
  list.className = "findings";
  for (const remark of remarks) {
    const item = document.createElement("li");
    const place = document.createElement("button");
    place.type = "button";
    place.className = remark.isError ? "danger" : "";
    place.textContent = `${remark.line}:${remark.column}`;
    place.setAttribute("aria-label", `Go to line ${remark.line}, column ${remark.column}`);
    place.addEventListener("click", () => select(field, remark));
    const text = document.createElement("div");
    text.textContent = remark.text;
    item.append(place, text);
    list.append(item);
  }
  const isInvalid = remarks.some((remark) => remark.isError);
  const state = document.createElement("p");
  if (isInvalid) state.textContent = "The configuration has errors.";
  else state.textContent = `The configuration is valid.${remarks.length ? " Look at the warnings:" : ""}`;
  document.getElementById("remarks")?.replaceChildren(state, list);
  field.setAttribute("aria-invalid", String(isInvalid));
}

/**
 * Puts the caret at a remark.
 * @param {HTMLTextAreaElement} field
 * @param {Remark} remark
 */
function select(field, remark) {
  const before = field.value.split("\n").slice(0, remark.line - 1);
  const start = before.reduce((length, line) => length + line.length + 1, 0) + remark.column - 1;
  field.focus();
  field.setSelectionRange(start, start);
}

/**
 * The address of the request that submits a job, the page of the job, and the body.
 * @param {FormData} values
 * @param {object} request
 * @returns {[string, string, object]}
 */
function newJob(values, request) {
  const jobs = `projects/${encodeURIComponent(String(values.get("project")))}/jobs`;
  const jobId = String(values.get("jobId"));
  return [`/v1/${jobs}`, `${jobs}/${encodeURIComponent(jobId)}`, { ...request, jobId }];
}

/**
 * The same for a study.
 * @param {FormData} values
 * @param {object} request
 * @returns {[string, string, object]}
 */
function newStudy(values, request) {
  const part = (/** @type {string} */ name) => encodeURIComponent(String(values.get(name)));
  const studies = `projects/${part("project")}/locations/${part("location")}/studies`;
  return [`/v1/${studies}?studyId=${part("studyId")}`, `${studies}/${part("studyId")}`, request];
}

if (form instanceof HTMLFormElement) {
  const field = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("text"));
  const markLines = withLineNumbers(field);
  offerCompletion(field, form.dataset.schema ?? "");
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let latest = 0;
  const check = async () => {
    const own = ++latest;
    const answer = await checked(field.value);
    if (own === latest) showAll(answer);
    return answer;
  };
  const showAll = (/** @type {Checked} */ answer) => {
    show(field, answer.remarks);
    markLines(answer.remarks);
    showForm(answer.form);
    showProblems(answer.remarks);
  };
  // One change after the other: each is made in the text that the one before has left.
  let former = Promise.resolve();
  const change = (/** @type {import("./job_form.js").Change} */ change) => {
    former = former.then(async () => {
      clearTimeout(timer);
      const own = ++latest;
      try {
        const answer = await checked(field.value, change);
        // The text was changed meanwhile: it is the truth.
        if (own !== latest) return;
        if (field.value !== answer.text) field.value = answer.text;
        showAll(answer);
        refuse(answer.refusal ?? "");
      } catch (error) {
        refuse(String(error));
      }
    });
    return former;
  };
  onChange(change);
  offerUpload(() => String(new FormData(form).get("project")), (uri, module) => change({ kind: "addPackage", uri, module }));
  const refuse = (/** @type {string} */ text) => {
    const notice = document.getElementById("refusal");
    if (!notice) return;
    notice.textContent = text;
    notice.hidden = !text;
  };
  field.addEventListener("input", () => {
    latest += 1;
    clearTimeout(timer);
    timer = setTimeout(() => check().catch((error) => refuse(String(error))), PAUSE);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      // A value may have been changed by the click that submits.
      await former;
      const values = new FormData(form);
      const answer = await check();
      if (!answer.request) {
        refuse(`The configuration has errors; the ${isStudy ? "study was not created" : "job was not submitted"}.`);
        return;
      }
      const [address, page, body] = isStudy ? newStudy(values, answer.request) : newJob(values, answer.request);
      const error = await send("POST", address, body);
      refuse(error);
      if (!error) location.assign(`/console/${page}`);
    } catch (error) {
      refuse(String(error));
    }
  });
  void check().catch((error) => refuse(String(error)));
}
