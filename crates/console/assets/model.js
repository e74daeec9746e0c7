// @ts-check
// The form of a model that predicts, and the same request for programs.
import { sendText } from "./actions.js";
import { refresh } from "./live.js";
import { shellWord } from "./words.js";

/** Number of characters of a response that are shown. */
const MOST_SHOWN = 100_000;

const section = /** @type {HTMLElement} */ (document.getElementById("try"));
const form = /** @type {HTMLFormElement} */ (document.getElementById("predict"));
const choice = /** @type {HTMLSelectElement} */ (form.elements.namedItem("version"));
const field = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("request"));
const { method = "", project = "", model = "", selected = "" } = section.dataset;

/** The address of the chosen version, or of the model for its default version. */
function target() {
  return `${method}${choice.value ? `/versions/${choice.value}` : ""}:predict`;
}

/** Offers the versions that answer predictions. */
function offerVersions() {
  const found = document.getElementById("ready");
  const versions = /** @type {string[]} */ (JSON.parse(found?.dataset.versions ?? "[]"));
  const chosen = choice.options.length > 0 ? choice.value : new URLSearchParams(location.search).has("version") ? selected : "";
  const options = [["", "the default version"], ...versions.map((name) => [name, name])];
  choice.replaceChildren(...options.map(([value, text]) => Object.assign(document.createElement("option"), { value, textContent: text })));
  choice.value = versions.includes(chosen) ? chosen : "";
  section.hidden = versions.length === 0;
  showPrograms();
}

/** @param {string} id @param {string} text */
function showText(id, text) {
  const found = document.getElementById(id);
  if (found) found.textContent = text;
}

/** The request in one line, if it is JSON. */
function compact() {
  // Numbers stay as they are written.
  return field.value.trim().replace(/\s*\n\s*/g, " ");
}

/** Shows the request as curl, Python and the command line send it. */
function showPrograms() {
  const address = `${location.origin}${target()}`;
  const isSignedIn = Boolean(document.querySelector('meta[name="csrf"]')?.getAttribute("content"));
  const token = "TUNESMITH_ACCESS_TOKEN";
  const header = isSignedIn ? ` \\\n  -H "authorization: Bearer $${token}"` : "";
  showText("as-curl", `curl ${address} \\\n  -H 'content-type: application/json'${header} \\\n  -d ${shellWord(compact())}`);
  const headers = `{"content-type": "application/json"${isSignedIn ? `, "authorization": "Bearer " + os.environ["${token}"]` : ""}}`;
  const imports = isSignedIn ? "import json\nimport os\nimport urllib.request" : "import json\nimport urllib.request";
  showText("as-python", `${imports}

body = ${JSON.stringify(compact())}
headers = ${headers}
request = urllib.request.Request("${address}", body.encode(), headers)
print(json.load(urllib.request.urlopen(request)))`);
  const version = choice.value ? ` --version ${choice.value}` : "";
  showText("as-command", `echo ${shellWord(compact())} |\n  tunesmith predict --model ${model}${version} --project ${project} --server ${location.origin} --json-request -`);
}

/** @param {string} text */
function showError(text) {
  const notice = document.getElementById("prediction-error");
  if (!notice) return;
  notice.textContent = text;
  notice.hidden = !text;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const bytes = new TextEncoder().encode(field.value).length;
  const most = Number(section.dataset.maxBytes);
  if (bytes > most) {
    showError(`the request has ${bytes} bytes; allowed: ${most}`);
    return;
  }
  const button = /** @type {HTMLButtonElement} */ (form.querySelector("button[type=submit]"));
  button.disabled = true;
  showText("latency", "");
  const begin = performance.now();
  const { error, text } = await sendText(target(), field.value);
  const elapsed = performance.now() - begin;
  button.disabled = false;
  showText("latency", `${elapsed < 10 ? elapsed.toFixed(1) : Math.round(elapsed)} ms with the network`);
  // An error of the model is an answer.
  const ofModel = error ? "" : errorOf(text);
  showError(error || ofModel);
  const rest = text.length - MOST_SHOWN;
  showText("prediction", rest > 0 ? `${text.slice(0, MOST_SHOWN)}\n… and ${rest} more characters` : text);
  await refresh();
});

/** The first line of the error in an answer of the model, if it has one. @param {string} text */
function errorOf(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error.split("\n")[0] : "";
  } catch {
    return "";
  }
}

form.addEventListener("input", showPrograms);
offerVersions();
// A version becomes ready, or the default, while the page is open.
const figures = document.querySelector('[data-live="figures"]');
if (figures) new MutationObserver(offerVersions).observe(figures, { childList: true });
