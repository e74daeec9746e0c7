// @ts-check
// The list beside a trial: open in a wide window unless it was closed there, closed in a narrow one.

/** Key of the choice to close the list. */
const CLOSED = "tunesmith_list_closed";

const list = /** @type {HTMLDetailsElement} */ (document.querySelector("details.beside"));
const wide = matchMedia("(min-width: 1000px)");

/** Opens or closes the list, and shows the open trial in its middle. */
function adapt() {
  list.open = wide.matches && localStorage.getItem(CLOSED) === null;
  const [area, row] = [list.querySelector(".scroll"), list.querySelector("tr.selected")];
  if (area instanceof HTMLElement && row instanceof HTMLElement) {
    area.scrollTop = row.offsetTop - (area.clientHeight - row.offsetHeight) / 2;
  }
}

adapt();
list.dataset.ready = "";
wide.addEventListener("change", adapt);
list.querySelector("summary")?.addEventListener("click", () => {
  // The click has not changed it yet.
  if (wide.matches && list.open) localStorage.setItem(CLOSED, "");
  else if (wide.matches) localStorage.removeItem(CLOSED);
});
