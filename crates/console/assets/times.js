// Times in the time zone of the visitor; in lists as distances from now, such as "2 min ago".

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const distance = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });

/** Units of distances with their seconds, the largest first. @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** Days after which the date says more than the distance. */
const MOST_DAYS = 30;

/** Time between two updates of distances in milliseconds. */
const PAUSE = 30000;

/**
 * The distance of `time` from `now`, or the date if it is long.
 * @param {Date} time
 * @param {number} now in milliseconds
 */
export function ago(time, now) {
  const seconds = Math.round((time.valueOf() - now) / 1000);
  const length = Math.abs(seconds);
  if (length >= MOST_DAYS * 86400) return full.format(time);
  const unit = UNITS.find(([, size]) => length >= size);
  return unit ? distance.format(Math.trunc(seconds / unit[1]), unit[0]) : "just now";
}

/**
 * Shows the times below `root` in the time zone of the visitor; the title has the exact time in both zones.
 * @param {ParentNode} root
 */
export function showLocalTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const text = element.getAttribute("datetime") ?? "";
    const time = new Date(text);
    if (Number.isNaN(time.valueOf())) continue;
    element.textContent = element.closest(".ago") ? ago(time, Date.now()) : full.format(time);
    element.setAttribute("title", `${exact.format(time)}\n${text}`);
  }
}

/** Keeps distances up to date while the page is open. */
export function keepTimes() {
  if (!document.querySelector(".ago")) return;
  setInterval(() => {
    if (!document.hidden) showLocalTimes(document);
  }, PAUSE);
}
