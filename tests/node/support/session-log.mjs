// Entries of session logs for tests, and the samples.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export const AT = '2027-01-05T08:00:01.000Z';
const samples = new URL('../../fixtures/session-logs/', import.meta.url);

export const entry = (event, payload) => ({ schemaVersion: 1, timestamp: AT, sessionId: 's', event, ...payload });
export const said = (content, rest = {}) => ({
  id: 'm1',
  role: 'assistant',
  state: 'complete',
  timestamp: AT,
  content,
  ...rest,
});
export const response = (message, round = 1, executionId = 'x') =>
  entry('provider_response_normalized', { executionId, round, response: message });
export const toText = (entries) => entries.map((one) => `${JSON.stringify(one)}\n`).join('');
export const toolResult = (result) =>
  entry('tool_execution_result', { executionId: 'x', round: 1, success: true, result });

export const sample = (name) => readFileSync(new URL(name, samples), 'utf8');
export const samplePath = (name) => new URL(name, samples).pathname;

export const digest = (bytes) => createHash('sha256').update(bytes).digest('hex');
export const reference = (relativePath, bytes) => ({
  kind: 'external-payload',
  encoding: 'json',
  sha256: digest(bytes),
  byteLength: Buffer.byteLength(bytes),
  relativePath,
});

/** A source in memory that notes what it was asked for. */
export function memory(files) {
  const reads = [];
  return {
    reads,
    readBytes(path, maxBytes) {
      reads.push([path, maxBytes]);
      return path in files ? new TextEncoder().encode(files[path]) : undefined;
    },
  };
}

/** A fresh folder with these files; removed when the test ends. */
export function folder(t, files = {}) {
  const root = mkdtempSync(join(tmpdir(), 'replay-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), content);
  }
  return root;
}

/** What a call throws; fails where it does not. */
export function thrown(call) {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

export const paths = (error) => error.issues.map((issue) => issue.path);
