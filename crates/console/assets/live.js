// Keeps a page up to date: when the server reports a change, the parts of the page that differ are replaced.

import { showLocalTimes } from "./times.js";

/** Time between two loads while no stream is open, in milliseconds. */
const POLL = 15000;

/** Least time between two loads, in milliseconds. */
const PAUSE = 1000;

/** @returns {string} the address of the stream for this page */
function stream() {
  if (/^\/console\/(models|projects\/[^/]+\/models\/[^/]+)$/.test(location.pathname)) return `${location.pathname}/events`;
  const one = location.pathname.match(/^\/console\/projects\/[^/]+\/(jobs|locations\/[^/]+\/studies)\/[^/]+/);
  return one ? `${one[0]}/events` : "/console/events";
}

/** Loads the page again and replaces its changed parts. A part with the focus in a field or with an open dialog keeps its content. */
export async function refresh() {
  const response = await fetch(location.href, { headers: { "x-console-fragment": "1" } });
  if (response.redirected || response.status === 404) {
    location.reload();
    return;
  }
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  showLocalTimes(fresh);
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.querySelector(`[data-live="${part.getAttribute("data-live")}"]`);
    if (!next || next.innerHTML === part.innerHTML || part.querySelector("dialog[open]")) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    if (focused?.matches("input:not([type=checkbox]), textarea, select")) continue;
    const path = focused && place(part, focused);
    const scrolled = [...part.querySelectorAll(".scroll, pre")].map((element) => [element.scrollLeft, element.scrollTop]);
    part.replaceChildren(...next.childNodes);
    part.querySelectorAll(".scroll, pre").forEach((element, index) => {
      const [left, top] = scrolled[index] ?? [0, 0];
      element.scrollTo(left, top);
    });
    const again = path && at(part, path);
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  }
  document.dispatchEvent(new Event("refreshed"));
}

/**
 * @param {Element} root
 * @param {Element} element
 * @returns {number[]} the indices that lead from `root` to `element`
 */
function place(root, element) {
  const path = [];
  for (let now = element; now !== root && now.parentElement; now = now.parentElement) {
    path.unshift([...now.parentElement.children].indexOf(now));
  }
  return path;
}

/**
 * @param {Element} root
 * @param {number[]} path
 * @returns {Element | undefined}
 */
function at(root, path) {
  return path.reduce((/** @type {Element | undefined} */ now, index) => now?.children[index], root);
}

/** Keeps the page up to date while it is visible. A hidden page takes no connection. */
export function keepUpToDate() {
  if (!document.querySelector("[data-live]")) return;
  /** @type {EventSource | null} */
  let source = null;
  let last = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const soon = () => {
    if (timer !== undefined) return;
    timer = setTimeout(async () => {
      last = Date.now();
      try {
        await refresh();
      } catch {
        document.documentElement.dataset.offline = "";
        return;
      } finally {
        timer = undefined;
      }
      delete document.documentElement.dataset.offline;
    }, Math.max(0, last + PAUSE - Date.now()));
  };
  const open = () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source || source.readyState === EventSource.CLOSED) {
      source = new EventSource(stream());
      // A change after the page was rendered and before the stream was open has no event.
      source.addEventListener("open", soon);
      source.addEventListener("changed", soon);
    }
  };
  document.addEventListener("visibilitychange", () => {
    open();
    if (!document.hidden) soon();
  });
  setInterval(() => {
    if (!document.hidden && source?.readyState !== EventSource.OPEN) {
      open();
      soon();
    }
  }, POLL);
  open();
}
