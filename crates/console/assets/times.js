// Times in the time zone of the visitor.

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/**
 * Shows the times below `root` in the time zone of the visitor; the title has the exact time in both zones.
 * @param {ParentNode} root
 */
export function showLocalTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const text = element.getAttribute("datetime") ?? "";
    const time = new Date(text);
    if (Number.isNaN(time.valueOf())) continue;
    element.textContent = full.format(time);
    element.setAttribute("title", `${exact.format(time)}\n${text}`);
  }
}
