// Bounds at their edge, where the engine puts members of its own around a host's value.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  agentParticipant,
  createRoundtable,
  exportTranscript,
  loadRoundtable,
  RoundtableError,
  sessionParticipant,
} from 'agent-roundtable';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { calling, reply, runOnce, scripted, tool } from './support/agent.mjs';
import { noting, open as openSession } from './support/session.mjs';
import { durable, registry } from './support/stored.mjs';

const MEBI = 1024 * 1024;
/** An object of this depth; the innermost level may be given. */
const nested = (depth, inner = {}) => {
  let value = inner;
  for (let level = 1; level < depth; level++) value = { a: value };
  return value;
};
const deepest = nested(100);
const limits = { maxTurnsPerRun: 1 };

describe('C2 a value of depth 100 passes wherever it stands, and one of 101 is refused by its name', () => {
  for (const [name, args] of [
    ['plain', deepest],
    ['that ends in what looks like a date', nested(100, { $date: 'x' })],
  ]) {
    test(`tool arguments ${name}: run, asked for, stored, loaded, approved and shown again`, async () => {
      const store = durable();
      const seen = [];
      const model = (messages) => {
        const results = messages.filter(({ role }) => role === 'tool');
        if (results.length < 1) return { ...calling(['t1', 'write', args]), metadata: deepest, parts: deepest };
        return { ...reply(`done: ${results[0].content === JSON.stringify(deepest)}`), metadata: deepest };
      };
      const agent = () =>
        sessionParticipant({
          id: 'ana',
          runtime: { id: 'r', version: '1' },
          createSessionOptions: () => {
            const write = noting('write', (given) => {
              seen.push(given);
              return deepest;
            });
            return { provider: { name: 'p', chat: async (messages) => model(messages) }, model: 'm', tools: [write] };
          },
        });
      const conversationId = `deep ${name}`;
      const table = createRoundtable({ conversationId, participants: [agent()], limits, store, recovery: 'durable' });
      const { requests, ...waiting } = await table.run();
      assert.equal(waiting.status, 'waiting');
      assert.deepEqual(requests[0].data.arguments, args);
      assert.ok(exportTranscript(table.snapshot(), 'jsonl').length > 0);
      await table.dispose();
      const load = () => loadRoundtable({ conversationId, store, registry: registry([agent()]) });
      const answering = await load();
      const { revision: expectedRevision } = answering.snapshot();
      const response = { kind: 'approval', approved: true };
      await answering.resume({ requestId: requests[0].id, responseId: 'yes', expectedRevision, response });
      await answering.dispose();
      const going = await load();
      assert.equal((await going.run()).status, 'limited');
      assert.deepEqual(seen, [args]);
      assert.equal(going.snapshot().messages[0].content, 'done: true');
      await going.dispose();
      // What was saved of it is read again.
      const last = await load();
      assert.equal((await last.run()).status, 'limited');
      await last.dispose();
    });
  }

  test('tool arguments of depth 101 cost the model a round, not the conversation its turn', async () => {
    const write = noting('write');
    const provider = scripted(calling(['t1', 'write', nested(101)]), reply('sorry'));
    assert.deepEqual(await runOnce({ provider, tools: [write] }), { kind: 'speak', content: 'sorry' });
    assert.match(provider.requests[1].messages.at(-1).content, /invalid-arguments.*nested/);
    assert.deepEqual(write.calls, []);
  });

  test('a tool result', async () => {
    for (const [depth, shown] of [
      [100, JSON.stringify(deepest)],
      [101, /invalid-result.*nested deeper than 100/],
    ]) {
      const provider = scripted(calling(['t1', 'read', {}]), reply('ok'));
      await runOnce({ provider, tools: [tool('read', () => nested(depth))] });
      const { content } = provider.requests[1].messages.at(-1);
      if (typeof shown === 'string') assert.equal(content, shown);
      else assert.match(content, shown);
    }
  });

  for (const [what, replied, path] of [
    ['metadata', (value) => ({ metadata: value }), /reply\.metadata/],
    ['parts', (value) => ({ parts: value }), /reply\.parts/],
  ])
    test(`a reply's ${what}`, async () => {
      const said = await runOnce({ provider: scripted(reply('hi', replied(deepest))) });
      assert.deepEqual(said, { kind: 'speak', content: 'hi' });
      const refused = runOnce({ provider: scripted(reply('hi', replied(nested(101)))) });
      await assert.rejects(refused, { code: 'EXECUTION_REPLY_INVALID', message: path });
    });

  /** A participant of the host's own. */
  const own = (runTurn, more = {}) => ({
    kind: 'agent',
    id: 'ana',
    runtime: { id: 'own', version: '1' },
    factory: {
      supportsContinuation: true,
      checkpointVersions: ['v'],
      modelCalls: 'metered',
      openSession: async () => ({ session: { runTurn, ...more }, release: async () => undefined }),
    },
  });
  const ended = async (participant) => {
    const table = createRoundtable({ conversationId: 'own', participants: [participant], limits, store: durable() });
    const result = await table.run();
    const { requests, usage } = table.snapshot();
    await table.dispose();
    return { ...result, open: requests, usage };
  };

  test("a request's data", async () => {
    const asking = (data) => async () => ({
      kind: 'wait',
      requests: [{ id: 'q', reason: 'r', kind: 'approval', data }],
    });
    const more = {
      resumeTurn: async () => ({ kind: 'yield' }),
      checkpoint: async () => ({ version: 'v', data: null }),
    };
    const waiting = await ended(own(asking(deepest), more));
    assert.deepEqual(waiting.open[0].data, deepest);
    const failed = await ended(own(asking(nested(101)), more));
    assert.match(failed.message, /requests\[0\]\.data.* is nested deeper than 100/);
  });

  test("a checkpoint's data and what it appends", async () => {
    const saved = (checkpoint) =>
      ended(own(async () => ({ kind: 'yield' }), { checkpoint: async () => ({ version: 'v', ...checkpoint }) }));
    assert.equal((await saved({ data: deepest, append: [deepest] })).status, 'limited');
    assert.match((await saved({ data: nested(101) })).message, /checkpoint\.data.* is nested deeper than 100/);
    assert.match((await saved({ data: 1, append: [nested(101)] })).message, /append\[0\].* is nested deeper than 100/);
  });

  test('what a provider said of its usage', async () => {
    const call = { callId: 'k', providerId: 'p', modelId: 'm' };
    const reporting = (raw) =>
      own(async (_turn, { services: given }) => {
        await given.admitModelCall(call);
        await given.recordUsage({ callId: 'k', outcome: 'completed', provenance: 'unknown', final: true, raw });
        return { kind: 'yield' };
      });
    const told = await ended(reporting(deepest));
    assert.equal(told.status, 'limited');
    assert.deepEqual(told.usage[0].raw, deepest);
    assert.match((await ended(reporting(nested(101)))).message, /report\.raw.* is nested deeper than 100/);
  });

  test('what another SDK waits for, keeps and says', async () => {
    const given = [];
    const participant = runtimeParticipant({
      id: 'ana',
      runtime: { id: 'sdk', version: '1' },
      createRuntime: () => ({
        run: async () => ({
          interruptions: [{ toolCallId: 't', toolName: 'write', arguments: deepest }],
          state: deepest,
        }),
        resume: async (state, decisions) => {
          given.push(state, decisions[0].arguments);
          return { finalOutput: 'ok', newItems: [deepest] };
        },
      }),
    });
    const store = durable();
    const table = createRoundtable({ conversationId: 'sdk', participants: [participant], limits, store });
    const { requests } = await table.run();
    await table.dispose();
    const again = await loadRoundtable({ conversationId: 'sdk', store, registry: registry([participant]) });
    const { revision: expectedRevision } = again.snapshot();
    const response = { kind: 'approval', approved: true };
    await again.resume({ requestId: requests[0].id, responseId: 'yes', expectedRevision, response });
    const result = await again.run();
    assert.equal(result.status, 'limited', JSON.stringify(result));
    assert.deepEqual(given, [deepest, deepest]);
    await again.dispose();
  });
});

describe('C2 a reply of the longest content passes, however its text is escaped', () => {
  const longest = '\u0001'.repeat(MEBI); // six units for each in JSON

  test('said by an agent and by a session, saved, loaded and shown again', async () => {
    for (const make of [agentParticipant, sessionParticipant]) {
      const shown = [];
      const provider = () => ({
        name: 'p',
        chat: async (messages) => {
          shown.push(messages.map(({ content }) => content));
          return reply(shown.length === 1 ? longest : 'short');
        },
      });
      const create = () => ({ provider: provider(), model: 'm' });
      const agent = () =>
        make({ id: 'ana', runtime: { id: 'r', version: '1' }, createAgent: create, createSessionOptions: create });
      const store = durable();
      const conversationId = `long ${make.name}`;
      const table = createRoundtable({ conversationId, participants: [agent()], limits, store, recovery: 'durable' });
      const first = await table.run();
      assert.equal(first.status, 'limited', JSON.stringify(first));
      assert.ok(table.snapshot().messages[0].content === longest);
      assert.ok(exportTranscript(table.snapshot(), 'jsonl').length > 6 * MEBI);
      await table.dispose();
      const again = await loadRoundtable({ conversationId, store, registry: registry([agent()]) });
      const second = await again.run();
      assert.equal(second.status, 'limited', JSON.stringify(second));
      assert.ok(shown[1].includes(longest));
      await again.dispose();
    }
  });

  test('one unit more is refused by its name', async () => {
    const refused = runOnce({ provider: scripted(reply(`${longest}x`)) });
    await assert.rejects(refused, { code: 'EXECUTION_REPLY_INVALID', message: /reply\.content.*1048576/ });
  });
});

describe('C2 text that is no text is refused by its name', () => {
  const lone = 'a\ud800';
  const good = () => ({ provider: scripted(), model: 'm', tools: [tool('t', () => null)] });
  for (const [field, spoil] of Object.entries({
    'provider.name': (options) => (options.provider.name = lone),
    model: (options) => (options.model = lone),
    systemMessage: (options) => (options.systemMessage = lone),
    'tools[0].name': (options) => (options.tools[0].name = lone),
    'tools[0].description': (options) => (options.tools[0].description = lone),
    'tools[0].parameters': (options) => (options.tools[0].parameters = { [lone]: {} }),
  })) {
    test(`a lone surrogate in ${field}`, async () => {
      const options = good();
      spoil(options);
      const named = (error) =>
        error instanceof RoundtableError && error.code === 'invalid-config' && error.message.startsWith(field);
      await assert.rejects(runOnce(options), named);
      await assert.rejects(openSession(options), named);
    });
  }
});
