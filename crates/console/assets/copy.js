// @ts-check
// Copies texts, also on a server without HTTPS, where browsers have no clipboard interface.

/** @param {string} text */
export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  // Other elements are inert while a dialog is open.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  const focused = document.activeElement;
  field.select();
  document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
}

/** States for a moment that the text was copied. @param {HTMLElement} button */
export function confirmCopy(button) {
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), 1500);
}
