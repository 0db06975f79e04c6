// The traces that the simulator recorded: inputs with their times, and the hash over the effects that
// followed natively.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Where `cargo test --test simulation` leaves them. */
export const folder = fileURLToPath(new URL('../../../target/tmp/traces/', import.meta.url));

/** @returns {{all: string, traces: Record<string, string>}} the hash of each trace by file, and one over all */
export function recorded() {
  return JSON.parse(readFileSync(`${folder}hashes.json`, 'utf8'));
}

/** One hash over the hashes of all traces, in the order they were recorded. */
export function overAll(hashes, files) {
  const sum = createHash('sha256');
  for (const file of files) sum.update(hashes[file]);
  return sum.digest('hex');
}
