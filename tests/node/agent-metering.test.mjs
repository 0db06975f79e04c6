// meterJournal, and what an agent's calls come to in the ledger.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meterJournal } from 'agent-roundtable';
import {
  calling,
  execution,
  open,
  reply,
  runOnce,
  scripted,
  services,
  settle,
  tool,
  turn,
  unhandled,
} from './support/agent.mjs';

const base = { executionId: 'e', sessionId: 's' };
const call = { callId: 'c1', providerId: 'p', modelId: 'm' };
const request = { ...base, ...call, id: 'r1', kind: 'model-request' };
const response = (metadata) => ({
  ...base,
  id: 'r2',
  kind: 'model-response',
  callId: 'c1',
  response: reply('x', { metadata }),
});
const failure = { ...base, id: 'r3', kind: 'model-failure', callId: 'c1', message: 'no' };

/** A metered journal, and one log of everything in order. */
function metered({ refuseAppend, ...overrides } = {}) {
  const noted = services(overrides);
  const append = async (record) => {
    noted.log.push(['append', record.id]);
    if (refuseAppend === record.id) throw new Error('disk full');
  };
  return { journal: meterJournal({ append }, noted), log: noted.log, noted };
}

async function reportOf(metadata) {
  const { journal, noted } = metered();
  await journal.append(request);
  await journal.append(response(metadata));
  assert.equal(noted.reports.length, 1);
  const { callId, outcome, final, ...rest } = noted.reports[0];
  assert.deepEqual([callId, outcome, final], ['c1', 'completed', true]);
  return rest;
}

test('A47 a request is admitted first, with exact ids, then appended', async () => {
  const { journal, log } = metered();
  await journal.append(request);
  assert.deepEqual(log, [
    ['admit', call],
    ['append', 'r1'],
  ]);
});

test('A48 a refused admission appends nothing', async () => {
  const refusal = new Error('spent');
  const { journal, log } = metered({ admit: () => Promise.reject(refusal) });
  await assert.rejects(journal.append(request), (error) => error === refusal);
  assert.deepEqual(log, [['admit', call]]);
});

test('A49 complete usage is reported after the append', async () => {
  const { journal, log } = metered();
  await journal.append(response({ inputTokens: 7, outputTokens: 3, totalTokens: 10, usageProvenance: 'complete' }));
  const report = {
    callId: 'c1',
    outcome: 'completed',
    provenance: 'reported',
    tokens: { input: 7, output: 3 },
    final: true,
  };
  assert.deepEqual(log, [
    ['append', 'r2'],
    ['report', report],
  ]);
});

test('A50 a failure is reported failed and unknown; one of a stopped turn, cancelled', async () => {
  const { journal, noted } = metered();
  await journal.append(failure);
  await journal.append({ ...failure, callId: 'c2', cancelled: true });
  assert.deepEqual(noted.reports, [
    { callId: 'c1', outcome: 'failed', provenance: 'unknown', final: true },
    { callId: 'c2', outcome: 'cancelled', provenance: 'unknown', final: true },
  ]);
});

test('A51 A52 A53 counts without marker, fractional counts, a negative count', async () => {
  assert.deepEqual(await reportOf({ inputTokens: 7, outputTokens: 3 }), { provenance: 'unknown' });
  assert.deepEqual(await reportOf({ inputTokens: 7.5, outputTokens: 3.2, usageProvenance: 'partial' }), {
    provenance: 'partial',
    tokens: { input: 8, output: 3 },
  });
  assert.deepEqual(await reportOf({ inputTokens: -7, outputTokens: 3, usageProvenance: 'partial' }), {
    provenance: 'partial',
    tokens: { output: 3 },
  });
  assert.deepEqual(await reportOf(undefined), { provenance: 'unknown' });
  assert.deepEqual(await reportOf({ inputTokens: '7', outputTokens: NaN, usageProvenance: 'partial' }), {
    provenance: 'partial',
  });
});

test('A49 K2 counts that are said to be complete and are not are reported as unknown, without tokens', async () => {
  const complete = (counts) => reportOf({ usageProvenance: 'complete', ...counts });
  const max = Number.MAX_SAFE_INTEGER;
  for (const counts of [
    { inputTokens: 7 },
    { outputTokens: 3 },
    { inputTokens: 7, outputTokens: 3, totalTokens: 11 },
    { inputTokens: 7, outputTokens: 3, totalTokens: 9 },
    { inputTokens: 7.5, outputTokens: 3 },
    { inputTokens: 7, outputTokens: -3 },
    { inputTokens: max, outputTokens: 1 },
    { inputTokens: 2 ** 60, outputTokens: 1 },
    { inputTokens: '7', outputTokens: 3 },
  ])
    assert.deepEqual(await complete(counts), { provenance: 'unknown' }, JSON.stringify(counts));
  assert.deepEqual(await complete({ inputTokens: max - 1, outputTokens: 1, totalTokens: max }), {
    provenance: 'reported',
    tokens: { input: max - 1, output: 1 },
  });
  assert.deepEqual(await reportOf({ inputTokens: 7, outputTokens: 3, usageProvenance: 'estimated' }), {
    provenance: 'unknown',
  });
});

test('A53 K2 a part that is more than its whole is no count, nor one whose whole is not known', async () => {
  const parts = { cacheReadTokens: 8, cacheWriteTokens: 9, reasoningTokens: 4 };
  assert.deepEqual(await reportOf({ inputTokens: 7, outputTokens: 3, ...parts, usageProvenance: 'complete' }), {
    provenance: 'reported',
    tokens: { input: 7, output: 3, cacheWrite: 9 },
  });
  assert.deepEqual(await reportOf({ ...parts, cacheWriteTokens: 2 ** 60, usageProvenance: 'partial' }), {
    provenance: 'partial',
  });
  assert.deepEqual(await reportOf({ inputTokens: 8, outputTokens: 4, ...parts, usageProvenance: 'partial' }), {
    provenance: 'partial',
    tokens: { input: 8, output: 4, cacheRead: 8, cacheWrite: 9, reasoning: 4 },
  });
});

test('K2 another provider alone is a changed route as well, and so are both', async () => {
  const usage = { inputTokens: 7, outputTokens: 3, usageProvenance: 'partial' };
  const raw = async (route) => (await reportOf({ ...usage, ...route })).raw;
  assert.deepEqual(await raw({ providerId: 'q' }), { providerId: 'q' });
  assert.deepEqual(await raw({ providerId: 'q', modelId: 'm' }), { providerId: 'q', modelId: 'm' });
  assert.deepEqual(await raw({ providerId: 'q', modelId: 'n' }), { providerId: 'q', modelId: 'n' });
  assert.equal(await raw({ providerId: 'p' }), undefined);
});

test('K2 K3 cache, reasoning and a changed route are on record', async () => {
  const metadata = {
    inputTokens: 7,
    outputTokens: 3,
    cacheReadTokens: 5,
    cacheWriteTokens: 2,
    reasoningTokens: 1,
    usageProvenance: 'complete',
    modelId: 'm-small',
  };
  assert.deepEqual(await reportOf(metadata), {
    provenance: 'reported',
    tokens: { input: 7, output: 3, cacheRead: 5, cacheWrite: 2, reasoning: 1 },
    raw: { modelId: 'm-small' },
  });
});

test('K2 the route that was admitted is not put on record again', async () => {
  const metadata = { inputTokens: 7, outputTokens: 3, usageProvenance: 'partial', providerId: 'p', modelId: 'm' };
  assert.deepEqual(await reportOf(metadata), { provenance: 'partial', tokens: { input: 7, output: 3 } });
});

test('K2 usage beside the metadata counts for nothing', async () => {
  const { journal, noted } = metered();
  await journal.append({ ...response({}), usage: { inputTokens: 1, outputTokens: 1, usageProvenance: 'complete' } });
  assert.equal(noted.reports[0].provenance, 'unknown');
  const usage = { inputTokens: 1, outputTokens: 1, usageProvenance: 'complete' };
  const beside = { ...response({}), callId: 'c2', response: reply('x', { metadata: {}, usage, ...usage }) };
  await journal.append(beside);
  assert.equal(noted.reports[1].provenance, 'unknown');
});

test('A54 a cache hit is appended, then reported with its own identity, never admitted', async () => {
  const { journal, log } = metered();
  await journal.append({ ...base, ...call, id: 'r4', kind: 'model-cache-hit', response: reply('x') });
  assert.deepEqual(log, [
    ['append', 'r4'],
    ['report', { ...call, outcome: 'cache-hit', provenance: 'unknown', final: true }],
  ]);
});

test('F a journal or services without their functions are refused by name', () => {
  const journal = { append: async () => {} };
  const noted = services();
  for (const [given, to, message] of [
    [5, noted, /^journal must be an object, not a number/],
    [undefined, noted, /^journal must be an object/],
    [{}, noted, /^journal\.append must be a function, not undefined/],
    [{ ...journal, read: 5 }, noted, /^journal\.read must be a function, not a number/],
    [journal, 5, /^services must be an object, not a number/],
    [journal, null, /^services must be an object/],
    [journal, { recordUsage: noted.recordUsage }, /^services\.admitModelCall must be a function/],
    [journal, { ...noted, recordUsage: 'x' }, /^services\.recordUsage must be a function, not a string/],
  ])
    assert.throws(() => meterJournal(given, to), { code: 'invalid-config', message });
});

test('A54 a cache hit whose append fails is not reported', async () => {
  const { journal, log } = metered({ refuseAppend: 'r4' });
  await assert.rejects(journal.append({ ...base, ...call, id: 'r4', kind: 'model-cache-hit', response: reply('x') }), {
    message: 'disk full',
  });
  assert.deepEqual(log, [['append', 'r4']]);
});

test('A55 tool records pass through', async () => {
  const passed = [];
  const { log, ...silent } = services();
  const journal = meterJournal({ append: async (record) => void passed.push(record) }, silent);
  const record = { ...base, id: 't1', kind: 'tool-result', toolCallId: 't', result: 1 };
  await journal.append(record);
  assert.equal(passed[0], record);
  assert.deepEqual(log, []);
});

test('A56 read passes through, and is absent where the journal has none', async () => {
  const records = [request];
  class Journal {
    records = records;
    async append() {}
    async read(executionId) {
      return executionId === 'e' ? this.records : [];
    }
  }
  const { journal } = metered();
  assert.equal('read' in journal, false);
  assert.equal(await meterJournal(new Journal(), services()).read('e'), records);
});

test('K3 an append that fails after its admission is settled as failed', async () => {
  const { journal, log } = metered({ refuseAppend: 'r1' });
  await assert.rejects(journal.append(request), /disk full/);
  assert.deepEqual(log.at(-1), ['report', { callId: 'c1', outcome: 'failed', provenance: 'unknown', final: true }]);
});

test('K3 a response whose append fails was paid for and is reported', async () => {
  const { journal, noted } = metered({ refuseAppend: 'r2' });
  await journal.append(request);
  await assert.rejects(
    journal.append(response({ inputTokens: 1, outputTokens: 1, usageProvenance: 'complete' })),
    /disk full/,
  );
  assert.deepEqual(
    noted.reports.map((r) => [r.outcome, r.tokens]),
    [['completed', { input: 1, output: 1 }]],
  );
});

test('A57 a host selector that meters by itself has one admission and one report', async () => {
  const noted = services();
  const journal = meterJournal({ append: async () => {} }, noted);
  await journal.append(request);
  await journal.append(response({ inputTokens: 1, outputTokens: 1, usageProvenance: 'complete' }));
  assert.deepEqual(
    noted.log.map(([kind]) => kind),
    ['admit', 'report'],
  );
});

test('each round is a call of its own, admitted and reported in order', async () => {
  const noted = services();
  const provider = scripted(calling(['t1', 'look', {}]), reply('done'));
  await runOnce({ provider, tools: [tool('look', () => 1)] }, { services: noted });
  assert.deepEqual(
    noted.log.map(([kind, { callId }]) => `${kind} ${callId}`),
    ['admit a1:call:1', 'report a1:call:1', 'admit a1:call:2', 'report a1:call:2'],
  );
});

test('A66 a limit met in the second round keeps its cause and sends one request', async () => {
  let admissions = 0;
  const spent = Object.assign(new Error('spent'), { code: 'model-call-limit' });
  const noted = services({ admit: () => (++admissions > 1 ? Promise.reject(spent) : undefined) });
  const provider = scripted(calling(['t1', 'look', {}]), reply('done'));
  await assert.rejects(runOnce({ provider, tools: [tool('look', () => 1)] }, { services: noted }), { cause: spent });
  assert.equal(provider.requests.length, 1);
});

test('K3 a provider that rejects because of the abort is reported cancelled before the turn ends', async () => {
  const controller = new AbortController();
  const noted = services();
  const provider = {
    name: 'p',
    chat: (_, { signal }) => new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason))),
  };
  const running = runOnce({ provider }, { signal: controller.signal, services: noted });
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  assert.deepEqual(noted.reports, [{ callId: 'a1:call:1', outcome: 'cancelled', provenance: 'unknown', final: true }]);
});

test('K3 a reply that lands after the abort is still reported completed', async () => {
  const controller = new AbortController();
  const noted = services();
  let land;
  const metadata = { inputTokens: 1, outputTokens: 1, usageProvenance: 'complete' };
  const provider = scripted(
    () =>
      new Promise((done) => {
        land = () => done(reply('late', { metadata }));
      }),
  );
  const lease = await open({ provider });
  const running = lease.session.runTurn(turn(), execution({ signal: controller.signal, services: noted }));
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  await lease.release();
  assert.deepEqual(noted.reports, []);
  land();
  await settle();
  assert.deepEqual(
    noted.reports.map((r) => [r.outcome, r.tokens]),
    [['completed', { input: 1, output: 1 }]],
  );
});

test('K3 an abort during the admission calls nothing and settles the reservation', async () => {
  const controller = new AbortController();
  const noted = services({ admit: () => controller.abort(new Error('stop')) });
  const provider = scripted(reply('never'));
  const seen = await unhandled(() =>
    assert.rejects(runOnce({ provider }, { signal: controller.signal, services: noted }), /stop/),
  );
  assert.deepEqual(seen, []);
  assert.equal(provider.requests.length, 0);
  assert.deepEqual(
    noted.reports.map((r) => r.outcome),
    ['cancelled'],
  );
});

test('F a count that is no number costs nobody the reply: it is absent, and what is known is reported', async () => {
  for (const odd of [NaN, Infinity, -Infinity]) {
    for (const stream of [false, true]) {
      const metadata = {
        inputTokens: 5,
        outputTokens: odd,
        reasoningTokens: odd,
        usageProvenance: 'complete',
        note: 'n',
      };
      const answer = reply('answer', { metadata });
      const chat = async () => answer;
      async function* chatStream() {
        yield answer;
      }
      const noted = services();
      const outcome = await runOnce(
        { provider: { name: 'p', ...(stream ? { chatStream } : { chat }) } },
        { services: noted },
      );
      assert.equal(outcome.content, 'answer');
      assert.deepEqual(
        noted.reports.map(({ outcome, provenance }) => [outcome, provenance]),
        [['completed', 'unknown']],
      );
    }
  }
  const provider = { name: 'p', chat: async () => reply('x', { metadata: { note: NaN } }) };
  await assert.rejects(runOnce({ provider }), { code: 'EXECUTION_REPLY_INVALID', message: /metadata\.note/ });
});
