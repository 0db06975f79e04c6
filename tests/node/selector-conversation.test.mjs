// agentSelector inside a conversation: its calls are in the ledger, its agent is held and given back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, createRoundtable, externalParticipant, RoundtableError } from 'agent-roundtable';
import { deferred, execution, open, reply, scripted, settle } from './support/agent.mjs';
import { conversation, speaker } from './support/conversations.mjs';
import { chair, context, finish, given, speak } from './support/selector.mjs';
import { durable, load, steady } from './support/stored.mjs';

test('A98 A100 A104 a model chairs a conversation to its end', async () => {
  const provider = scripted(speak('ana', 'bo'), speak('bo'), finish('agreed'));
  const selector = chair(provider);
  const table = conversation([speaker('ana', 'from ana'), speaker('bo', 'from bo', 'again')], { selector });
  const result = await table.run();
  assert.equal(result.status, 'completed');
  assert.equal(result.reason, 'agreed');
  const { messages, usage } = table.snapshot();
  assert.deepEqual(
    messages.map((message) => message.content),
    ['from ana', 'from bo', 'again'],
  );
  assert.deepEqual(
    usage.map(({ principal, status, turnId, callId, attemptId }) => [
      principal.kind,
      status,
      turnId,
      callId === `${attemptId}:call:1`,
    ]),
    [
      ['selector', 'settled', null, true],
      ['selector', 'settled', null, true],
      ['selector', 'settled', null, true],
    ],
  );
  const last = provider.requests[2].messages[0].content;
  assert.ok(last.includes('### From ana\n> from ana\n\n### From bo\n> from bo\n\n### From bo\n> again\n\nLast turns'));
  assert.match(last, /^- ana: speak\n- bo: speak\n- bo: speak$/m);
  await table.dispose();
});

test('A102 a failed decision fails the run and nobody is called', async () => {
  const provider = scripted(reply('ana'), speak('ana'));
  const ana = speaker('ana', 'never');
  const table = conversation([ana], { selector: chair(provider) });
  const result = await table.run();
  assert.equal(result.status, 'failed');
  assert.match(result.message, /decide_next_speaker/);
  assert.equal(provider.requests.length, 1);
  assert.deepEqual(ana.calls, []);
});

test('C7 a run that a decision failed says with which code, whoever threw it', async () => {
  const down = () => Promise.reject(Object.assign(new Error('503'), { code: 'SERVICE_DOWN' }));
  for (const [answer, code] of [
    [reply('ana'), 'no-decision'],
    [speak('nobody'), 'unknown-participant'],
    [down, 'SERVICE_DOWN'],
  ]) {
    const result = await conversation([speaker('ana', 'never')], { selector: chair(scripted(answer)) }).run();
    assert.deepEqual([result.status, result.code], ['failed', 'invalid-selection']);
    assert.ok(result.message.includes(`(${code})`), result.message);
  }
});

test('A97 the core checks again: an external participant in a parallel group is refused', async () => {
  const provider = scripted(speak('ana', 'pia'));
  const participants = [speaker('ana', 'x'), externalParticipant({ id: 'pia' })];
  const result = await conversation(participants, { selector: chair(provider) }).run();
  assert.equal(result.status, 'failed');
  assert.match(result.message, /"?pia"?.*(agent|external)/);
  assert.deepEqual(participants[0].calls, []);
});

test('A104 the purpose of the conversation is not shown', async () => {
  const provider = scripted(speak('ana'), finish());
  const purpose = 'purpose for participants';
  const table = conversation([speaker('ana', 'hello')], { selector: chair(provider), purpose });
  assert.equal((await table.run()).status, 'completed');
  assert.doesNotMatch(JSON.stringify(provider.requests), /purpose for participants/);
  await table.dispose();
});

test('K13 a window is taken over by a load: the prompt goes on as it would have', async () => {
  const ends = [];
  for (const restart of [false, true]) {
    const provider = scripted(...Array.from({ length: 4 }, () => speak('ana')));
    const selector = chair(provider, { messageWindow: 2 });
    const make = () => steady('ana', ['one', 'two', 'three', 'four']);
    const store = durable();
    const id = `window-${restart}`;
    const limits = { maxTurnsPerRun: restart ? 3 : 4 };
    const ana = make();
    let table = createRoundtable({ conversationId: id, participants: [ana], selector, store, limits });
    await table.run();
    if (restart) {
      await table.dispose();
      table = await load(id, store, [make()], selector.registration);
      await table.run({ limits: { maxTurnsPerRun: 1 } });
    }
    await table.dispose();
    ends.push(provider.requests[3].messages[0].content.replace(/\d+$/, ''));
  }
  assert.match(ends[0], /the last 2; 1 earlier ones are left out:\n\n### From ana\n> two\n\n### From ana\n> three\n/);
  assert.equal(ends[1], ends[0]);
});

test('a spent limit ends the run limited before the selector calls its model', async () => {
  const provider = scripted(speak('ana'), speak('ana'));
  const ana = speaker('ana', 'one', 'two');
  ana.factory.modelCalls = 'none';
  const limits = { maxTurnsPerRun: 5, maxModelCallsPerRun: 1 };
  const table = conversation([ana], { selector: chair(provider), limits });
  const result = await table.run();
  assert.deepEqual([result.status, result.reason], ['limited', 'model-calls']);
  assert.equal(provider.requests.length, 1);
});

test('A103 a cancelled decision is made again by the next run, under another call id', async () => {
  const answer = deferred();
  const provider = scripted(() => answer.promise, speak('ana'), finish());
  const table = conversation([speaker('ana', 'hello')], { selector: chair(provider) });
  const controller = new AbortController();
  const running = table.run({ signal: controller.signal });
  await settle();
  controller.abort(new Error('stop'));
  assert.equal((await running).status, 'cancelled');
  assert.equal((await table.run()).status, 'completed');
  const ids = provider.requests.map(({ options }) => options.callId);
  assert.equal(new Set(ids).size, 3);
  answer.resolve(speak('ana'));
  await table.dispose();
});

test('K7 the agent is held while it decides: a session over its provider is refused, and free afterwards', async () => {
  const answer = deferred();
  const provider = scripted(() => answer.promise, reply('mine'));
  const selector = chair(provider);
  const deciding = selector.select(context(), given());
  await settle();
  await assert.rejects(open({ provider }), { code: 'resource-reused' });
  answer.resolve(speak('ana'));
  await deciding;
  const lease = await open({ provider });
  const turn = { turnId: 't', attemptId: 'a', context: { messages: [] } };
  assert.deepEqual(await lease.session.runTurn(turn, execution()), { kind: 'speak', content: 'mine' });
  await lease.release();
});

test('K7 a provider that a session holds is refused; nothing is disposed of, and it decides once it is free', async () => {
  let disposed = 0;
  const provider = scripted(speak('ana'));
  const createAgent = () => ({ provider, model: 'm', dispose: () => void disposed++ });
  const selector = chair(provider, { createAgent });
  const lease = await open({ provider });
  await assert.rejects(selector.select(context(), given()), { code: 'resource-reused' });
  assert.equal(disposed, 0);
  await lease.release();
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
});

test('K7 dispose of the conversation disposes of the agent once, while its provider is still held', async () => {
  const log = [];
  const provider = scripted(finish());
  const createAgent = () => ({
    provider,
    model: 'm',
    async dispose() {
      log.push('disposed');
      await assert.rejects(open({ provider }), { code: 'resource-reused' });
      log.push('held meanwhile');
    },
  });
  const table = conversation([speaker('ana')], { selector: chair(provider, { createAgent }) });
  await table.run();
  await Promise.all([table.dispose(), table.dispose()]);
  assert.deepEqual(log, ['disposed', 'held meanwhile']);
  await (await open({ provider })).release();
});

test('K7 release is idempotent, waits for the decision, and a later decision makes another agent', async () => {
  const answer = deferred();
  const log = [];
  const providers = [scripted(() => answer.promise), scripted(speak('bo'))];
  const createAgent = () => ({
    provider: providers[log.push('made') - 1],
    model: 'm',
    dispose: () => void log.push('x'),
  });
  const selector = chair(undefined, { createAgent });
  await selector.release();
  const deciding = selector.select(context(), given());
  await settle();
  const releasing = Promise.all([selector.release(), selector.release()]);
  await settle();
  assert.deepEqual(log, ['made']);
  answer.resolve(speak('ana'));
  await deciding;
  await releasing;
  await selector.release();
  assert.deepEqual(log, ['made', 'x']);
  providers.unshift(undefined);
  assert.equal((await selector.select(context(), given())).participantId, 'bo');
});

test('K7 an agent that is no agent is disposed of, and its objects are free', async () => {
  let disposed = 0;
  const provider = scripted(speak('ana'));
  const createAgent = () => ({ provider, model: 7, dispose: () => void disposed++ });
  await assert.rejects(chair(provider, { createAgent }).select(context(), given()), { code: 'invalid-config' });
  assert.equal(disposed, 1);
  await (await open({ provider })).release();
});

test('an agent that is still being made does not hold up release; it is disposed of when it is there', async () => {
  const making = deferred();
  let disposed = 0;
  const controller = new AbortController();
  const selector = chair(undefined, { createAgent: () => making.promise });
  const deciding = selector.select(context(), given({ signal: controller.signal }));
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(deciding, /stop/);
  await selector.release();
  making.resolve({ provider: scripted(), model: 'm', dispose: () => void disposed++ });
  await settle();
  assert.equal(disposed, 1);
});

test('a release that fails is reported by dispose()', async () => {
  const broken = new Error('still open');
  const provider = scripted(finish());
  const createAgent = () => ({ provider, model: 'm', dispose: () => Promise.reject(broken) });
  const table = conversation([speaker('ana')], { selector: chair(provider, { createAgent }) });
  await table.run();
  await assert.rejects(table.dispose(), (error) => {
    assert.ok(error instanceof RoundtableError && error.code === 'unavailable');
    assert.deepEqual(error.errors, [broken]);
    return true;
  });
});

test('a participant and the selector may have one provider each of the same kind', async () => {
  const ana = agentParticipant({
    id: 'ana',
    runtime: { id: 'ana', version: '1' },
    createAgent: () => ({ provider: scripted(reply('hello')), model: 'm' }),
  });
  const table = conversation([ana], { selector: chair(scripted(speak('ana'), finish())) });
  assert.equal((await table.run()).status, 'completed');
  assert.equal(table.snapshot().messages[0].content, 'hello');
  await table.dispose();
});

test('a thousand messages are shown whole', async () => {
  const words = Array.from({ length: 1000 }, (_, i) => `message ${i}.`);
  const decisions = Array.from({ length: 1000 }, () => speak('ana'));
  const provider = scripted(...decisions, finish());
  const table = conversation([speaker('ana', ...words)], {
    selector: chair(provider),
    limits: { maxTurnsPerRun: 1001 },
  });
  assert.equal((await table.run()).status, 'completed');
  const last = provider.requests[1000].messages[0].content;
  assert.equal(last.match(/^> message \d+\.$/gm).length, 1000);
  await table.dispose();
});
