// agentSelector: what counts as a decision, and with which code everything else is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentSelector, RuntimeParticipantError, recordProvider, SelectorDecisionError } from 'agent-roundtable';
import { calling, deferred, reply, scripted, services, settle, tool } from './support/agent.mjs';
import { conversation, speaker } from './support/conversations.mjs';
import { chair, context, deciding, finish, given, reference, speak, TOOL } from './support/selector.mjs';

/** Asserts that a reply is refused with this code after exactly one call. */
async function refused(code, answer, where = context(), extra = {}) {
  const provider = scripted(answer, speak('ana'));
  await assert.rejects(chair(provider, extra).select(where, given()), (error) => {
    assert.ok(error instanceof SelectorDecisionError && error instanceof Error, String(error));
    assert.equal(error.name, 'SelectorDecisionError');
    assert.equal(error.code, code, error.message);
    return true;
  });
  assert.equal(provider.requests.length, 1);
}

test('A91 nobody to choose from: no agent is made and no call', async () => {
  let made = 0;
  const selector = agentSelector({ reference, createAgent: () => void made++ });
  await assert.rejects(selector.select(context([]), given()), { code: 'no-candidates', name: 'SelectorDecisionError' });
  assert.equal(made, 0);
});

test('A92 A102 a reply in words is no decision, and nothing is tried again', () =>
  refused('no-decision', reply('ana should speak')));

test('A93 A102 an empty or blank reply is no decision', async () => {
  for (const content of [null, '', ' \n']) await refused('no-decision', reply(content));
  await refused('no-decision', reply(null, { toolCalls: [] }));
});

test('K13 a call of an invented tool alone is no decision', () =>
  refused('no-decision', calling(['x', 'choose', '{}'])));

test('A94 A102 two decisions are none, equal or not', async () => {
  const one = { action: 'speak', participantIds: ['ana'] };
  await refused('multiple-decisions', deciding(one, one));
  await refused('multiple-decisions', deciding(one, { action: 'finish' }, 'not JSON'));
  // Table order: that there are two comes before what is wrong with what stands beside them.
  await refused('multiple-decisions', calling(['d', TOOL, one], ['x', 'web_search', '{}'], ['e', TOOL, one]));
});

test('A95 A102 an id that takes no part', () => refused('unknown-participant', speak('ana', 'zoe')));

test('K13 an empty id takes no part', () => refused('unknown-participant', speak('')));

test('A96 repeated ids', () => refused('invalid-decision', speak('ana', 'ana')));

test('A96 no ids', () => refused('invalid-decision', speak()));

for (const [name, args] of Object.entries({
  'K13 JSON null': 'null',
  'K13 a JSON array': '[]',
  'not JSON': 'speak: ana',
  'K13 a blank': '',
  'K15 a lone surrogate': '{"action":"speak","participantIds":["\ud800"]}',
  'another action': { action: 'wait', participantIds: ['ana'] },
  'no action': { participantIds: ['ana'] },
  'ids missing': { action: 'speak' },
  'ids null': { action: 'speak', participantIds: null },
  'ids that are no array': { action: 'speak', participantIds: 'ana' },
  'ids that are no strings': { action: 'speak', participantIds: ['ana', 1] },
  'a reason beyond its bound': { action: 'finish', reason: 'x'.repeat(8193) },
})) {
  test(`A96 ${name}: invalid`, () => refused('invalid-decision', deciding(args)));
}

test('K13 a call of an invented tool beside the decision makes it ambiguous', async () => {
  const decision = [`d`, TOOL, { action: 'finish' }];
  await refused('invalid-decision', calling(decision, ['x', 'web_search', '{}']));
  await refused('invalid-decision', calling(['x', 'web_search', '{}'], decision));
});

test('A97 several ids are a parallel group in their order, by one call', async () => {
  const provider = scripted(speak('cy', 'ana'));
  assert.deepEqual(await chair(provider).select(context(), given()), {
    kind: 'parallel',
    participantIds: ['cy', 'ana'],
  });
  assert.equal(provider.requests.length, 1);
});

test('A96 more ids than maxParallel are refused', async () => {
  await refused('invalid-decision', speak('ana', 'bo', 'cy'), context(), { maxParallel: 2 });
  await refused('invalid-decision', speak('ana', 'bo'), context(), { maxParallel: 1 });
  const selection = await chair(scripted(speak('ana', 'bo')), { maxParallel: 2 }).select(context(), given());
  assert.equal(selection.kind, 'parallel');
});

test('the checks go in their order: repeated before too many before unknown', async () => {
  await refused('invalid-decision', speak('zoe', 'zoe'));
  await refused('invalid-decision', speak('ana', 'zoe'), context(), { maxParallel: 1 });
});

test('A98 one id speaks: one admission and one report, by the services of the selection', async () => {
  const noted = services();
  const metadata = { inputTokens: 5, outputTokens: 1, usageProvenance: 'complete' };
  const provider = scripted({ ...speak('bo'), metadata });
  const selection = await chair(provider).select(context(), given({ services: noted, attemptId: 'select-1' }));
  assert.deepEqual(selection, { kind: 'speak', participantId: 'bo' });
  assert.deepEqual(noted.log, [
    ['admit', { callId: 'select-1:call:1', providerId: 'scripted', modelId: 'm' }],
    [
      'report',
      {
        callId: 'select-1:call:1',
        outcome: 'completed',
        provenance: 'reported',
        tokens: { input: 5, output: 1 },
        final: true,
      },
    ],
  ]);
});

test('A98 words beside the one call count for nothing', async () => {
  const provider = scripted({ ...speak('bo'), content: 'cy should speak' });
  assert.deepEqual(await chair(provider).select(context(), given()), { kind: 'speak', participantId: 'bo' });
});

test('A98 two selections without attempt ids have calls of their own', async () => {
  const noted = services();
  const selector = chair(scripted(speak('ana'), speak('bo')));
  await selector.select(context(), given({ services: noted }));
  await selector.select(context(), given({ services: noted }));
  const ids = noted.log.filter(([kind]) => kind === 'admit').map(([, call]) => call.callId);
  assert.equal(new Set(ids).size, 2);
});

test('A99 K13 an agent with a tool, even of the reserved name, is refused before any call', async () => {
  for (const name of ['look', TOOL]) {
    const provider = scripted(speak('ana'));
    const createAgent = () => ({ provider, model: 'm', tools: [tool(name, () => 1)] });
    await assert.rejects(chair(provider, { createAgent }).select(context(), given()), { code: 'invalid-decision' });
    assert.equal(provider.requests.length, 0);
  }
});

test('K13 a provider that runs tools of its own is refused before any call', async () => {
  const provider = { ...scripted(speak('ana')), hostedTools: () => ['web_search'] };
  await assert.rejects(chair(provider).select(context(), given()), { code: 'invalid-decision' });
  assert.equal(provider.requests.length, 0);
  // Nor does it pass behind a recorder.
  const recorded = recordProvider(provider, { sessionId: 's', write: () => {} });
  await assert.rejects(chair(recorded).select(context(), given()), { code: 'invalid-decision' });
  assert.equal(provider.requests.length, 0);
  for (const odd of [5, Promise.resolve([])]) {
    provider.hostedTools = () => odd;
    await assert.rejects(chair(provider).select(context(), given()), {
      code: 'invalid-config',
      message: /hostedTools/,
    });
  }
  provider.hostedTools = () => [];
  assert.equal((await chair(provider).select(context(), given())).kind, 'speak');
});

test('a provider without tools cannot decide', async () => {
  const provider = { ...scripted(speak('ana')), supportsTools: () => false };
  await assert.rejects(chair(provider).select(context(), given()), { code: 'invalid-config' });
  assert.equal(provider.requests.length, 0);
});

test('A100 finish has its reason, or a default; ids beside it count for nothing', async () => {
  const decide = (answer) => chair(scripted(answer)).select(context(), given());
  assert.deepEqual(await decide(finish('agreed')), { kind: 'finish', reason: 'agreed' });
  for (const reason of [undefined, '', ' \n', null, 7]) {
    assert.deepEqual(await decide(finish(reason)), { kind: 'finish', reason: 'done' });
  }
  const named = deciding({ action: 'finish', participantIds: ['zoe', 'zoe'], reason: 'r' });
  assert.deepEqual(await decide(named), { kind: 'finish', reason: 'r' });
});

test('A101 the registration has the same reference and creates selectors of their own that have it too', async () => {
  const provider = scripted(speak('ana'), speak('bo'));
  const selector = chair(provider);
  assert.equal(selector.reference, reference);
  assert.equal(selector.registration.reference, reference);
  const [one, two] = [await selector.registration.create({}), await selector.registration.create({})];
  assert.equal(one.reference, reference);
  assert.equal(one.modelCalls, 'metered');
  assert.ok(one !== two && one !== selector);
  assert.equal('checkpoint' in one, false);
  assert.equal((await one.select(context(), given())).participantId, 'ana');
  assert.equal((await two.select(context(), given())).participantId, 'bo');
});

test('A101 a registration creates selectors with the same options', async () => {
  const provider = scripted(speak('ana', 'bo'), speak('bo'));
  const selector = chair(provider, { maxParallel: 1, messageWindow: 1 });
  const created = await selector.registration.create({});
  const said = context(undefined, [
    ['ana', 'one'],
    ['bo', 'two'],
  ]);
  await assert.rejects(created.select(said, given()), { code: 'invalid-decision' });
  await created.select(said, given());
  assert.deepEqual(provider.requests[1].messages[0].content.match(/^> .*$/gm), ['> two']);
});

test('A103 cancelled during the admission: no call, and selecting again works', async () => {
  const controller = new AbortController();
  const stop = new Error('stop');
  const noted = services({ admit: () => controller.abort(stop) });
  const provider = scripted(speak('ana'));
  const selector = chair(provider);
  const first = selector.select(context(), given({ signal: controller.signal, services: noted }));
  await assert.rejects(first, (error) => error === stop);
  assert.equal(provider.requests.length, 0);
  assert.deepEqual(
    noted.reports.map((r) => r.outcome),
    ['cancelled'],
  );
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
});

test('K13 an abort after the run has resolved is the abort', async () => {
  const controller = new AbortController();
  const stop = new Error('stop');
  const noted = services({ report: () => controller.abort(stop) });
  const selector = chair(scripted(speak('ana'), speak('bo')));
  await assert.rejects(
    selector.select(context(), given({ signal: controller.signal, services: noted })),
    (error) => error === stop,
  );
  assert.equal((await selector.select(context(), given())).participantId, 'bo');
});

test('A103 cancelled before the agent is there: it is kept for the next decision', async () => {
  const making = deferred();
  let made = 0;
  const createAgent = () => {
    made++;
    return making.promise;
  };
  const selector = chair(undefined, { createAgent });
  const controller = new AbortController();
  const first = selector.select(context(), given({ signal: controller.signal }));
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(first, /stop/);
  making.resolve({ provider: scripted(speak('cy')), model: 'm' });
  assert.equal((await selector.select(context(), given())).participantId, 'cy');
  assert.equal(made, 1);
});

test('K13 a factory that rejects, throws or gives no options is asked again', async () => {
  const provider = scripted(speak('ana'));
  const results = [
    () => Promise.reject(new Error('no key')),
    () => {
      throw new Error('no network');
    },
    () => null,
    () => ({ provider, model: 7 }),
    () => ({ provider, model: 'm' }),
  ];
  const selector = chair(provider, { createAgent: () => results.shift()() });
  await assert.rejects(selector.select(context(), given()), /no key/);
  await assert.rejects(selector.select(context(), given()), /no network/);
  await assert.rejects(selector.select(context(), given()), { code: 'invalid-config' });
  await assert.rejects(selector.select(context(), given()), { code: 'invalid-config' });
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
});

test('A105 each decision starts without what came before: one user message and no assistant message', async () => {
  const provider = scripted(speak('ana'), speak('bo'));
  let made = 0;
  const createAgent = () => {
    made++;
    return { provider, model: 'm', systemMessage: 'Be fair.' };
  };
  const selector = chair(provider, { createAgent });
  await selector.select(context(undefined, [['ana', 'first']]), given());
  await selector.select(context(undefined, [['ana', 'second']]), given());
  assert.equal(made, 1);
  for (const { messages, options } of provider.requests) {
    assert.deepEqual(
      messages.map((message) => message.role),
      ['system', 'user'],
    );
    assert.deepEqual(
      options.tools.map((offered) => offered.name),
      [TOOL],
    );
  }
  assert.match(provider.requests[1].messages[1].content, /> second/);
  assert.doesNotMatch(provider.requests[1].messages[1].content, /> first/);
});

test('A105 a decision that failed leaves nothing behind either', async () => {
  const provider = scripted(reply('words'), speak('bo'));
  const selector = chair(provider);
  await assert.rejects(selector.select(context(), given()), { code: 'no-decision' });
  await selector.select(context(), given());
  assert.equal(provider.requests[1].messages.length, 1);
});

test('A106 a second selection while one runs is refused, and the first goes on', async () => {
  const answer = deferred();
  const provider = scripted(() => answer.promise, speak('bo'));
  const selector = chair(provider);
  const first = selector.select(context(), given());
  await assert.rejects(selector.select(context(), given()), (error) => {
    assert.ok(error instanceof RuntimeParticipantError);
    assert.equal(error.code, 'resource-reused');
    assert.match(error.message, /another decision/);
    return true;
  });
  // The overlap is checked first: also where nobody takes part.
  await assert.rejects(selector.select(context([]), given()), { code: 'resource-reused' });
  answer.resolve(speak('ana'));
  assert.equal((await first).participantId, 'ana');
  assert.equal((await selector.select(context(), given())).participantId, 'bo');
});

test('A106 a selection that its own factory asks for is refused', async () => {
  const provider = scripted(speak('ana'));
  let inner;
  const selector = agentSelector({
    reference,
    createAgent() {
      inner ??= selector.select(context(), given());
      inner.catch(() => {});
      return { provider, model: 'm' };
    },
  });
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
  await assert.rejects(inner, { code: 'resource-reused' });
});

test('a refused admission, a failing provider and an odd reply pass through, and the selector stays usable', async () => {
  const broken = new Error('503');
  const provider = scripted(
    () => {
      throw broken;
    },
    { id: 'r' },
    speak('ana'),
  );
  const selector = chair(provider);
  const spent = Object.assign(new Error('spent'), { code: 'model-call-limit' });
  const refusing = services({ admit: () => Promise.reject(spent) });
  await assert.rejects(selector.select(context(), given({ services: refusing })), {
    code: 'EXECUTION_JOURNAL_FAILED',
    cause: spent,
  });
  assert.equal(provider.requests.length, 0);
  await assert.rejects(selector.select(context(), given()), (error) => error === broken);
  await assert.rejects(selector.select(context(), given()), { code: 'EXECUTION_REPLY_INVALID' });
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
});

test('a context that is none is refused before any call, and the selector stays usable', async () => {
  const provider = scripted(speak('ana'));
  const selector = chair(provider);
  for (const participants of [[{ id: 7, kind: 'agent' }], [{ id: 'ana', kind: 'agent', description: 1n }]]) {
    await assert.rejects(selector.select({ ...context(), participants }, given()), {
      name: 'RoundtableError',
      code: 'invalid-config',
      message: /^context/,
    });
  }
  assert.equal(provider.requests.length, 0);
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
});

test('a reference is needed at the door, and what is in it when a conversation is created', () => {
  for (const given of [undefined, null, 'chair', 5, ['chair']])
    assert.throws(() => chair(scripted(), { reference: given }), {
      code: 'invalid-config',
      message: /^reference must be/,
    });
  for (const [given, field] of [
    [{ id: 'chair' }, 'version'],
    [{ id: '', version: '1' }, 'id'],
    [{ id: 'x'.repeat(513), version: '1' }, 'id'],
    [{ id: 'chair', version: 7 }, 'version'],
  ]) {
    const selector = chair(scripted(), { reference: given });
    const message = new RegExp(`^selector\\.reference\\.${field} `);
    assert.throws(() => conversation([speaker('ana', 'x')], { selector }), { code: 'invalid-config', message });
  }
});

test('maxParallel and messageWindow are checked at the door', () => {
  for (const extra of [{ maxParallel: 0 }, { maxParallel: 257 }, { maxParallel: 1.5 }, { maxParallel: '2' }]) {
    assert.throws(() => chair(scripted(), extra), { code: 'invalid-config', message: /maxParallel/ });
  }
  for (const messageWindow of [0, -1, NaN, 2 ** 53]) {
    assert.throws(() => chair(scripted(), { messageWindow }), { code: 'invalid-config', message: /messageWindow/ });
  }
});
