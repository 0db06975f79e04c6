// Results of turns: the contract, what breaks it, the byte limits, and who may read what.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileTeam, loadTeam, MemoryConversationStore, renderTeamRooms } from 'agent-roundtable';
import { sealed } from './support/sealed.mjs';
import { deadClock, definition, failure, lines, post, says, scripted, stores, team } from './support/teams.mjs';

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`on the ${name} store`, () => {
    test('T10 T20 every malformed result fails its turn before a completion is saved', async () => {
      const body = (fields) => ({ summary: 'x', posts: [{ roomId: 'room', text: 't', mentions: [], ...fields }] });
      const bad = [
        null,
        undefined,
        [],
        'text',
        7,
        new Date(),
        {},
        { summary: 1 },
        { summary: 'x', posts: null },
        { summary: 'x', posts: {} },
        { summary: 'x', posts: [null] },
        body({ roomId: 1 }),
        body({ roomId: 'other' }),
        body({ text: null }),
        body({ mentions: 'a' }),
        body({ mentions: [1] }),
      ];
      for (const result of bad) {
        const store = await makeStore();
        const { members } = scripted({ a: () => result });
        const one = team({ definition: definition(['a'], { room: ['a'] }), members, store });
        assert.deepEqual(failure(await one.run()), ['TEAM_NODE_FAILED', 'a RESULT_INVALID']);
        const { runId, messages, members: states } = one.snapshot();
        assert.deepEqual([messages, states[0].result], [[], null]);
        assert.ok(!(await lines(store, runId)).some((line) => line.includes('"completed/')));
      }
      const { members } = scripted({ a: [{ summary: 'x', posts: [] }] });
      const mute = team({ definition: definition(['a']), members, store: await makeStore() });
      assert.deepEqual(failure(await mute.run()), ['TEAM_NODE_FAILED', 'a RESULT_INVALID']);
    });

    test('T12 an invalid completion in the record is a replayed failure that keeps what was said before', async () => {
      const store = await makeStore();
      const { members } = scripted({ a: [says('x', post('room', 'kept'))], b: () => new Promise(() => {}) });
      const both = definition(['a', 'b'], { room: ['a', 'b'] });
      const first = team({ runId: 'r', definition: both, members, store, clock: deadClock });
      const run = first.run().catch(() => {});
      while (first.snapshot().members[1].status !== 'in-flight') await new Promise((resolve) => setTimeout(resolve, 5));
      const until = await store.load('r');
      const copy = new MemoryConversationStore();
      await copy.create({
        ...until,
        conversationId: 'r',
        kind: 'team',
        schemaVersion: 1,
        entries: until.batches[0].entries,
      });
      const bad = sealed('{"completed/1":{"nodeId":"b","position":"team/b/1","result":{"summary":7}}}');
      for (const [at, { entries }] of [...until.batches.slice(1), { entries: [bad] }].entries()) {
        const batch = { conversationId: 'r', expectedRevision: at + 1, operationId: `copy-${at}`, entries };
        await copy.append({ ...batch, summary: until.summary });
      }
      const reopened = await loadTeam({ runId: 'r', store: copy, members: scripted({ a: [], b: [] }).members });
      assert.deepEqual(failure(await reopened.run()), ['TEAM_NODE_FAILED', 'b RESULT_INVALID']);
      assert.deepEqual(
        reopened.snapshot().messages.map(({ text }) => text),
        ['kept'],
      );
      assert.equal((await copy.load('r')).revision, until.revision + 1);
      const { rooms } = await renderTeamRooms({ store: copy, runId: 'r' });
      assert.equal(rooms[0].text, 'a [team/a/1/0]: kept\n');
      void run;
    });

    test('T23 a byte of input is too little for a call, a byte of output for its posts', async () => {
      const { members, calls } = scripted({ a: [says('x', post('room', 'm'))] });
      const one = definition(['a'], { room: ['a'] });
      const limited = (limits, store) => team({ definition: one, members, limits, store });
      const input = limited({ inputBytes: 1 }, await makeStore());
      assert.deepEqual(failure(await input.run()), ['TEAM_NODE_FAILED', 'a INPUT_LIMIT']);
      assert.equal(calls.length, 0);
      const output = limited({ outputBytes: 1 }, await makeStore());
      assert.deepEqual(failure(await output.run()), ['TEAM_NODE_FAILED', 'a OUTPUT_LIMIT']);
      assert.deepEqual([calls.length, output.snapshot().messages], [1, []]);
    });
  });
}

test('F a reader outside a room is not shown its posts', () => {
  const compiled = compileTeam(definition(['a', 'b', 'c'], { all: ['a', 'b', 'c'], pair: ['a', 'b'] }));
  const result = says('s', post('pair', 'secret'), post('all', 'open'));
  const output = { task: 't', agents: [{ name: 'a', role: 'r', result }] };
  const redacted = compiled.redactResult('c', output);
  assert.deepEqual(
    redacted.agents[0].result.posts.map(({ text }) => text),
    ['open'],
  );
  assert.deepEqual(compiled.redactResult('b', output), output);
});
