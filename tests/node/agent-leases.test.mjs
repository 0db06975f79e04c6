// Who holds which object. A plain agent holds its options, its provider and its tools.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordProvider, RuntimeParticipantError } from 'agent-roundtable';
import { calling, deferred, execution, open, reply, scripted, settle, tool, turn } from './support/agent.mjs';

const reused =
  (message = /./) =>
  (error) => {
    assert.ok(error instanceof RuntimeParticipantError && error instanceof Error);
    assert.equal(error.name, 'RuntimeParticipantError');
    assert.equal(error.code, 'resource-reused');
    assert.match(error.message, message);
    return true;
  };

test('A16 A19 A86 a provider serves one session at a time, and another once it is released', async () => {
  const provider = scripted();
  const lease = await open({ provider });
  await assert.rejects(open({ provider }), reused(/scripted/));
  await lease.release();
  await lease.release();
  await (await open({ provider })).release();
});

test('A19 a release that is called again does not free what another session has taken since', async () => {
  const provider = scripted(reply('second'));
  const look = tool('look', () => 1);
  const first = await open({ provider, tools: [look] });
  await first.release();
  const second = await open({ provider, tools: [look] });
  await first.release();
  await assert.rejects(open({ provider }), reused(/scripted/));
  await assert.rejects(open({ provider: scripted(), tools: [look] }), reused(/look/));
  assert.deepEqual(await second.session.runTurn(turn(), execution()), { kind: 'speak', content: 'second' });
  await second.release();
  await (await open({ provider, tools: [look] })).release();
});

test('K7 a provider is held through what wraps it', async () => {
  const inner = scripted();
  const record = () => recordProvider(inner, { sessionId: 's', write() {} });
  const outer = { ...scripted(), name: 'outer', wraps: record() };
  const lease = await open({ provider: record() });
  for (const provider of [inner, record(), outer]) await assert.rejects(open({ provider }), reused(/scripted/));
  await lease.release();
  await (await open({ provider: outer })).release();

  const around = scripted();
  around.wraps = { wraps: around };
  const deep = Array.from({ length: 17 }).reduce((wraps) => ({ ...scripted(), wraps }), scripted());
  for (const [provider, message] of [
    [{ ...scripted(), wraps: 5 }, /^provider\.wraps must be an object/],
    [around, /^provider\.wraps\.wraps is wrapped by itself/],
    [deep, /more than 16 wrappers deep/],
  ])
    await assert.rejects(open({ provider }), { code: 'invalid-config', message });
});

test('A17 A87 a shared tool is refused', async () => {
  const shared = tool('shared', () => 1);
  const lease = await open({ provider: scripted(), tools: [shared] });
  await assert.rejects(open({ provider: scripted(), tools: [shared] }), reused(/shared/));
  await lease.release();
});

test('a shared options object is refused', async () => {
  const options = { provider: scripted(), model: 'm' };
  const lease = await open(() => options);
  await assert.rejects(
    open(() => options),
    reused(/^an object belongs/),
  );
  await lease.release();
});

test('A17 of several objects that are held, the first is named', async () => {
  const [one, two] = [tool('one', () => 1), tool('two', () => 1)];
  const leases = [
    await open({ provider: scripted(), tools: [two] }),
    await open({ provider: scripted(), tools: [one] }),
  ];
  await assert.rejects(open({ provider: scripted(), tools: [tool('free', () => 1), one, two] }), reused(/^one /));
  for (const lease of leases) await lease.release();
});

test('A18 a claim is all or nothing: what was free stays free', async () => {
  const free = tool('free', () => 1);
  const taken = scripted();
  const lease = await open({ provider: taken });
  await assert.rejects(open({ provider: taken, tools: [free] }), reused());
  await (await open({ provider: scripted(), tools: [free] })).release();
  await lease.release();
  // What comes before the one that is held stays free as well.
  const other = tool('other', () => 1);
  const holder = await open({ provider: scripted(), tools: [other] });
  const options = { provider: taken, model: 'm', tools: [free, other] };
  await assert.rejects(
    open(() => options),
    reused(/^other /),
  );
  await (await open({ provider: taken, tools: [free] })).release();
  await holder.release();
  await (await open(() => options)).release();
});

test('the same tool object twice in one claim is fine for the claim', async () => {
  const twice = tool('twice', () => 1);
  await assert.rejects(open({ provider: scripted(), tools: [twice, twice] }), { code: 'invalid-config' });
});

test('A20 A21 A22 A23 a clash is named by getName, else name, else constructor, else in general', async () => {
  class Toolbox {
    description = '';
    parameters = {};
    execute() {}
  }
  const named = (extra) => Object.assign(new Toolbox(), extra);
  const cases = [
    [named({ name: 'x', getName: () => 'by getName' }), /^by getName /],
    [named({ name: 'by name', getName: () => '' }), /^by name /],
    [
      Object.defineProperty(named({ name: 'by name' }), 'getName', {
        get() {
          throw new Error('no');
        },
      }),
      /^by name /,
    ],
    [
      named({
        name: 'by name',
        getName: () => {
          throw new Error('no');
        },
      }),
      /^by name /,
    ],
    [named({ name: 'by name' }), /^by name /],
    [
      named({
        name: 'x',
        getName() {
          return `by its own ${this.name}`;
        },
      }),
      /^by its own x /,
    ],
    [named({ name: 'by name', getName: () => 7 }), /^by name /],
  ];
  for (const [object, message] of cases) {
    const lease = await open({ provider: scripted(), tools: [object] });
    await assert.rejects(open({ provider: scripted(), tools: [object] }), reused(message));
    await lease.release();
  }
  class Settings {
    provider = scripted();
    model = 'm';
  }
  const bare = { provider: scripted(), model: 'm' };
  class Unnamed extends Settings {}
  Object.defineProperty(Unnamed, 'name', { value: '' });
  const nameless = [bare, Object.assign(Object.create(null), bare, { provider: scripted() }), new Unnamed()];
  for (const [options, message] of [
    [new Settings(), /^Settings /],
    ...nameless.map((options) => [options, /^an object belongs to another open session$/]),
  ]) {
    const lease = await open(() => options);
    await assert.rejects(
      open(() => options),
      reused(message),
    );
    await lease.release();
  }
});

test('A88 a refused open destroys nothing: the first session still works', async () => {
  const disposed = [];
  const dispose = (name) => () => void disposed.push(name);
  const look = tool('look', () => 'seen');
  const provider = scripted(reply('one'), calling(['t', 'look', {}]), reply('still here'));
  const lease = await open({ provider, tools: [look], dispose: dispose('first') });
  const run = (attemptId) => lease.session.runTurn(turn(attemptId), execution());
  await run('a1');
  for (const shared of [{ provider }, { provider: scripted(), tools: [look] }])
    await assert.rejects(open({ ...shared, dispose: dispose('second') }), reused());
  await settle();
  assert.deepEqual(disposed, []);
  assert.deepEqual(await run('a2'), { kind: 'speak', content: 'still here' });
  // Its history is what it was.
  assert.deepEqual(
    provider.requests[2].messages.map(({ role }) => role),
    ['user', 'assistant', 'user', 'assistant', 'tool'],
  );
  await lease.release();
  assert.deepEqual(disposed, ['first']);
});

test('A89 an undecodable checkpoint: the new agent is disposed of, its objects are free', async () => {
  let disposed = 0;
  const provider = scripted();
  const dispose = () => {
    disposed++;
    throw new Error('hidden by what was wrong first');
  };
  const look = tool('look', () => 1);
  const lease = await open({ provider });
  const good = await lease.session.checkpoint();
  await lease.release();
  const bad = [
    { version: 'agent/2', data: {}, append: [] },
    { ...good, data: {} },
    { ...good, append: [{ role: 'user' }] },
  ];
  for (const [index, checkpoint] of bad.entries()) {
    const opening = open({ provider, tools: [look], dispose }, { checkpoint });
    await assert.rejects(opening, { code: 'checkpoint-invalid' });
    assert.equal(disposed, index + 1);
    await (await open({ provider, tools: [look] })).release();
  }
});

test('K8 a second turn that was refused is not what a release waits for', async () => {
  const finish = deferred();
  const provider = scripted(() => finish.promise);
  let disposed = 0;
  const lease = await open({ provider, dispose: () => void disposed++ });
  const running = lease.session.runTurn(turn('a1'), execution());
  await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'busy' });
  const releasing = lease.release();
  await settle();
  assert.equal(disposed, 0);
  finish.resolve(reply('late'));
  assert.deepEqual(await running, { kind: 'speak', content: 'late' });
  await releasing;
  assert.equal(disposed, 1);
});

test('K8 a release while a turn runs waits for it, and its provider is held until then', async () => {
  let finish;
  const provider = scripted(
    () =>
      new Promise((done) => {
        finish = () => done(reply('late'));
      }),
  );
  const lease = await open({ provider });
  const running = lease.session.runTurn(turn(), execution());
  await settle();
  let released = false;
  const releasing = lease.release().then(() => (released = true));
  await settle();
  assert.equal(released, false);
  await assert.rejects(open({ provider }), { code: 'resource-reused' });
  finish();
  assert.deepEqual(await running, { kind: 'speak', content: 'late' });
  await releasing;
  await (await open({ provider })).release();
});
