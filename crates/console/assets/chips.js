// @ts-check
// Chips beside a filter: each restriction as a button that removes it, and common restrictions as switches.
import { terms } from "./filters.js";

/**
 * Shows the chips of a form with a filter. A form states its common restrictions as JSON in `data-chips`: label and restriction.
 * @param {HTMLFormElement} form
 */
export function showChips(form) {
  const input = form.elements.namedItem("filter");
  if (!(input instanceof HTMLInputElement)) return;
  /** @type {[string, string][]} */
  const common = JSON.parse(form.dataset.chips ?? "[]");
  const given = terms(input.value);
  const apply = (/** @type {string[]} */ restrictions) => {
    input.value = restrictions.join(" AND ");
    form.requestSubmit();
  };
  const chip = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "chip", textContent: text });
    if (label) button.setAttribute("aria-label", label);
    button.addEventListener("click", act);
    return button;
  };
  const names = new Set(common.map(([, restriction]) => restriction));
  const switches = common.map(([text, restriction]) => {
    const isOn = given.includes(restriction);
    const others = given.filter((term) => term !== restriction);
    // States exclude each other.
    const field = restriction.split(/\s*[:=]/)[0];
    const compatible = others.filter((term) => !(names.has(term) && term.split(/\s*[:=]/)[0] === field));
    const button = chip(text, "", () => apply(isOn ? others : [...compatible, restriction]));
    button.setAttribute("aria-pressed", String(isOn));
    return button;
  });
  const own = given.filter((term) => !names.has(term)).map((term) => {
    const button = chip(term, `Remove ${term}`, () => apply(given.filter((other) => other !== term)));
    button.classList.add("removable");
    return button;
  });
  const next = form.nextElementSibling;
  const row = next instanceof HTMLElement && next.matches(".chips") ? next : document.createElement("div");
  row.className = "chips";
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", "Restrictions");
  row.replaceChildren(...switches, ...own);
  form.after(row);
}

/** Shows the chips of all filters of the page. */
export function useChips() {
  for (const form of document.querySelectorAll("form[data-chips]")) if (form instanceof HTMLFormElement) showChips(form);
}
