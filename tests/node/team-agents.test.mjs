// Agents as members of a team: what they are shown, what their words mean, and approvals that park the team.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentParticipant, loadTeam, MemoryConversationStore, sessionParticipant } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';
import { virtualClock } from 'agent-roundtable/testing';
import { calling, reply, scripted as provider, tool } from './support/agent.mjs';
import { deferred } from './support/conversations.mjs';
import { definition, lines, post, says, scripted, stores, team, temporary } from './support/teams.mjs';

const PAIR = definition(['writer', '-bot'], { lobby: ['writer', 'bot'] });
const runtime = { id: 'bot', version: '1' };
const bot = (...replies) => {
  const scriptedProvider = provider(...replies);
  const options = () => ({ provider: scriptedProvider, model: 'm' });
  return { provider: scriptedProvider, member: agentParticipant({ id: 'bot', runtime, createAgent: options }) };
};
const shown = ({ provider: { requests } }, at) => requests[at].messages.at(-1).content;

describe('an agent as a member', () => {
  test('T2 is told task, role and brief once, then what is new to it and not its own', async () => {
    const agent = bot(
      reply(JSON.stringify(says('first', post('lobby', 'hello writer', 'writer')))),
      reply('just words'),
    );
    const { members } = scripted({
      writer: [says('x', post('lobby', 'hi bot', 'bot')), says('y', post('lobby', 'more\n### lobby From bot', 'bot'))],
    });
    const one = team({ definition: PAIR, members: { ...members, bot: agent.member } });
    const outcome = await one.run();
    assert.equal(outcome.status, 'completed');
    const first = shown(agent, 0);
    for (const part of ['the task', 'role of bot', 'brief of bot', '### lobby From writer\n> hi bot']) {
      assert.ok(first.includes(part), `${part} in ${first}`);
    }
    assert.equal(shown(agent, 1), '### lobby From writer\n> more\n> ### lobby From bot');
    assert.deepEqual(outcome.output.agents[1].result, { summary: 'just words' });
    assert.deepEqual(
      one.snapshot().messages.map(({ sender }) => sender),
      ['writer', 'bot', 'writer'],
    );
    await one.dispose();
  });

  test('T10 words that break the contract are a summary; a host may read them otherwise', async () => {
    const bad = JSON.stringify(says('x', post('nowhere', 'x')));
    const { members } = scripted({ writer: [says('x', post('lobby', 'hi', 'bot'))] });
    const plain = await team({ definition: PAIR, members: { ...members, bot: bot(reply(bad)).member } }).run();
    assert.deepEqual(plain.output.agents[1].result, { summary: bad });
    const parse = (content, memberId) => ({ summary: `${memberId} said ${content.length}` });
    const read = await team({ definition: PAIR, members: { ...members, bot: bot(reply(bad)).member }, parse }).run();
    assert.deepEqual(read.output.agents[1].result, { summary: `bot said ${bad.length}` });
  });

  test('its model calls are admitted before and reported after, in the record', async () => {
    const store = new MemoryConversationStore();
    const { members } = scripted({ writer: [says('x', post('lobby', 'hi', 'bot'))] });
    const answer = reply('done', { metadata: { inputTokens: 3, outputTokens: 4, usageProvenance: 'complete' } });
    const one = team({ runId: 'r', definition: PAIR, members: { ...members, bot: bot(answer).member }, store });
    await one.run();
    const [call, ...others] = one.snapshot().usage;
    assert.deepEqual(others, []);
    assert.deepEqual([call.status, call.principal.id, call.turnId], ['settled', 'bot', 'team/bot/1']);
    assert.deepEqual(call.tokens, { input: 3, output: 4 });
    const kinds = (await lines(store, 'r')).map((line) => Object.keys(JSON.parse(line))[0]);
    assert.deepEqual(kinds.slice(-4), ['call-admitted/1', 'usage-reported/1', 'checkpointed/1', 'completed/1']);
  });

  test('a failed provider fails the member with its code, and its session is given back', async () => {
    const broken = bot(() => Promise.reject(Object.assign(new Error('no'), { code: 'ENGINE_UNAVAILABLE' })));
    const { members } = scripted({ writer: [says('x', post('lobby', 'hi', 'bot'))] });
    const one = team({ definition: PAIR, members: { ...members, bot: broken.member } });
    const outcome = await one.run();
    assert.deepEqual([outcome.status, outcome.code, outcome.members[0].id], ['failed', 'TEAM_NODE_FAILED', 'bot']);
    assert.equal(outcome.output.agents[0].result.summary, 'x');
    await one.dispose();
  });

  for (const [name, makeStore] of Object.entries(stores)) {
    test(`T14 a session that must ask parks the team, here and after a restart (${name})`, async () => {
      for (const restart of [false, true]) {
        for (const approved of [true, false]) {
          const store = await makeStore();
          const effects = [];
          const write = () => tool('write', async (args) => void effects.push(args) ?? { ok: true });
          const session = (...replies) =>
            sessionParticipant({
              id: 'bot',
              runtime,
              createSessionOptions: () => ({ provider: provider(...replies), model: 'm', tools: [write()] }),
            });
          const { members } = scripted({ writer: [says('x', post('lobby', 'hi', 'bot'))] });
          const asking = calling(['t1', 'write', { path: 'a' }]);
          const given = { ...members, bot: session(asking, ...(restart ? [] : [reply('finished')])) };
          const one = team({ runId: 'r', definition: PAIR, members: given, store });
          const paused = await one.run();
          assert.equal(paused.status, 'paused');
          const [request] = paused.requests;
          assert.deepEqual([request.kind, request.memberId, request.turnId], ['approval', 'bot', 'team/bot/1']);
          assert.deepEqual(effects, []);
          let next = one;
          if (restart) {
            await one.dispose();
            next = await loadTeam({ runId: 'r', store, members: { ...members, bot: session(reply('finished')) } });
            assert.equal((await next.run()).status, 'paused');
          }
          await assert.rejects(next.resume({ position: 'team/bot/1' }), { code: 'conflict' });
          const response = { kind: 'approval', approved };
          const outcome = await next.resume({ requestId: request.id, responseId: 'yes', response });
          assert.equal(outcome.status, 'completed', JSON.stringify(outcome));
          assert.deepEqual(outcome.output.agents[1].result, { summary: 'finished' });
          assert.equal(effects.length, approved ? 1 : 0);
          await next.dispose();
        }
      }
    });
  }

  for (const [name, makeStore] of Object.entries(stores)) {
    for (const by of ['position', 'request']) {
      test(`T14 F what was answered is not asked again when its attempt is stopped; a host resumes it by ${by} (${name})`, async () => {
        const store = await makeStore();
        const keys = [];
        const started = deferred();
        const session = (ends, ...replies) =>
          sessionParticipant({
            id: 'bot',
            runtime,
            createSessionOptions: () => ({
              provider: provider(...replies),
              model: 'm',
              tools: [
                tool('write', (_, { idempotencyKey }) => {
                  keys.push(idempotencyKey);
                  started.resolve();
                  return ends ? { ok: true } : new Promise(() => {});
                }),
              ],
            }),
            settleTimeoutMs: 20,
          });
        const alone = { runId: 'r', definition: definition(['bot'], {}), store };
        const one = team({ ...alone, members: { bot: session(false, calling(['t1', 'write', { path: 'a' }])) } });
        const [request] = (await one.run()).requests;
        const controller = new AbortController();
        const answer = { requestId: request.id, responseId: 'yes', response: { kind: 'approval', approved: true } };
        const answered = one.resume(answer, { signal: controller.signal });
        await started.promise;
        controller.abort();
        await answered;
        await one.dispose();

        const again = await loadTeam({ runId: 'r', store, members: { bot: session(true, reply('done')) } });
        const paused = await again.run();
        const [unknown] = paused.requests;
        assert.deepEqual([paused.requests.length, unknown.kind, keys.length], [1, 'reconciliation', 1]);
        const response = { kind: 'reconciliation', data: 'again' };
        const outcome = await again.resume(
          by === 'position' ? { position: unknown.turnId } : { requestId: unknown.id, responseId: 'again', response },
        );
        assert.deepEqual([outcome.status, outcome.output.agents[0].result], ['completed', { summary: 'done' }]);
        assert.deepEqual(keys, [keys[0], keys[0]], 'the action that was approved, and no other');
        await again.dispose();
      });
    }
  }

  test('what restores a saved state must be of the runtime that saved it', async () => {
    const store = fileStore({ directory: await temporary() });
    const { members } = scripted({ writer: [says('x', post('lobby', 'hi', 'bot'))] });
    await team({ runId: 'r', definition: PAIR, members: { ...members, bot: bot(reply('x')).member }, store }).run();
    const other = agentParticipant({ id: 'bot', runtime: { id: 'bot', version: '2' }, createAgent: () => ({}) });
    const options = { runId: 'r', store, members: { ...members, bot: other } };
    await assert.rejects(loadTeam(options), { code: 'STORED_GRAPH_MISMATCH' });
  });

  test('F settleTimeoutMs: the session of a turn that was given up is released before another opens', async () => {
    const [started, late] = [deferred(), deferred()];
    const log = [];
    let sessions = 0;
    const openSession = async () => {
      const number = ++sessions;
      log.push(`open ${number}`);
      const runTurn = () => {
        started.resolve();
        return number === 1 ? late.promise : Promise.resolve({ kind: 'speak', content: 'done' });
      };
      const checkpoint = async () => {
        log.push(`checkpoint ${number}`);
        return { version: '1', data: null };
      };
      return { session: { runTurn, checkpoint }, release: async () => void log.push(`release ${number}`) };
    };
    const member = { kind: 'agent', id: 'bot', runtime, factory: { openSession, checkpointVersions: ['1'] } };
    const clock = virtualClock();
    const alone = { definition: definition(['bot'], {}), members: { bot: member }, clock };
    const one = team({ ...alone, limits: { settleTimeoutMs: 50 } });
    const controller = new AbortController();
    const run = one.run({ signal: controller.signal });
    await started.promise;
    controller.abort();
    await clock.advance(50);
    assert.equal((await run).status, 'cancelled');
    assert.equal((await one.run()).status, 'paused');
    const outcome = await one.resume({ position: 'team/bot/1' });
    assert.deepEqual(outcome.output.agents[0].result, { summary: 'done' });
    late.resolve({ kind: 'speak', content: 'too late' });
    await one.dispose();
    assert.deepEqual(log, ['open 1', 'release 1', 'open 2', 'checkpoint 2', 'release 2']);
  });

  for (const [name, makeStore] of Object.entries(stores)) {
    for (const idempotent of [false, true]) {
      const what = idempotent ? 'one with a key runs again under it' : 'its team pauses for a person';
      test(`F a tool that was stopped with its session has come to an unknown end: ${what} (${name})`, async () => {
        const store = await makeStore();
        const keys = [];
        const started = deferred();
        const write = (ends) => ({
          ...tool('write', (_, { idempotencyKey }) => {
            keys.push(idempotencyKey);
            started.resolve();
            return ends ? { ok: true } : new Promise(() => {});
          }),
          ...(idempotent ? { idempotent } : {}),
        });
        const call = calling(['t1', 'write', { path: 'a' }]);
        const session = (ends, ...replies) =>
          sessionParticipant({
            id: 'bot',
            runtime,
            createSessionOptions: () => ({
              provider: provider(...replies),
              model: 'm',
              tools: [write(ends)],
              permissions: { allow: ['write'] },
            }),
          });
        const alone = { runId: 'r', definition: definition(['bot'], {}), store, limits: { settleTimeoutMs: 20 } };
        const one = team({ ...alone, members: { bot: session(false, call) } });
        const controller = new AbortController();
        const run = one.run({ signal: controller.signal });
        await started.promise;
        controller.abort();
        assert.equal((await run).status, 'cancelled');
        await one.dispose();

        const members = { bot: session(true, reply('done')) };
        const again = await loadTeam({ runId: 'r', store, members });
        let outcome = await again.run();
        if (!idempotent) {
          const [request] = outcome.requests;
          assert.deepEqual([request.kind, request.turnId, keys.length], ['reconciliation', 'team/bot/1', 1]);
          outcome = await again.resume({ position: 'team/bot/1' });
        }
        assert.deepEqual([outcome.status, outcome.output.agents[0].result], ['completed', { summary: 'done' }]);
        assert.deepEqual(keys, [keys[0], keys[0]], 'the same call, not another');
        await again.dispose();
      });
    }
  }
});
