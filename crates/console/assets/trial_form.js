// @ts-check
// The form of a new trial as the body of a request.

/** A number as JSON has it, or else the text, which the server refuses with its reason. @param {string} text */
function number(text) {
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

/**
 * The fields of `form` with this attribute that have a value.
 * @param {HTMLFormElement} form
 * @param {string} attribute
 */
function filled(form, attribute) {
  return [...form.querySelectorAll(`[${attribute}]`)].flatMap((field) => {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement)) return [];
    const value = field.value.trim();
    return value === "" ? [] : [{ name: field.getAttribute(attribute) ?? "", kind: field.dataset.kind ?? "", value }];
  });
}

/**
 * The body of the request that creates the trial. An empty field is left out: its parameter does not exist in this trial.
 * @param {HTMLFormElement} form
 */
export function trialBody(form) {
  const parameters = filled(form, "data-parameter").map(({ name, kind, value }) => {
    if (kind === "stringValue") return { parameter: name, stringValue: JSON.parse(value) };
    return { parameter: name, [kind]: kind === "intValue" ? value : number(value) };
  });
  const metrics = filled(form, "data-metric").map(({ name, value }) => ({ metric: name, value: number(value) }));
  return { parameters, ...(metrics.length > 0 && { finalMeasurement: { metrics } }) };
}
