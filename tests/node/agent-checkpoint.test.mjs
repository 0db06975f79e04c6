// The agent/1 checkpoint: what it holds, what it restores, what it refuses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RuntimeParticipantError } from 'agent-roundtable';
import { calling, execution, open, reply, scripted, tool, turn } from './support/agent.mjs';

const look = () => tool('look', () => ({ seen: true }));

/** Runs turns on fresh options and gives the joined checkpoint, as a store would hand it back. */
async function settled(options, attempts = ['a1']) {
  const lease = await open(options);
  let joined;
  for (const attempt of attempts) {
    await lease.session.runTurn(turn(attempt), execution());
    const { version, data, append } = await lease.session.checkpoint();
    joined = { version, data, append: [...(joined?.append ?? []), ...append] };
  }
  await lease.release();
  return JSON.parse(JSON.stringify(joined));
}

/** What a session restored from `checkpoint` shows its model before the new input. */
async function shown(checkpoint, options = {}) {
  const provider = scripted(reply('ok'));
  const lease = await open({ provider, ...options }, { checkpoint });
  await lease.session.runTurn(turn('b1'), execution());
  await lease.release();
  return provider.requests[0].messages.slice(0, -1);
}

test('A44 A42 a history is restored equal, with real dates beside data that looks like one', async () => {
  const odd = JSON.parse('{"$date":"2027-01-05T08:00:01.000Z"}');
  Object.defineProperty(odd, '__proto__', { value: new Date(7), enumerable: true });
  const metadata = { when: new Date(5), shaped: { $date: 'x' }, escaped: { $escaped: { $date: new Date(6) } }, odd };
  const provider = scripted(
    calling(['t1', 'look', {}]),
    reply('one', { metadata, parts: [{ type: 'text', text: 'p' }] }),
    reply('two'),
  );
  const checkpoint = await settled({ provider, tools: [look()] }, ['a1', 'a2']);
  const history = await shown(checkpoint, { tools: [look()] });
  assert.deepEqual(history.slice(0, 4), provider.requests[2].messages.slice(0, 4));
  assert.deepEqual(
    history.map((m) => [m.role, m.content]),
    [
      ['user', '### From ana\n> hello'],
      ['assistant', null],
      ['tool', '{"seen":true}'],
      ['assistant', 'one'],
      ['user', '### From ana\n> hello'],
      ['assistant', 'two'],
    ],
  );
  assert.ok(history.every((m) => m.timestamp instanceof Date));
  assert.deepEqual(history[3].parts, [{ type: 'text', text: 'p' }]);
  assert.deepEqual([history[2].toolCallId, history[2].name], ['t1', 'look']);
  const kept = history[3].metadata;
  assert.deepEqual(kept, metadata);
  assert.ok(kept.when instanceof Date && kept.escaped.$escaped.$date instanceof Date);
  assert.equal(Object.getPrototypeOf(kept.odd), Object.prototype);
  assert.deepEqual(Object.getOwnPropertyDescriptor(kept.odd, '__proto__').value, new Date(7));
});

test('A44 arguments are kept as the model wrote them, whether or not they could be read', async () => {
  const texts = ['{ "b": 1,\n  "a": 1.0 }', '', ' {} ', '{"cut":', 'x'];
  const calls = texts.map((text, index) => [`t${index}`, 'look', text]);
  const provider = scripted(calling(...calls), reply('one'));
  const checkpoint = await settled({ provider, tools: [look()] });
  const history = await shown(checkpoint, { tools: [look()] });
  for (const [, { toolCalls }] of [provider.requests[1].messages, history])
    assert.deepEqual(
      toolCalls.map((call) => call.function.arguments),
      texts,
    );
});

test('a checkpoint appends what its turn added and restores to an equal head with nothing to append', async () => {
  const provider = scripted(reply('one'), reply('two'));
  const lease = await open({ provider });
  await lease.session.runTurn(turn('a1'), execution());
  const first = await lease.session.checkpoint();
  await lease.session.runTurn(turn('a2'), execution());
  const second = await lease.session.checkpoint();
  await lease.release();
  assert.deepEqual([first.version, first.append.length, second.append.length], ['agent/1', 2, 2]);
  const joined = { ...second, append: [...first.append, ...second.append] };
  const restored = await open({ provider: scripted() }, { checkpoint: joined });
  assert.deepEqual(await restored.session.checkpoint(), { ...second, append: [] });
  await restored.release();
});

test('A43 a checkpoint holds no word of what the agent is made of', async () => {
  const systemMessage = 'secret instructions';
  const checkpoint = await settled({ provider: scripted(reply('hi')), systemMessage, tools: [look()] });
  const text = JSON.stringify(checkpoint);
  for (const word of ['secret', 'look', 'scripted']) assert.ok(!text.includes(word), word);
  for (const hash of Object.values(checkpoint.data.fingerprint).flat()) assert.match(hash, /^[0-9a-f]{64}$/);
});

test('another provider or model is refused by name; other instructions or tools restore and are told', async () => {
  const checkpoint = await settled({ provider: scripted(reply('hi')), systemMessage: 'old', tools: [look()] });
  const refused = (name) => (error) =>
    error instanceof RuntimeParticipantError && error.code === 'checkpoint-invalid' && error.message.includes(name);
  await assert.rejects(open({ provider: scripted(), model: 'n' }, { checkpoint }), refused('model'));
  await assert.rejects(open({ provider: { ...scripted(), name: 'q' } }, { checkpoint }), refused('provider'));
  const events = [];
  const restoring = [];
  const onEvent = (event) => {
    events.push(event);
    throw new Error('an observer changes nothing');
  };
  const createAgent = (context) => {
    restoring.push(context);
    return { provider: scripted(), model: 'm', systemMessage: 'new' };
  };
  await (await open({}, { checkpoint, onEvent, createAgent })).release();
  assert.deepEqual(events, [
    { type: 'construction-changed', conversationId: 'c', participantId: 'bot', changed: ['systemMessage', 'tools'] },
  ]);
  assert.deepEqual(restoring, [{ conversationId: 'c', participantId: 'bot', restoring: true }]);
});

test('A45 A46 a checkpoint of another version or shape is refused', async () => {
  const good = await settled({ provider: scripted(reply('hi')) });
  const cases = [
    { ...good, version: 'agent/2' },
    { ...good, version: 'session/1' },
    { ...good, data: null },
    { ...good, data: {} },
    { ...good, append: [1] },
    { ...good, append: [{ ...good.append[0], role: 'system' }] },
    { ...good, append: [{ ...good.append[0], timestamp: '2027' }] },
    { ...good, append: [{ ...good.append[0], timestamp: { $date: '2027' } }] },
    { ...good, append: 'x' },
    { ...good, data: { fingerprint: {} } },
    ...['provider', 'model', 'systemMessage'].flatMap((key) =>
      [undefined, '', 'x', 7, 'A'.repeat(64)].map((hash) => ({
        ...good,
        data: { fingerprint: { ...good.data.fingerprint, [key]: hash } },
      })),
    ),
    ...[undefined, 'x', ['x'], [null]].map((tools) => ({
      ...good,
      data: { fingerprint: { ...good.data.fingerprint, tools } },
    })),
    { ...good, append: [good.append[0], { ...good.append[1], role: 'tool', toolCallId: 't' }] },
    { ...good, append: [good.append[0], { ...good.append[1], state: 'odd' }] },
    { ...good, append: [good.append[0], { ...good.append[1], id: '' }] },
    { ...good, append: [good.append[0], { ...good.append[1], metadata: 7 }] },
  ];
  for (const checkpoint of cases) {
    await assert.rejects(
      open({ provider: scripted() }, { checkpoint }),
      { code: 'checkpoint-invalid' },
      JSON.stringify(checkpoint),
    );
  }
  assert.equal((await shown(good)).length, 2);
});

test('nothing a provider does to its messages reaches the history or the checkpoint', async () => {
  const mine = reply('said', { metadata: { list: [1] } });
  const provider = scripted((messages) => {
    assert.throws(() => messages.push('x'), TypeError);
    assert.throws(() => {
      messages[0].content = 'x';
    }, TypeError);
    return mine;
  });
  const lease = await open({ provider });
  await lease.session.runTurn(turn(), execution());
  mine.content = 'changed';
  mine.metadata.list.push(2);
  const { append } = await lease.session.checkpoint();
  await lease.release();
  assert.deepEqual([append[1].content, append[1].metadata], ['said', { list: [1] }]);
});
