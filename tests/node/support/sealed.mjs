// The sum of a journal line, by which a test can write lines that the engine takes for its own.
const FACTOR = 0x9e3779b97f4a7c15n;
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** The text of an entry, which is a line without its sum. */
export const unsealed = (line) => line.replace(/,"sum":"[^"]*"}$/, '}');

/** The line of an entry's text, or of a line that was changed. */
export function sealed(line) {
  const text = unsealed(line);
  return `${text.slice(0, -1)},"sum":"${sumOf(Buffer.from(text))}"}`;
}

function sumOf(bytes) {
  let state = FACTOR ^ BigInt(bytes.length);
  for (let at = 0; at < bytes.length; at += 8) {
    const word = [...bytes.subarray(at, at + 8)].reduceRight((high, byte) => (high << 8n) | BigInt(byte), 0n);
    state = BigInt.asUintN(64, (state ^ word) * FACTOR);
    state ^= state >> 32n;
  }
  const digits = Array.from({ length: 10 }, (_, place) => Number((state >> BigInt(14 + 5 * place)) & 31n));
  return digits.map((digit) => ALPHABET[digit]).join('');
}
