// The numbers of the lines beside a text area, with a mark at each line that has a remark.

/**
 * Shows numbers beside `field`, whose lines do not wrap.
 * @param {HTMLTextAreaElement} field
 * @returns {(remarks: {isError: boolean, line: number, text: string}[]) => void} shows remarks at their lines
 */
export function withLineNumbers(field) {
  const numbers = document.createElement("span");
  numbers.className = "numbers";
  // The remarks are listed below the text for everyone.
  numbers.setAttribute("aria-hidden", "true");
  const frame = document.createElement("span");
  frame.className = "numbered";
  field.replaceWith(frame);
  frame.append(numbers, field);
  /** @type {Map<number, {isError: boolean, text: string}>} */
  let marked = new Map();
  const show = () => {
    const count = field.value.split("\n").length;
    numbers.replaceChildren(...Array.from({ length: count }, (_, index) => {
      const number = document.createElement("span");
      number.textContent = String(index + 1);
      const mark = marked.get(index + 1);
      if (mark) {
        number.className = mark.isError ? "error" : "warning";
        number.title = mark.text;
      }
      return number;
    }));
    follow();
  };
  const follow = () => {
    numbers.scrollTop = field.scrollTop;
  };
  field.addEventListener("input", show);
  field.addEventListener("scroll", follow);
  return (remarks) => {
    marked = new Map();
    for (const { line, isError, text } of remarks) {
      const known = marked.get(line);
      marked.set(line, { isError: isError || known?.isError === true, text: known ? `${known.text}\n${text}` : text });
    }
    show();
  };
}
