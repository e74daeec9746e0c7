// The list of commands (Ctrl+K): pages, and the jobs, studies and models whose names contain what is typed.

/** Time without a key after which the server is asked, in milliseconds. */
const PAUSE = 120;

/**
 * @typedef {{text: string, note: string, address: string}} Command
 */

/** Pages that this page links to: the main ones, the tabs of a job, and what can be created. @returns {Command[]} */
function pages() {
  const links = document.querySelectorAll(".top nav a, .tabs a, .head .actions a[href], .tools a[href]");
  const found = [...links].flatMap((link) => {
    if (!(link instanceof HTMLAnchorElement)) return [];
    const isTab = link.closest(".tabs");
    const note = isTab ? document.querySelector("h1")?.textContent ?? "" : "page";
    return [{ text: link.textContent?.trim() ?? "", note, address: link.href }];
  });
  return found.filter((command, index) => found.findIndex((other) => other.address === command.address) === index);
}

/** Jobs, studies and models whose names contain `text`. @param {string} text @returns {Promise<Command[]>} */
async function named(text) {
  const response = await fetch(`/console/find?${new URLSearchParams({ name: text })}`, { headers: { accept: "application/json" } });
  if (!response.ok) return [];
  const answer = await response.json();
  return answer.found.map((/** @type {any} */ one) => ({ text: one.name, note: `${one.kind} in ${one.project}, ${one.state}`, address: one.address }));
}

/** Opens the list. */
export function openCommands() {
  if (document.querySelector("dialog[open]")) return;
  const dialog = document.createElement("dialog");
  dialog.className = "commands";
  dialog.setAttribute("aria-label", "Go to");
  const input = document.createElement("input");
  Object.assign(input, { type: "search", placeholder: "Go to a page, job, study or model", autocomplete: "off", spellcheck: false });
  const attributes = { role: "combobox", "aria-label": "Go to", "aria-expanded": "true", "aria-controls": "commands", "aria-autocomplete": "list" };
  for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
  const list = document.createElement("ul");
  Object.assign(list, { id: "commands", role: "listbox" });
  list.setAttribute("aria-label", "Pages, jobs, studies and models");
  const known = pages();
  let chosen = 0;
  let version = 0;
  /** @type {Command[]} */
  let shown = [];

  const choose = (/** @type {number} */ index) => {
    chosen = shown.length === 0 ? 0 : (index + shown.length) % shown.length;
    [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    const item = list.children[chosen];
    item?.scrollIntoView({ block: "nearest" });
    if (item) input.setAttribute("aria-activedescendant", item.id);
    else input.removeAttribute("aria-activedescendant");
  };
  const show = (/** @type {Command[]} */ commands, /** @type {number} */ selected) => {
    shown = commands;
    list.replaceChildren(...commands.map(({ text, note, address }, index) => {
      const item = document.createElement("li");
      Object.assign(item, { id: `command-${index}`, role: "option" });
      item.dataset.address = address;
      const quiet = Object.assign(document.createElement("span"), { className: "quiet", textContent: note });
      item.append(Object.assign(document.createElement("span"), { textContent: text }), quiet);
      item.addEventListener("click", () => location.assign(address));
      return item;
    }));
    choose(selected);
  };
  const search = async () => {
    version += 1;
    const wanted = version;
    const text = input.value.trim().toLowerCase();
    const fitting = known.filter((command) => command.text.toLowerCase().includes(text));
    show(fitting, 0);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (wanted !== version) return;
    const found = await named(text).catch(() => []);
    if (wanted !== version) return;
    // What was found follows the pages, so the command chosen meanwhile keeps its place.
    show([...fitting, ...found], chosen);
    list.dataset.shown = text;
  };
  input.addEventListener("input", () => void search());
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose(chosen + step);
    if (event.key === "Enter" && shown[chosen]) location.assign(shown[chosen].address);
    if (step || event.key === "Enter") event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.append(input, list);
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
  void search();
}
