// @ts-check
// Words of a POSIX shell.

/** @param {string} text */
export function shellWord(text) {
  return /^[A-Za-z0-9_./:=,+@%-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}
