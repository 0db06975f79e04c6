// C51: recorded traces give the same effects in Node as they gave natively.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import 'agent-roundtable';
import { RoundtableError } from 'agent-roundtable';
import { replayTrace } from 'agent-roundtable/testing';
import { folder, overAll, recorded } from './support/traces.mjs';

const { all, traces } = recorded();
const files = Object.keys(traces);

test('C51 at least 100 recorded traces give one hash over all effects, native and in Node', () => {
  assert.ok(files.length >= 100, `${files.length} traces`);
  const hashes = Object.fromEntries(files.map((f) => [f, replayTrace(readFileSync(folder + f, 'utf8'))]));
  assert.deepEqual(hashes, traces);
  assert.equal(overAll(hashes, files), all);
});

test('C51 one input at another time gives another hash', () => {
  const lines = readFileSync(folder + files[0], 'utf8').split('\n');
  const step = JSON.parse(lines[1]);
  step.now.wall += 1;
  lines[1] = JSON.stringify(step);
  assert.notEqual(replayTrace(lines.join('\n')), traces[files[0]]);
});

test('C51 a line that is no step is refused by its number', () => {
  const [header] = readFileSync(folder + files[0], 'utf8').split('\n');
  const refused = (error) => {
    assert.ok(error instanceof RoundtableError);
    assert.equal(error.code, 'invalid-config');
    assert.match(error.message, /^trace line 2: /);
    return true;
  };
  assert.throws(() => replayTrace(`${header}\n{}`), refused);
});
