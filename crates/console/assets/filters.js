// @ts-check
// Filters as text: what a brushed plot adds to the filter of the page. The server parses them; see docs/reference/filters.md.

/**
 * The restrictions that all have to hold. A filter of another form is one restriction in parentheses.
 * @param {string} filter
 * @returns {string[]}
 */
export function terms(filter) {
  /** @type {string[]} */
  const found = [];
  let [start, depth, isQuoted] = [0, 0, false];
  const text = filter.trim();
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (isQuoted) {
      if (c === "\\") at += 1;
      else if (c === '"') isQuoted = false;
      continue;
    }
    if (c === '"') isQuoted = true;
    else if (c === "(") depth += 1;
    else if (c === ")") depth -= 1;
    else if (depth === 0 && text.startsWith(" OR ", at)) return [`(${text})`];
    else if (depth === 0 && text.startsWith(" AND ", at)) {
      found.push(text.slice(start, at).trim());
      start = at + " AND ".length;
    }
  }
  found.push(text.slice(start).trim());
  return found.filter((term) => term !== "");
}

/**
 * A text as the value of a filter, or the name in a field.
 * @param {string} text
 */
export function quoted(text) {
  const isPlain = /^[^\s:=<>!()"\\*]+$/u.test(text) && !["AND", "OR", "NOT"].includes(text);
  return isPlain ? text : `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/**
 * The field of a parameter or a metric.
 * @param {"parameters" | "metric"} root
 * @param {string} name
 */
export function fieldOf(root, name) {
  return `${root}.${quoted(name)}`;
}

/**
 * `filter` with other restrictions of `field`.
 * @param {string} filter
 * @param {string} field
 * @param {string[]} restrictions
 */
export function withRestrictions(filter, field, restrictions) {
  const isOfField = (/** @type {string} */ term) =>
    [">=", "<=", "="].some((sign) => term.startsWith(`${field} ${sign} `) || term.startsWith(`(${field} ${sign} `));
  return [...terms(filter).filter((term) => !isOfField(term)), ...restrictions].join(" AND ");
}

/**
 * The restrictions of a field to a range, whose ends may be infinite.
 * @param {string} field
 * @param {[number, number]} range
 * @param {boolean} isInteger
 */
export function rangeOf(field, [low, high], isInteger) {
  const rounded = (/** @type {number} */ value) => String(Number(value.toPrecision(6)));
  const [from, to] = isInteger ? [String(Math.ceil(low)), String(Math.floor(high))] : [rounded(low), rounded(high)];
  return [...(low > -Infinity ? [`${field} >= ${from}`] : []), ...(high < Infinity ? [`${field} <= ${to}`] : [])];
}

/**
 * The restriction of a field to some levels.
 * @param {string} field
 * @param {string[]} levels
 */
export function levelsOf(field, levels) {
  const each = levels.map((level) => `${field} = ${quoted(level)}`);
  return each.length > 1 ? [`(${each.join(" OR ")})`] : each;
}
