// Keys of every page: search, rows, pages, help and the list of commands.

import { openCommands } from "./commands.js";

/** Keys and their effects, as the help shows them. */
const KEYS = [
  ["/", "Go to the filter, or to the list of jobs"],
  ["j, k", "Next and previous row of the table"],
  ["Enter", "Open the row"],
  ["[, ]", "Previous and next page or trial"],
  ["Ctrl+K", "Go to a page, job, study or model"],
  ["?", "Show the keys"],
];

/**
 * @param {EventTarget | null} target
 * @returns {boolean} whether typing there enters text
 */
function isTextField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Goes to the row `step` rows after the one with the focus. @param {number} step */
function goToRow(step) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main tbody tr")].map((row) => row.querySelector("th a, td a")).filter(Boolean));
  if (links.length === 0) return;
  const focused = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  // Beside an open trial, the first step is from that trial.
  const at = focused < 0 ? links.findIndex((link) => link.closest("tr.selected")) : focused;
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next].focus();
}

/** Shows the keys. */
function showHelp() {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "keys-title");
  const title = document.createElement("h2");
  Object.assign(title, { id: "keys-title", textContent: "Keys" });
  const list = document.createElement("dl");
  list.className = "facts keys";
  list.append(...KEYS.flatMap(([keys, effect]) => {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.append(...keys.split(", ").map((key) => Object.assign(document.createElement("kbd"), { textContent: key })));
    text.textContent = effect;
    return [term, text];
  }));
  const form = document.createElement("form");
  form.method = "dialog";
  form.className = "actions";
  form.append(Object.assign(document.createElement("button"), { textContent: "Close" }));
  dialog.append(title, list, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** Makes the keys work. */
export function useKeys() {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openCommands();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTextField(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key === "?") showHelp();
    if (event.key === "j") goToRow(1);
    if (event.key === "k") goToRow(-1);
    if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      if (field instanceof HTMLElement) {
        event.preventDefault();
        field.focus();
      } else {
        location.assign("/console/jobs");
      }
      return;
    }
    const relation = { "[": "prev", "]": "next" }[event.key];
    const link = relation && document.querySelector(`a[rel="${relation}"]`);
    if (link instanceof HTMLAnchorElement) link.click();
  });
}
