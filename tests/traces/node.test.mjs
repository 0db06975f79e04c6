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

test('C51 the same inputs a millisecond later give another hash', () => {
  const texts = files.map((f) => [f, readFileSync(folder + f, 'utf8')]);
  // The longest: one that was refused at once may say nothing of time.
  const [file, text] = texts.reduce((long, other) => (other[1].length > long[1].length ? other : long));
  const [header, ...steps] = text.split('\n').filter(Boolean);
  const later = steps.map((line) => {
    const step = JSON.parse(line);
    step.now.wall += 1;
    return JSON.stringify(step);
  });
  assert.notEqual(replayTrace([header, ...later].join('\n')), traces[file]);
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
