// @ts-check
// Ticked jobs of a list: they are part of the address, so that they stay ticked on other pages of the list and in a link.

/** The boxes of the list. @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll('input[type="checkbox"][name="job"]')].filter((box) => box instanceof HTMLInputElement);
}

/** @returns {string[]} the jobs in the address */
function ticked() {
  return new URLSearchParams(location.search).getAll("job");
}

/** Gives the form of the filter the ticked jobs, so that they stay ticked under another filter. @param {string[]} jobs */
function keepUnderFilter(jobs) {
  const form = document.querySelector("form.filter");
  if (!form) return;
  form.querySelectorAll('input[type="hidden"][name="job"]').forEach((input) => input.remove());
  for (const job of jobs) {
    const input = document.createElement("input");
    Object.assign(input, { type: "hidden", name: "job", value: job });
    form.append(input);
  }
}

/** Ticks the boxes of the jobs in the address, and enables the button with enough of them. */
function show() {
  const jobs = ticked();
  keepUnderFilter(jobs);
  for (const box of boxes()) box.checked = jobs.includes(box.value);
  const button = document.getElementById("compare-jobs");
  if (button instanceof HTMLButtonElement) {
    button.disabled = jobs.length < 2;
    button.textContent = jobs.length < 2 ? "Compare" : `Compare ${jobs.length} jobs`;
  }
}

/** @param {URL} address @param {string[]} jobs */
function withJobs(address, jobs) {
  address.searchParams.delete("job");
  for (const job of jobs) address.searchParams.append("job", job);
  return address;
}

/** Makes the ticks of a list of jobs work. */
export function useTicks() {
  const list = document.querySelector('[data-live="jobs"]');
  if (!list) return;
  list.addEventListener("change", (event) => {
    if (!(event.target instanceof HTMLInputElement) || event.target.name !== "job") return;
    const { checked, value } = event.target;
    const jobs = ticked().filter((job) => job !== value);
    if (checked) jobs.push(value);
    history.replaceState(null, "", withJobs(new URL(location.href), jobs));
    for (const link of list.querySelectorAll("a[rel]")) {
      if (link instanceof HTMLAnchorElement) link.href = withJobs(new URL(link.href), jobs).href;
    }
    show();
  });
  // The list is replaced when jobs change.
  new MutationObserver(show).observe(list, { childList: true });
  show();
}
