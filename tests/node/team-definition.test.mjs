// Definitions and options: checked at the door, copied, and compared with the record.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileTeam, createTeam, loadTeam, MemoryConversationStore, TeamError } from 'agent-roundtable';
import { definition, dialogue, failure, lines, PAIR, post, says, scripted, stores, team } from './support/teams.mjs';

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`on the ${name} store`, () => {
    test('T17 T18 every finding is listed at once, each with its code and path, and nothing is stored', async () => {
      const issues = (given) => {
        try {
          compileTeam(given);
          return [];
        } catch (error) {
          assert.ok(error instanceof TeamError && error instanceof Error);
          assert.equal(error.code, 'INVALID_TEAM');
          return error.issues.map(({ code, path }) => `${code} ${path}`);
        }
      };
      for (const bad of [0, -1, 1.5, 2 ** 53]) {
        const found = issues(definition(['a'], { room: ['a'] }, { concurrency: bad, cap: bad, tail: bad }));
        assert.deepEqual(found.sort(), [
          'INVALID_TEAM /data/communication/tailMessages',
          'INVALID_TEAM /data/globalConcurrency',
          'INVALID_TEAM /data/maxTurnsPerMember',
        ]);
      }
      assert.deepEqual(issues(definition(['a', 'b'], {}, { cap: 2 ** 52 })), ['INVALID_TEAM /data/maxTurnsPerMember']);
      for (const id of ['', ' x', 'x ', 'x\n', 'x\u007f']) {
        const found = issues(definition(['a'], { [id]: [] }, { nodes: [{ id, data: { role: '', brief: '' } }] }));
        assert.deepEqual(
          found,
          ['INVALID_ID /nodes/0/id', 'INVALID_ID /data/communication/rooms/0/id'],
          JSON.stringify(id),
        );
      }
      assert.deepEqual(issues(definition(['a', 'a'], { r: ['a', 'a', 'z'] }, { edges: [{}] })), [
        'DUPLICATE_NODE_ID /nodes/1/id',
        'INVALID_TEAM /edges',
        'INVALID_TEAM /data/communication/rooms/0/members/1',
        'INVALID_TEAM /data/communication/rooms/0/members/2',
      ]);
      for (const value of [undefined, null, 7, [], () => {}]) assert.ok(issues(value).length > 0);
      const store = await makeStore();
      const refused = () => team({ definition: definition(['a', 'a'], {}), members: {}, store });
      assert.throws(refused, { code: 'INVALID_TEAM' });
      assert.deepEqual((await store.list({})).items, []);
    });

    test('T19 what the caller does to its objects later changes nothing', async () => {
      const given = definition(['a', '-b', '-c'], { room: ['a', 'b'] });
      const compiled = compileTeam(given);
      const { members } = scripted({ a: [says('x', post('room', 'm', 'c'))], b: [], c: [] });
      const one = team({ definition: given, members, store: await makeStore() });
      given.data.communication.rooms[0].members.push('c');
      given.nodes.length = 0;
      assert.deepEqual(failure(await one.run()), ['TEAM_NODE_FAILED', 'a RESULT_INVALID']);
      assert.equal(compiled.validateResult('a', says('x', post('room', 'm', 'c'))).path, '/posts/0/mentions/0');
      assert.equal(compiled.validateResult('a', says('x', post('room', 'm', 'b'))), null);
      assert.ok(Object.isFrozen(compiled.definition.data.communication.rooms[0].members));
      assert.deepEqual(compiled.bounds, { minDispatches: 1, maxDispatches: 15, maxConcurrency: 1 });
    });
  });
}

test('F another definition, or other options, are refused and nothing is written', async () => {
  const store = new MemoryConversationStore();
  const { members } = dialogue();
  await team({ runId: 'r', definition: PAIR, members, store }).run();
  const before = await lines(store, 'r');
  const other = definition(['writer', '-reviewer'], { room: ['writer', 'reviewer'] }, { cap: 9 });
  const mismatch = { code: 'STORED_GRAPH_MISMATCH' };
  await assert.rejects(team({ runId: 'r', definition: other, members, store }).run(), mismatch);
  await assert.rejects(team({ runId: 'r', definition: PAIR, members, store, softTurnLimit: true }).run(), mismatch);
  await assert.rejects(loadTeam({ runId: 'r', definition: other, members, store }), mismatch);
  assert.deepEqual(await lines(store, 'r'), before);
});

test('F options are checked at the door and named', () => {
  const { members } = dialogue();
  const given = { runId: 'r', definition: PAIR, members };
  for (const [field, options] of [
    ['runId', { runId: '' }],
    ['members["reviewer"]', { members: { writer: members.writer } }],
    ['members["other"]', { members: { ...members, other: members.writer } }],
    ['members["writer"]', { members: { ...members, writer: 7 } }],
    ['order', { order: 'random' }],
    ['softTurnLimit', { softTurnLimit: 1 }],
    ['selfMention', { selfMention: 'never' }],
    ['limits.inputBytes', { limits: { inputBytes: 0 } }],
    ['limits.inputByte', { limits: { inputByte: 1 } }],
    ['store', { store: {} }],
    ['leaseMs', { leaseMs: -1 }],
  ]) {
    assert.throws(
      () => createTeam({ ...given, ...options }),
      (error) => {
        assert.equal(error.code, 'invalid-config');
        assert.ok(error.message.startsWith(field), `${error.message} does not name ${field}`);
        return true;
      },
    );
  }
});
