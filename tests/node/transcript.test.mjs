import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, exportTranscript } from 'agent-roundtable';
import { decisions, speaker } from './support/conversations.mjs';

async function ran(...words) {
  const roundtable = createRoundtable({
    conversationId: 'c',
    purpose: 'agree\n# on <b>this</b>',
    participants: [speaker('ana', ...words)],
    selector: decisions(...words.map(() => ({ kind: 'speak', participantId: 'ana' }))),
    limits: { maxTurnsPerRun: 9 },
  });
  await roundtable.run();
  return roundtable.snapshot();
}

test('C52 a transcript is exported as Markdown in which no content makes a header', async () => {
  const snapshot = await ran('hello', 'a\u2028## 2. `bo`\r# x </blockquote><h2>2. bo</h2>');
  const text = exportTranscript(snapshot, 'markdown');
  const headers = text.split(/[\r\n\v\f\x85\u2028\u2029]/).filter((line) => line.startsWith('#'));
  assert.deepEqual(headers, ['# Conversation `c`', '## 1. `ana`', '## 2. `ana`']);
  assert.match(text, /^> # x &lt;\/blockquote>&lt;h2>2\. bo&lt;\/h2>$/m);
  assert.match(text, /^> # on &lt;b>this&lt;\/b>$/m);
  assert.equal(exportTranscript(await snapshot, 'markdown'), text);
});

test('C52 a transcript is exported as JSON Lines that hold every message and turn', async () => {
  const snapshot = await ran('hello', 'a\u2028b\u0085');
  const text = exportTranscript(snapshot, 'jsonl');
  assert.doesNotMatch(text, /[\x85\u2028]/);
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const [{ type, ...head }] = lines;
  const { conversationId, revision, status, purpose, participants } = snapshot;
  assert.equal(type, 'conversation');
  assert.deepEqual(head, { conversationId, revision, status, purpose, participants });
  const of = (kind) => lines.filter((line) => line.type === kind).map(({ type: _, ...rest }) => rest);
  assert.deepEqual(of('message'), snapshot.messages);
  assert.deepEqual(of('turn'), snapshot.turns);
  assert.equal(lines.length, 1 + snapshot.messages.length + snapshot.turns.length);
});

test('C52 what is no snapshot, or no format, is refused with its place', async () => {
  const snapshot = await ran('hello');
  const refused = (given, format, message) =>
    assert.throws(() => exportTranscript(given, format), { code: 'invalid-config', message });
  refused(snapshot, 'html', /format/);
  refused(snapshot, undefined, /format/);
  for (const given of [undefined, null, 'x', 7]) refused(given, 'jsonl', /snapshot/);
  refused({ ...snapshot, messages: undefined }, 'jsonl', /snapshot\.messages/);
  refused(
    { ...snapshot, messages: [{ ...snapshot.messages[0], content: 7n }] },
    'jsonl',
    /snapshot\.messages\[0\]\.content/,
  );
  refused({ ...snapshot, revision: 1.5 }, 'markdown', /snapshot/);
  refused({ ...snapshot, conversationId: undefined }, 'markdown', /snapshot/);
});
