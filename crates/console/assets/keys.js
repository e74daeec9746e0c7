// Keys: `/` goes to the search field, `[` and `]` to the previous and the next page or trial.

/**
 * @param {EventTarget | null} target
 * @returns {boolean} whether typing there enters text
 */
function isTextField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Makes the keys work. */
export function useKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTextField(event.target)) return;
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
