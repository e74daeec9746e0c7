// @ts-check
// The place of the caret in a configuration in YAML or JSON that is being written: tolerant of what is not finished.

/**
 * @typedef {{name: string, start: number}} Key
 * @typedef {{isMap: boolean, isFlow: boolean, column: number, key: string | null, keys: Key[]}} Frame A mapping or list that encloses a place.
 *
 * @typedef {object} Caret
 * @property {(string | null)[]} path Keys to the mapping whose key, or to the value, that is being written; `null` for an item of a list.
 * @property {boolean} isKey Whether it may be a key.
 * @property {boolean} isFlow Whether it is within braces or brackets.
 * @property {number} column Indentation of the keys of the mapping.
 * @property {string[]} siblings The other keys of the mapping.
 * @property {string[]} rootKeys The other keys of the whole configuration.
 * @property {string} prefix What is written before the caret.
 * @property {number} start First character of the word at the caret.
 * @property {number} end End of the word.
 * @property {string} quote The quotation mark before the word, if any.
 */

/** A key of a block mapping, with the colon after it. */
const BLOCK_KEY = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^\s:#{}[\],"'&*!|>%@`-][^:#]*|-[^\s:#][^:#]*)\s*:(?=\s|$)/;

/** A scalar within braces or brackets; one whose quotation mark is not closed ends with its line. */
const FLOW_SCALAR = /^("(?:[^"\\]|\\.)*"?|'[^']*'?|(?:[^\s,[\]{}:"'#]|:(?![\s,[\]{}]|$))(?:[^,[\]{}:#]|:(?![\s,[\]{}]|$)|(?<!\s)#)*)/;

/** The name without quotation marks. @param {string} text */
function unquoted(text) {
  const trimmed = text.trim();
  return /^["']/.test(trimmed) ? trimmed.replace(/^["']|["']$/g, "") : trimmed;
}

/** Keys that lead to what follows in the last of `frames`. @param {Frame[]} frames */
function pathOf(frames) {
  return frames.map((frame) => (frame.isMap ? (frame.key ?? "") : null));
}

/**
 * The place of `caret` in `text`. `undefined` in comments and in texts of several lines, and where nothing can be completed.
 * @param {string} text
 * @param {number} caret
 * @returns {Caret | undefined}
 */
export function caretIn(text, caret) {
  /** @type {Frame[]} */
  const frames = [];
  /** @type {{path: (string | null)[], isKey: boolean, frame: Frame | undefined, isFlow: boolean, column: number, start: number} | undefined} */
  let found;
  /** @type {Frame | undefined} */
  let root;
  const push = (/** @type {Partial<Frame>} */ frame) => {
    const whole = { isMap: true, isFlow: false, column: 0, key: null, keys: [], ...frame };
    frames.push(whole);
    root ??= whole;
    return whole;
  };
  const top = () => frames.at(-1);
  const leave = (/** @type {number} */ column, /** @type {boolean} */ isItem) => {
    for (let last = top(); last && (last.column > column || (!isItem && !last.isMap && last.column === column)); last = top()) frames.pop();
  };
  /** The block mapping with keys at `column`. @param {number} column */
  const mapping = (column) => {
    leave(column, false);
    const last = top();
    return last?.isMap && last.column === column ? last : push({ column });
  };
  /** @param {Frame} frame @param {string} name @param {number} start */
  const enter = (frame, name, start) => {
    frame.key = name;
    frame.keys.push({ name, start });
  };
  /** @param {boolean} isKey @param {number} start */
  const find = (isKey, start) => {
    const frame = isKey ? top() : undefined;
    const path = pathOf(isKey ? frames.slice(0, -1) : frames);
    found ??= { path, isKey, frame, isFlow: top()?.isFlow ?? false, column: frame?.column ?? 0, start };
  };

  /** Reads what is within braces or brackets from `from` to the end of the line. @param {string} line @param {number} from @param {number} offset */
  const readFlow = (line, from, offset) => {
    const at = caret - offset;
    const isBelow = () => top()?.isFlow === true;
    for (let next = from; ; ) {
      const blank = /^\s*/.exec(line.slice(next))?.[0].length ?? 0;
      const [rest, start] = [line.slice(next + blank), next + blank];
      const scalar = FLOW_SCALAR.exec(rest)?.[0].trimEnd() ?? "";
      const last = top();
      const isComment = rest.startsWith("#");
      // A value needs a space after its colon.
      const isHere = isBelow() && at >= next && (at < start || (at === start && scalar === "") || (scalar !== "" && at <= start + scalar.length));
      if (isHere && !(at === next && line[at - 1] === ":")) find(last?.isMap === true && last.key === null, offset + (at < start ? at : start));
      if (rest === "" || isComment) return;
      next = start + (scalar.length || 1);
      if (scalar !== "") {
        if (last?.isMap && last.key === null) enter(last, unquoted(scalar), offset + start);
      } else if (rest[0] === "{" || rest[0] === "[") push({ isMap: rest[0] === "{", isFlow: true });
      else if (rest[0] === "}" || rest[0] === "]") {
        if (isBelow()) frames.pop();
        if (!isBelow()) return;
      } else if (rest[0] === "," && last) last.key = null;
    }
  };

  /** Indentation of the key of a text of several lines that is being read. @type {number | undefined} */
  let literal;
  let offset = 0;
  for (const line of text.split("\n")) {
    const at = caret - offset;
    const isHere = at >= 0 && at <= line.length;
    const indentation = /^ */.exec(line)?.[0].length ?? 0;
    const isBlank = line.trim() === "";
    if (literal !== undefined && !isBlank && indentation <= literal) literal = undefined;
    if (top()?.isFlow) readFlow(line, 0, offset);
    else if (literal !== undefined) {
      if (isHere && at > literal) return undefined;
    } else if (/^---(\s|$)/.test(line)) frames.length = 0;
    else if (isBlank) {
      if (isHere) {
        mapping(at);
        find(true, caret);
      }
    } else {
      let start = indentation;
      for (let dash = /^-(\s+|$)/.exec(line.slice(start)); dash; dash = /^-(\s+|$)/.exec(line.slice(start))) {
        leave(start, true);
        const last = top();
        if (!last || last.isMap || last.column !== start) push({ isMap: false, column: start });
        start += dash[0].length;
      }
      const rest = line.slice(start);
      const key = BLOCK_KEY.exec(rest);
      if (rest === "") {
        if (isHere && at === start && /\s$/.test(line)) {
          mapping(start);
          find(true, caret);
        }
      } else if (/^[{[]/.test(rest)) {
        leave(start, false);
        readFlow(line, start, offset);
      } else if (!rest.startsWith("#")) {
        const frame = mapping(start);
        const name = key ? key[1] : rest;
        const isInKey = isHere && at >= start && at <= start + name.length;
        if (isInKey) find(true, offset + start);
        enter(frame, unquoted(name), offset + start);
        if (key) {
          const value = start + key[0].length;
          const written = line.slice(value);
          const first = value + (/^\s*/.exec(written)?.[0].length ?? 0);
          if (/^\s*[|>][+-]?\d?\s*(#.*)?$/.test(written)) literal = start;
          else if (/^[{[]/.test(line.slice(first))) readFlow(line, first, offset);
          else if (isHere && at > value && !/(^|\s)#/.test(line.slice(value, at))) find(false, offset + Math.min(first, at));
        }
      }
    }
    offset += line.length + 1;
  }
  if (!found) return undefined;
  const quote = /["']/.test(text[found.start] ?? "") && found.start < caret ? text[found.start] : "";
  const start = found.start + quote.length;
  const others = (/** @type {Frame | undefined} */ frame) => frame?.keys.filter((key) => key.start !== found?.start).map((key) => key.name) ?? [];
  return {
    ...found,
    quote,
    start,
    prefix: text.slice(start, caret),
    end: caret + (/^\w*/.exec(text.slice(caret))?.[0].length ?? 0),
    siblings: others(found.frame),
    rootKeys: others(root),
  };
}
