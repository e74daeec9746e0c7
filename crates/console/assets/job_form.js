// The form of a new job: shows what the server has read from the text, and sends changes of single values, which the server makes
// in the text.

/**
 * @typedef {Record<string, string | string[]>} Values
 * @typedef {Record<string, string>} Paths The paths of values in messages.
 * @typedef {{isReadable: boolean, isStudy: boolean, fields: Values, paths: Paths, parameters: Values[], parameterPaths: Paths[], notShown: string[]}} Form
 * @typedef {{kind: string, field?: string, index?: number, value?: string, uri?: string, module?: string}} Change
 * @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field
 * @typedef {{isError: boolean, field: string, text: string}} Problem
 */

const STUDY = "[data-field]";
const PARAMETER = "[data-parameter]";

/**
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page lacks ${id}`);
  return found;
}

/**
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {Field[]}
 */
function fieldsOf(root, selector) {
  return /** @type {Field[]} */ ([...root.querySelectorAll(selector)]);
}

/**
 * Shows a value, unless its field is being changed. A value that a choice lacks becomes one.
 * @param {Field} field
 * @param {string | string[] | undefined} value
 */
function fill(field, value) {
  if (field === document.activeElement && !(field instanceof HTMLSelectElement)) return;
  const text = Array.isArray(value) ? value.join("\n") : (value ?? "");
  if (field instanceof HTMLSelectElement && ![...field.options].some((option) => option.value === text)) {
    field.add(new Option(text, text));
  }
  if (field.value !== text) field.value = text;
}

/**
 * Shows a parameter.
 * @param {Element} row
 * @param {number} index
 * @param {Values} values
 * @param {Paths} paths
 */
function fillParameter(row, index, values, paths) {
  const legend = row.querySelector("legend");
  if (legend) legend.textContent = `Parameter ${index + 1}`;
  row.querySelector("[data-remove]")?.setAttribute("aria-label", `Remove parameter ${index + 1}`);
  for (const field of fieldsOf(row, PARAMETER)) {
    const key = field.dataset.parameter ?? "";
    fill(field, values[key]);
    field.dataset.path = paths[key] ?? "";
    const label = field.closest("label");
    const types = label?.dataset.of?.split(" ");
    if (label) label.hidden = types !== undefined && !types.includes(String(values.type)) && values[key] === undefined;
  }
}

/**
 * Shows `form`.
 * @param {Form} form
 */
export function showForm(form) {
  const note = element("study-note", HTMLElement);
  if (!form.isReadable) note.textContent = "The configuration cannot be read. Correct it, and the form shows it again.";
  else if (!form.isStudy) note.textContent = "This job runs its program once, without hyperparameters.";
  else note.textContent = "A change here is made in the text, and a change of the text is shown here.";
  element("add-study", HTMLButtonElement).hidden = !form.isReadable || form.isStudy;
  element("study-fields", HTMLElement).hidden = !form.isStudy;
  for (const field of fieldsOf(document, STUDY)) {
    fill(field, form.fields[field.dataset.field ?? ""]);
    field.dataset.path = form.paths[field.dataset.field ?? ""] ?? "";
  }
  const list = element("parameters", HTMLElement);
  const template = element("parameter", HTMLTemplateElement);
  while (list.children.length > form.parameters.length) list.lastElementChild?.remove();
  while (list.children.length < form.parameters.length) list.append(template.content.cloneNode(true));
  form.parameters.forEach((values, index) => fillParameter(list.children[index], index, values, form.parameterPaths[index] ?? {}));
  for (const button of list.querySelectorAll("[data-remove]")) {
    if (button instanceof HTMLButtonElement) button.disabled = form.parameters.length < 2;
  }
  const rest = element("not-shown", HTMLElement);
  rest.hidden = form.notShown.length === 0;
  rest.textContent = `Only in the text, and kept as they are: ${form.notShown.join(", ")}.`;
}

/**
 * Shows what is wrong beside the fields.
 * @param {Problem[]} problems
 */
export function showProblems(problems) {
  const study = element("study", HTMLElement);
  study.querySelectorAll(".problem").forEach((old) => old.remove());
  fieldsOf(study, `${STUDY}, ${PARAMETER}`).forEach((field, index) => {
    const path = field.dataset.path ?? "";
    const own = problems.filter(({ isError, field: of }) => isError && path !== "" && (of === path || of.startsWith(`${path}[`)));
    field.setAttribute("aria-invalid", String(own.length > 0));
    if (own.length === 0) {
      field.removeAttribute("aria-describedby");
      return;
    }
    const text = document.createElement("p");
    text.className = "problem bad";
    text.id = `problem-${index}`;
    text.textContent = own.map((problem) => problem.text.replace(`${problem.field}: `, "")).join("; ");
    field.setAttribute("aria-describedby", text.id);
    field.after(text);
  });
}

/**
 * Calls `send` for each change that is made in the form.
 * @param {(change: Change) => Promise<void>} send
 */
export function onChange(send) {
  element("study", HTMLElement).addEventListener("change", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLElement) || !("value" in field)) return;
    const value = String(field.value);
    if (field.dataset.field) void send({ kind: "field", field: field.dataset.field, value });
    const key = field.dataset.parameter;
    if (key) void send({ kind: "parameter", index: rowOf(field), field: key, value });
  });
  element("add-study", HTMLButtonElement).addEventListener("click", async () => {
    await send({ kind: "addStudy" });
    fieldsOf(document, STUDY)[0]?.focus();
  });
  element("add-parameter", HTMLButtonElement).addEventListener("click", async () => {
    await send({ kind: "addParameter" });
    const last = document.querySelector(`#parameters > :last-child ${PARAMETER}`);
    if (last instanceof HTMLInputElement) last.select();
  });
  element("parameters", HTMLElement).addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-remove]") : null;
    if (!button) return;
    await send({ kind: "removeParameter", index: rowOf(button) });
    element("add-parameter", HTMLButtonElement).focus();
  });
}

/**
 * @param {Element} inside
 * @returns {number} the index of the parameter
 */
function rowOf(inside) {
  const row = inside.closest("fieldset");
  return row?.parentElement ? [...row.parentElement.children].indexOf(row) : -1;
}
