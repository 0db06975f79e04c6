// Damaged journals: every change of any member of any entry is refused by the index of the entry, before
// any host code runs; where a line has the sum of its text, the fold refuses what could not have happened.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRoundtable, externalParticipant } from 'agent-roundtable';
import { parallel, rejects, settled, speak, wait } from './support/conversations.mjs';
import { sealed, unsealed } from './support/sealed.mjs';
import { call, cacheHit, report } from './support/metering.mjs';
import {
  asksLeave,
  asksPerson,
  batchesOf,
  durable,
  finish,
  go,
  listed,
  load,
  registry,
  steady,
  storeOf,
} from './support/stored.mjs';

const KINDS = [
  'created',
  'run-started',
  'selecting',
  'selected',
  'group-started',
  'turn-started',
  'turn-settled',
  'turn-prepared',
  'turn-failed',
  'turn-stopped',
  'turn-unsettled',
  'late-result',
  'group-committed',
  'answered',
  'withdrawn',
  'input-accepted',
  'call-admitted',
  'usage-reported',
  'execution-recorded',
  'reconciled',
  'migrated',
  'run-ended',
];
const pricing = { version: 'p1', cost: () => ({ currency: 'EUR', minorUnits: '12' }) };
const ID = 'damaged';
let executions = 0;

async function work(_turn, { services }) {
  executions += 1;
  const number = executions;
  const id = `call-${number}`;
  await Promise.all([
    services.admitModelCall(call(id)),
    services.journal.append({ id: `record-${number}`, executionId: 'e', sessionId: 's', result: [1, { a: null }] }),
  ]);
  await services.recordUsage(report(id, { tokens: { input: 3, output: 4 }, raw: { seen: true }, final: false }));
  await services.recordUsage(report(id, { tokens: { input: 3, output: 5 } }));
  await services.recordUsage(cacheHit(`hit-${number}`));
}

function parts(extra = {}) {
  const metered = { work, modelCalls: 'metered', ...extra };
  const a = steady('a', ['one', { asks: [asksLeave, asksPerson('pia')], after: 'two' }, 'three', 'four'], metered);
  const b = steady('b', ['b one', 'b two'], metered);
  const selector = listed(
    speak('a'),
    parallel('b', 'a'),
    wait('pia', 'and?'),
    speak('b'),
    wait('pia'),
    speak('a'),
    speak('a'),
  );
  return { agents: [a, b], selector };
}

/** A journal with every kind of entry. */
async function whole() {
  const store = durable();
  let hang;
  const first = parts({ work: (...given) => (hang === undefined ? work(...given) : hang) });
  const roundtable = createRoundtable({
    conversationId: ID,
    purpose: 'to be damaged',
    participants: [...first.agents, externalParticipant({ id: 'pia', description: 'a person' })],
    selector: { ...first.selector.create({}), modelCalls: 'none' },
    limits: { maxTurnsPerRun: 20, settleTimeoutMs: 10, maxModelCallsPerConversation: 1000 },
    maxConcurrentParticipants: 2,
    recovery: 'durable',
    pricing,
    seed: 's',
    store,
  });
  await roundtable.submitInput({
    participantId: 'pia',
    inputId: 'i0',
    expectedRevision: 0,
    content: 'Hello.',
    by: 'pia@x',
  });
  const result = await go(roundtable);
  const [leave, question] = result.requests;
  const expectedRevision = result.revision;
  const approved = { kind: 'approval', approved: true, reason: 'fine' };
  await roundtable.resume({ requestId: leave.id, responseId: 'r1', expectedRevision, response: approved, by: 'boss' });
  await roundtable.withdraw({ requestId: question.id, expectedRevision, by: 'boss', reason: 'not needed' });
  const { revision } = await go(roundtable);
  const [{ id: replyToRequestId }] = roundtable.snapshot().requests;
  const input = {
    participantId: 'pia',
    inputId: 'i1',
    expectedRevision: revision,
    content: 'Go on.',
    replyToRequestId,
  };
  await roundtable.submitInput(input);
  await go(roundtable);
  const { requests, revision: now } = roundtable.snapshot();
  const declined = { kind: 'input', declined: true, reason: 'no' };
  await roundtable.resume({ requestId: requests[0].id, responseId: 'r2', expectedRevision: now, response: declined });
  // An attempt that stops, one that is given up and comes back, and what is decided of it.
  const controller = new AbortController();
  hang = new Promise((_, reject) =>
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason)),
  );
  const stopping = roundtable.run({ signal: controller.signal });
  await settled(20);
  controller.abort();
  await stopping;
  let release;
  hang = new Promise((resolve) => {
    release = resolve;
  });
  const second = new AbortController();
  const giving = roundtable.run({ signal: second.signal });
  await settled(20);
  second.abort();
  await giving;
  release();
  await settled(20);
  const [turn] = (await rejects(roundtable.run(), 'recovery-required')).turns;
  const decision = {
    kind: 'settle',
    outcome: turn.outcome,
    checkpoint: { version: 'v1', data: { turns: 3 }, append: [1] },
  };
  const at = { expectedRevision: roundtable.snapshot().revision, by: 'operator' };
  await roundtable.reconcile({ turnId: turn.turnId, ...at, decision });
  await roundtable.dispose();
  // Another version of a runtime, whose turn then fails.
  const moved = parts({ version: '2', work: async () => Promise.reject(new Error('out of order')) });
  const migrate = ({ checkpoint }) => ({ ...checkpoint, data: { turns: 3 } });
  const extra = { pricing, registry: registry(moved.agents, metering(moved.selector), { migrate }) };
  const loaded = await load(ID, store, moved.agents, moved.selector, extra);
  assert.equal((await finish(loaded)).status, 'failed');
  return batchesOf(store, ID);
}

const metering = (selector) => ({
  ...selector,
  create: (saved) => ({ ...selector.create(saved), modelCalls: 'none' }),
});

/** Loads changed batches; the error, or nothing where they were taken. */
async function loadChanged(batches) {
  const never = () => assert.fail('host code ran');
  const store = durable(undefined, {
    load: async () => ({ kind: 'roundtable', schemaVersion: 1, revision: batches.at(-1)?.revision ?? 0, batches }),
  });
  const reached = { reached: true };
  const registered = { resolveParticipant: () => Promise.reject(reached), resolveSelector: never };
  const error = await load(ID, store, [], undefined, { registry: registered }).then(never, (reason) => reason);
  return error.cause === reached ? undefined : error;
}

const journal = await whole();
const lines = journal.flatMap(({ entries }, at) => entries.map((line, place) => ({ at, place, line })));

/** The journal with the line at an index replaced by others. */
function replaced(index, ...others) {
  const { at, place } = lines[index];
  return journal.map((batch, number) =>
    number === at ? { ...batch, entries: batch.entries.toSpliced(place, 1, ...others) } : batch,
  );
}

/** Every member of every object in a value: what holds it, its key, and how to put another in its place. */
function* membersOf(value) {
  if (typeof value !== 'object' || value === null) return;
  for (const key of Object.keys(value)) {
    yield [value, key];
    yield* membersOf(value[key]);
  }
}

/** Every damage of one member: texts of the line. */
function* damages(line) {
  const count = [...membersOf(JSON.parse(line))].length;
  for (let number = 0; number < count; number++) {
    const changed = (change) => {
      const value = JSON.parse(line);
      const [holder, key] = [...membersOf(value)][number];
      change(holder, key);
      return JSON.stringify(value);
    };
    const removed = changed((holder, key) =>
      Array.isArray(holder) ? holder.splice(Number(key), 1) : delete holder[key],
    );
    yield ['removed', removed];
    for (const other of [null, true, 7, 'x', [], {}]) {
      yield ['retyped', changed((holder, key) => Object.assign(holder, { [key]: other }))];
    }
    const more = (holder) => (Array.isArray(holder) ? holder.push('extra') : Object.assign(holder, { extra: 1 }));
    yield ['extra', changed(more)];
    yield [
      'reordered',
      changed((holder, key) => {
        if (Array.isArray(holder)) return holder.reverse();
        const value = holder[key];
        delete holder[key];
        holder[key] = value;
      }),
    ];
    const mark = '@twice@';
    const twice = changed((holder, key) => {
      if (!Array.isArray(holder)) holder[key] = { [mark]: [key, holder[key]] };
    });
    const again = (_, key, rest) => `${rest.slice(0, -2)},${key}:${rest.slice(0, -2)}`;
    yield ['duplicated', twice.replace(/\{"@twice@":\[("(?:[^"\\]|\\.)*"),(.*?\]\})/, again)];
  }
}

describe('C43 damaged journals', () => {
  test('C43 the journal holds every kind of entry, and folds', async () => {
    const kinds = new Set(lines.map(({ line }) => Object.keys(JSON.parse(line))[0].split('/')[0]));
    assert.deepEqual([...kinds].sort(), [...KINDS].sort());
    assert.equal(await loadChanged(journal), undefined);
  });

  test('C43 every member removed, retyped, added, duplicated or reordered is refused with the index of its entry', async () => {
    const counts = {};
    for (const [index, { line }] of lines.entries()) {
      for (const [kind, text] of damages(line)) {
        if (text === line) continue;
        const error = await loadChanged(replaced(index, text));
        assert.equal(error?.code, 'invalid-record', text);
        assert.ok(error.message.includes(`entry ${index} `), `${error.message}: ${text}`);
        counts[kind] = (counts[kind] ?? 0) + 1;
      }
    }
    console.log(`${lines.length} entries`, counts);
    for (const kind of ['removed', 'retyped', 'extra', 'duplicated', 'reordered'])
      assert.ok(counts[kind] > lines.length);
  });

  test('C43 a line without its sum is refused with its index, whatever else is right', async () => {
    for (const [index, { line }] of lines.entries()) {
      assert.equal(sealed(line), line);
      const error = await loadChanged(replaced(index, unsealed(line)));
      assert.equal(error?.code, 'invalid-record', line);
      assert.ok(error.message.includes(`entry ${index} `), error.message);
    }
  });

  test('C43 a time that no clock tells is refused', async () => {
    for (const [index, { line }] of lines.entries()) {
      for (const at of ['', '7', '2027-02-30T00:00:00.000Z', '2027-01-01']) {
        const text = sealed(line.replace(/"at":"[^"]*"/, `"at":"${at}"`));
        const error = await loadChanged(replaced(index, text));
        assert.equal(error?.code, 'invalid-record', text);
        assert.ok(error.message.includes(`entry ${index} `), error.message);
      }
    }
  });

  test('C43 a line cut short, emptied, or that holds another is refused with its index', async () => {
    for (const [index, { line }] of lines.entries()) {
      for (const text of [
        line.slice(0, -1),
        line.slice(0, line.length >> 1),
        '',
        `${line}\n${line}`,
        ` ${line}`,
        `${line}\r`,
      ]) {
        const error = await loadChanged(replaced(index, text));
        assert.equal(error?.code, 'invalid-record', text);
        assert.ok(error.message.includes(`entry ${index} `), `${error.message}: ${text}`);
      }
    }
  });

  test('C43 an entry twice, or before the one it follows, is refused', async () => {
    for (const [index, { line }] of lines.entries()) {
      const error = await loadChanged(replaced(index, line, line));
      assert.equal(error?.code, 'invalid-record', line);
      assert.ok(error.message.includes(`entry ${index + 1} `), error.message);
    }
    for (let at = 1; at < journal.length; at++) {
      const swapped = journal.toSpliced(at - 1, 2, journal[at], journal[at - 1]);
      assert.equal((await loadChanged(swapped))?.code, 'invalid-record');
      const missing = journal.toSpliced(at - 1, 1);
      assert.equal((await loadChanged(missing))?.code, 'invalid-record');
    }
  });

  test('C43 cut at the border of a batch it is the conversation of that revision', async () => {
    for (let upto = 1; upto <= journal.length; upto++) {
      assert.equal(await loadChanged(journal.slice(0, upto)), undefined);
      const store = await storeOf(ID, journal.slice(0, upto));
      const { agents, selector } = parts({ version: journal.slice(0, upto).some(moves) ? '2' : '1' });
      const loaded = await load(ID, store, agents, metering(selector), { pricing, unsettled: 'reconcile' });
      assert.equal(loaded.snapshot().revision, upto);
      await loaded.dispose();
    }
    assert.equal((await loadChanged([])).code, 'invalid-record');
  });

  test('C39 malformed usage: what no ledger could hold is refused in lines that have their sum', async () => {
    const find = (kind, part = '') =>
      lines.findIndex(({ line }) => line.startsWith(`{"${kind}/1"`) && line.includes(part));
    const admitted = find('call-admitted');
    const reported = find('usage-reported', '"final":false');
    const last = find('usage-reported', '"final":true');
    const hit = find('usage-reported', 'cache-hit');
    const change = (index, from, to) => {
      const text = unsealed(lines[index].line).replace(from, to);
      assert.notEqual(text, unsealed(lines[index].line), String(from));
      return [index, sealed(text)];
    };
    for (const [index, ...texts] of [
      [admitted, lines[admitted].line, lines[admitted].line], // a call id twice
      change(admitted, /"attemptId":"[^"]*"/, '"attemptId":"attempt-of-nobody"'), // a foreign principal
      change(admitted, /"callId":"[^"]*"/, '"callId":""'),
      change(admitted, /"providerId":"[^"]*",/, ''),
      change(reported, /"attemptId":"[^"]*"/, '"attemptId":"attempt-of-nobody"'),
      change(reported, /"callId":"[^"]*"/, '"callId":"never-admitted"'), // settled without a reservation
      change(reported, /"outcome":"[^"]*",/, ''), // settled without an outcome
      change(reported, '"completed"', '"won"'),
      change(reported, /"provenance":"[^"]*",/, ''),
      change(reported, '"input":3', '"input":-3'),
      change(reported, '"input":3', '"input":1.5'),
      change(reported, '"version":"p1"', '"version":"p2"'), // a price of another policy
      change(reported, /,"price":\{.*\}(?=\}\}$)/, ''),
      change(reported, '"minorUnits":"12"', '"minorUnits":12'),
      change(reported, '"completed"', '"cache-hit"'),
      [last, lines[last].line, lines[last].line], // a final report again
      change(hit, /"providerId":"[^"]*",?/, ''),
    ]) {
      const error = await loadChanged(replaced(index, ...texts));
      assert.equal(error?.code, 'invalid-record', texts[0]);
    }
    // Of another conversation: entries name none, the record does.
    const foreign = sealed(lines[0].line.replace(`"conversationId":"${ID}"`, '"conversationId":"another"'));
    assert.equal((await loadChanged(replaced(0, foreign)))?.code, 'invalid-record');
  });
});

function moves({ entries }) {
  return entries.some((line) => line.startsWith('{"migrated/1"'));
}
