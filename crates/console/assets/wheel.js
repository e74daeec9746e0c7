// A Python script as a wheel: a package of one module, which needs no build.

/** Table of the CRC-32 of ZIP files. */
const CRC = Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = CRC[(value ^ byte) & 0xff] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

/**
 * The name of a module for the file `name`: letters, digits and underscores.
 * @param {string} name
 */
export function moduleOf(name) {
  const plain = name.replace(/\.py$/i, "").replace(/[^A-Za-z0-9_]/g, "_");
  return /^[A-Za-z_]/.test(plain) ? plain : `_${plain}`;
}

/**
 * A wheel with the script as its only module. The same script has the same wheel.
 * @param {string} name the name of the script
 * @param {Uint8Array} script
 * @returns {File}
 */
export function wheelOf(name, script) {
  const module = moduleOf(name);
  // Names of distributions begin with a letter.
  const distribution = `script_${module}`;
  const folder = `${distribution}-0.dist-info`;
  const encode = (/** @type {string} */ text) => new TextEncoder().encode(text);
  /** @type {[string, Uint8Array][]} */
  const files = [
    [`${module}.py`, script],
    [`${folder}/METADATA`, encode(`Metadata-Version: 2.1\nName: ${distribution.replaceAll("_", "-")}\nVersion: 0\n`)],
    [`${folder}/WHEEL`, encode("Wheel-Version: 1.0\nGenerator: tunesmith\nRoot-Is-Purelib: true\nTag: py3-none-any\n")],
  ];
  const record = [...files.map(([path]) => path), `${folder}/RECORD`].map((path) => `${path},,\n`).join("");
  files.push([`${folder}/RECORD`, encode(record)]);
  return new File(zip(files).map(copied), `${distribution}-0-py3-none-any.whl`);
}

/** The bytes in a buffer of their own. @param {Uint8Array} bytes */
function copied(bytes) {
  return Uint8Array.from(bytes).buffer;
}

/**
 * The parts of a ZIP file without compression.
 * @param {[string, Uint8Array][]} files
 * @returns {Uint8Array[]}
 */
function zip(files) {
  const [parts, directory] = [/** @type {Uint8Array[]} */ ([]), /** @type {Uint8Array[]} */ ([])];
  let offset = 0;
  for (const [name, content] of files) {
    const path = new TextEncoder().encode(name);
    // Version, flags, method, time and date (1980-01-01), checksum, sizes, length of the name.
    const common = fields([[20, 2], [0, 2], [0, 2], [0, 2], [0x21, 2], [crc32(content), 4], [content.length, 4], [content.length, 4], [path.length, 2], [0, 2]]);
    directory.push(fields([[0x02014b50, 4], [20, 2]]), common, fields([[0, 2], [0, 2], [0, 2], [0o100644 * 0x10000, 4], [offset, 4]]), path);
    const entry = [fields([[0x04034b50, 4]]), common, path, content];
    parts.push(...entry);
    offset += size(entry);
  }
  const length = size(directory);
  const end = fields([[0x06054b50, 4], [0, 2], [0, 2], [files.length, 2], [files.length, 2], [length, 4], [offset, 4], [0, 2]]);
  return [...parts, ...directory, end];
}

/** @param {Uint8Array[]} parts */
function size(parts) {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

/** Numbers with their widths in bytes, the lowest byte first. @param {[number, number][]} numbers */
function fields(numbers) {
  return Uint8Array.from(numbers.flatMap(([value, width]) => Array.from({ length: width }, (_, index) => Math.floor(value / 256 ** index) % 256)));
}
