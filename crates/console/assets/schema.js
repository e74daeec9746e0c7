// @ts-check
// What a JSON schema allows at a place of a configuration.

/**
 * @typedef {any} Schema
 * @typedef {import("./caret.js").Caret} Caret
 * @typedef {{name: string, text: string, after: string}} Proposal A key or value, its description, and what follows a new key.
 */

/**
 * The schema that `schema` stands for: the target of a reference, or the kind of value other than null.
 * @param {Schema} root
 * @param {Schema} schema
 * @returns {Schema}
 */
function resolved(root, schema) {
  for (let now = schema; ; ) {
    const reference = now?.$ref?.replace("#/$defs/", "");
    const choice = now?.anyOf?.find((/** @type {Schema} */ one) => one.type !== "null");
    if (reference) now = root.$defs[reference];
    else if (choice) now = choice;
    else return now ?? {};
  }
}

/** The forms that a whole configuration may have, given its keys. @param {Schema} root @param {string[]} keys @returns {Schema[]} */
function forms(root, keys) {
  if (!root.then || !root.else) return [root];
  if (root.if.required.some((/** @type {string} */ key) => keys.includes(key))) return [root.then];
  return keys.length > 0 ? [root.else] : [root.then, root.else];
}

/** The schema at `path` below `schema`. @param {Schema} root @param {Schema} schema @param {(string | null)[]} path */
function below(root, schema, path) {
  return path.reduce((now, key) => {
    const outer = resolved(root, now);
    return key === null ? outer.items : (outer.properties?.[key] ?? outer.additionalProperties);
  }, schema);
}

/** The values of an enumeration, or of a truth value. @param {Schema} schema @returns {Proposal[]} */
function valuesOf(schema) {
  /** @type {{const: unknown, description?: string}[]} */
  const described = (schema.oneOf ?? []).filter((/** @type {Schema} */ one) => "const" in one);
  const plain = (schema.enum ?? []).map((/** @type {unknown} */ one) => ({ const: one }));
  const truth = [schema.type].flat().includes("boolean") ? [{ const: "true" }, { const: "false" }] : [];
  return [...described, ...plain, ...truth]
    .filter((one) => typeof one.const === "string" && !one.const.endsWith("UNSPECIFIED"))
    .map((one) => ({ name: String(one.const), text: plainText(one.description), after: "" }));
}

/** A description in one line, without its marks of code. @param {string | undefined} description */
function plainText(description) {
  return (description ?? "").replaceAll("`", "").replaceAll("\n", " ");
}

/** What follows a new key with a value of `schema`: in a block, objects and lists of objects go on in the next line. @param {Schema} root @param {Schema} schema @param {Caret} caret */
function afterKey(root, schema, { isFlow, column }) {
  const value = resolved(root, schema);
  if (isFlow) return ": ";
  if (value.properties) return `:\n${" ".repeat(column + 2)}`;
  return value.items && resolved(root, value.items).properties ? `:\n${" ".repeat(column)}- ` : ": ";
}

/**
 * The keys and values that `root` allows at `caret` and that begin with what is written there, or contain it.
 * @param {Schema} root
 * @param {Caret} caret
 * @returns {Proposal[]}
 */
export function proposals(root, caret) {
  const found = forms(root, caret.rootKeys).flatMap((form) => {
    const place = resolved(root, below(root, form, caret.path));
    if (!caret.isKey || !place.properties) return valuesOf(place);
    return Object.entries(place.properties)
      .filter(([name]) => !caret.siblings.includes(name))
      .map(([name, schema]) => ({ name, text: plainText(schema.description ?? resolved(root, schema).description), after: afterKey(root, schema, caret) }));
  });
  const written = caret.prefix.toLowerCase();
  const rank = (/** @type {Proposal} */ { name }) => name.toLowerCase().indexOf(written);
  return found.filter((one) => rank(one) >= 0).sort((a, b) => Math.sign(rank(a)) - Math.sign(rank(b)));
}
