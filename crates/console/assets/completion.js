// @ts-check
// Completion of keys and enumerated values in the text of a configuration, from its JSON schema: while a name is written, and at
// Ctrl+Space.

import { caretIn } from "./caret.js";
import { proposals } from "./schema.js";

/** Space between the list and the edges of the window in pixels. */
const EDGE = 8;

/**
 * Completes what is written in `field`, whose lines do not wrap, by the JSON schema at `address`.
 * @param {HTMLTextAreaElement} field
 * @param {string} address
 */
export function offerCompletion(field, address) {
  const list = document.createElement("ul");
  list.id = "proposals";
  list.className = "proposals";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  const status = document.createElement("p");
  status.className = "hidden";
  status.setAttribute("role", "status");
  (field.closest("section") ?? document.body).append(list, status);
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", list.id);

  /** @type {import("./caret.js").Caret | undefined} */
  let place;
  /** @type {import("./schema.js").Proposal[]} */
  let offered = [];
  /** The chosen proposal; -1 for none. */
  let chosen = -1;
  /** The caret for which the list is shown. */
  let shownAt = -1;
  /** @type {Promise<any> | undefined} */
  let schema;
  const read = () => (schema ??= fetch(address).then((response) => (response.ok ? response.json() : Promise.reject(new Error()))));

  const close = () => {
    list.hidden = true;
    shownAt = -1;
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (/** @type {number} */ index) => {
    chosen = index;
    [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
    const option = /** @type {HTMLElement | undefined} */ (list.children[index]);
    if (!option) return field.removeAttribute("aria-activedescendant");
    field.setAttribute("aria-activedescendant", option.id);
    // Not `scrollIntoView`, which scrolls the page as well.
    list.scrollTop = Math.min(option.offsetTop, Math.max(list.scrollTop, option.offsetTop + option.offsetHeight - list.clientHeight));
  };
  /** Puts the list below the line of the caret, or above it if there is more space. */
  const put = () => {
    const style = getComputedStyle(field);
    const before = field.value.slice(0, place?.start).split("\n");
    const pencil = document.createElement("canvas").getContext("2d");
    if (pencil) pencil.font = style.font;
    const width = pencil?.measureText(before.at(-1) ?? "").width ?? 0;
    const box = field.getBoundingClientRect();
    const height = parseFloat(style.lineHeight);
    const line = box.top + parseFloat(style.paddingTop) + (before.length - 1) * height - field.scrollTop;
    const isBelow = line + height + list.offsetHeight <= innerHeight - EDGE || line < innerHeight / 2;
    const left = box.left + parseFloat(style.paddingLeft) + width - field.scrollLeft;
    list.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - list.offsetWidth - EDGE))}px`;
    list.style.top = `${isBelow ? line + height : line - list.offsetHeight}px`;
  };
  /** Shows what can be written at the caret. @param {boolean} isAsked Whether the visitor asked for it. */
  const show = async (isAsked) => {
    const caret = field.selectionStart;
    const text = field.value;
    /** @type {any} */
    let root;
    try {
      root = await read();
    } catch {
      schema = undefined;
      status.textContent = "Completions cannot be loaded.";
      return;
    }
    // It was written on meanwhile.
    if (field.value !== text || field.selectionStart !== caret || document.activeElement !== field) return;
    place = caretIn(text, caret);
    offered = place && field.selectionEnd === caret ? proposals(root, place) : [];
    const isWritten = offered.length === 1 && offered[0].name === place?.prefix;
    const isWanted = isAsked || place?.isKey === false || place?.prefix !== "";
    if (offered.length === 0 || !isWanted || (isWritten && !isAsked)) {
      if (isAsked) status.textContent = "Nothing to complete here.";
      return close();
    }
    list.replaceChildren(...offered.map(optionOf));
    list.hidden = false;
    shownAt = caret;
    put();
    status.textContent = `${offered.length} ${offered.length === 1 ? "completion" : "completions"}`;
    // Enter ends a line as long as nothing was asked for.
    choose(isAsked || place?.prefix !== "" ? 0 : -1);
  };
  const optionOf = (/** @type {import("./schema.js").Proposal} */ proposal, /** @type {number} */ index) => {
    const option = document.createElement("li");
    option.id = `proposal-${index}`;
    option.setAttribute("role", "option");
    const name = Object.assign(document.createElement("code"), { textContent: proposal.name });
    const text = Object.assign(document.createElement("span"), { textContent: proposal.text, title: proposal.text });
    option.append(name, " ", text);
    // The field keeps the focus.
    option.addEventListener("pointerdown", (event) => event.preventDefault());
    option.addEventListener("click", () => accept(proposal));
    return option;
  };
  const accept = (/** @type {import("./schema.js").Proposal} */ { name, after }) => {
    if (!place) return;
    const { start, end, quote } = place;
    const follows = field.value.slice(end);
    const isQuoted = quote !== "" && follows.startsWith(quote);
    const isKeyThere = /^["']?\s*:/.test(follows);
    close();
    field.setSelectionRange(start, end);
    const text = name + (quote && !isQuoted ? quote : "") + (isKeyThere || isQuoted ? "" : after);
    // Unlike `setRangeText`, this can be undone.
    if (!document.execCommand("insertText", false, text)) {
      field.setRangeText(text, start, end, "end");
      field.dispatchEvent(new InputEvent("input"));
    }
  };

  field.addEventListener("input", (event) => {
    const { inputType, data } = /** @type {InputEvent} */ (event);
    const isOpen = !list.hidden;
    // A new key may be followed by one of few values.
    if ((inputType === "insertText" && /[\w\s"']$/.test(data ?? "")) || (isOpen && inputType?.startsWith("delete"))) void show(false);
    else close();
  });
  field.addEventListener("keydown", (event) => {
    if (event.ctrlKey && event.code === "Space") {
      event.preventDefault();
      void show(true);
      return;
    }
    if (list.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = offered.length - 1;
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") choose(chosen < last ? chosen + 1 : 0);
    else if (event.key === "ArrowUp") choose(chosen > 0 ? chosen - 1 : last);
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && chosen >= 0) accept(offered[chosen]);
    else return;
    event.preventDefault();
  });
  document.addEventListener("selectionchange", () => {
    if (!list.hidden && field.selectionStart !== shownAt) close();
  });
  field.addEventListener("blur", close);
  const follow = () => list.hidden || put();
  field.addEventListener("scroll", follow);
  for (const moved of ["scroll", "resize"]) addEventListener(moved, follow);
}
