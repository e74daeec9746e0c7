// The upload of a package or script of a new job.
import { request } from "./actions.js";
import { moduleOf, wheelOf } from "./wheel.js";

/** @param {ArrayBuffer} bytes @returns {Promise<string>} the SHA-256 in hexadecimal digits */
async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Uploads the file that is chosen, and passes its address for `packageUris` on. A script becomes a package, whose module is passed on, too.
 * @param {() => string} project
 * @param {(uri: string, module: string) => Promise<void>} use
 */
export function offerUpload(project, use) {
  const [input, note] = [document.getElementById("package"), document.getElementById("package-note")];
  if (!(input instanceof HTMLInputElement) || !note) return;
  const upload = async (/** @type {File} */ file) => {
    // Browsers compute digests on secure pages only.
    if (!("subtle" in crypto)) return "packages can be uploaded over HTTPS or from the machine of the server; use tunesmith jobs submit";
    note.textContent = `Uploading ${file.name}…`;
    const isScript = /\.py$/i.test(file.name);
    const sent = isScript ? wheelOf(file.name, new Uint8Array(await file.arrayBuffer())) : file;
    const sha256 = await digest(await sent.arrayBuffer());
    const name = `projects/${encodeURIComponent(project())}/packages/${sha256}/${encodeURIComponent(sent.name)}`;
    const { error, answer } = await request("PUT", `/v1/${name}`, sent);
    if (error) return error;
    const module = isScript ? moduleOf(file.name) : "";
    await use(answer.uri, module);
    if (isScript) return `${file.name} runs as the module ${module}; name the packages that it imports in tunesmith.requirements`;
    return `${file.name} is in packageUris; name its module in pythonModule`;
  };
  input.addEventListener("change", async () => {
    const file = input.files?.[0];
    if (!file) return;
    try {
      note.textContent = await upload(file);
    } catch (error) {
      note.textContent = String(error);
    }
    input.value = "";
  });
}
