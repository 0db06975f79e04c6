// Teams: the acceptance list, on the memory store and on files.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createRoundtable, MemoryConversationStore } from 'agent-roundtable';
import { fileStore, projectTeamRooms } from 'agent-roundtable/node';
import { compileTeam, createTeam, loadTeam, renderTeamRooms, TeamError } from 'agent-roundtable/team';
import { agent, deferred } from './support/conversations.mjs';
import {
  deadClock,
  definition,
  dying,
  lines,
  post,
  says,
  scripted,
  stores,
  team,
  temporary,
  unclaimed,
} from './support/teams.mjs';

const PAIR = definition(['writer', '-reviewer'], { room: ['writer', 'reviewer'] });
const dialogue = (calls) =>
  scripted(
    {
      writer: [says('draft', post('room', 'question', 'reviewer')), says('final')],
      reviewer: [says('checked', post('room', 'reply', 'writer'))],
    },
    calls,
  );
const texts = ({ input }) => input.messages.map(({ text }) => text);
const failure = (outcome) => {
  assert.equal(outcome.status, 'failed');
  return [outcome.code, ...outcome.members.map(({ id, code }) => `${id} ${code}`)];
};

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`on the ${name} store`, () => {
    test('T1 T2 writer, reviewer, writer; each message once and in order', async () => {
      const store = await makeStore();
      const { members, calls, positions } = dialogue();
      const outcome = await team({ definition: PAIR, members, store }).run();
      assert.deepEqual(positions(), ['team/writer/1', 'team/reviewer/1', 'team/writer/2']);
      assert.equal(outcome.status, 'completed');
      assert.deepEqual(
        outcome.output.agents.map(({ name: who, result }) => [who, result.summary]),
        [
          ['writer', 'final'],
          ['reviewer', 'checked'],
        ],
      );
      const { input } = calls[2];
      assert.deepEqual(Object.keys(input).sort(), ['brief', 'messages', 'result', 'role', 'task']);
      assert.equal(input.result.summary, 'draft');
      assert.deepEqual(texts(calls[2]), ['question', 'reply']);
      assert.deepEqual(input.messages[1], {
        roomId: 'room',
        text: 'reply',
        mentions: ['writer'],
        id: 'team/reviewer/1/0',
        sender: 'reviewer',
        position: 'team/reviewer/1',
      });
    });

    test('T3 T4 everyone begins unless it waits; one that nobody mentions has no result', async () => {
      const store = await makeStore();
      const { members, positions } = scripted({ a: [says('x')], b: [says('y')], c: [says('z')] });
      const outcome = await team({ definition: definition(['a', 'b', '-c'], {}), members, store }).run();
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1']);
      assert.equal(outcome.output.agents[2].result, null);
    });

    test('T5 two mentions of one turn make one turn that shows both, whatever the tail', async () => {
      const { members, calls, positions } = scripted({
        writer: [says('x', post('room', 'one', 'reviewer'), post('room', 'two', 'reviewer'))],
        reviewer: [says('y')],
      });
      const short = definition(['writer', '-reviewer'], { room: ['writer', 'reviewer'] }, { tail: 1 });
      await team({ definition: short, members, store: await makeStore() }).run();
      assert.deepEqual(positions(), ['team/writer/1', 'team/reviewer/1']);
      assert.deepEqual(texts(calls[1]), ['one', 'two']);
    });

    test('T6 a mention during a turn asks for a later one', async () => {
      const { members, calls, positions } = scripted({ a: [says('x', post('room', 'for b', 'b'))], b: [says('y')] });
      const both = definition(['a', 'b'], { room: ['a', 'b'] }, { concurrency: 2 });
      await team({ definition: both, members, store: await makeStore() }).run();
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1', 'team/b/2']);
      assert.deepEqual(texts(calls[1]), []);
      assert.deepEqual(texts(calls[2]), ['for b']);
    });

    test('T7 a batch settles before the next begins', async () => {
      const [a, b] = [deferred(), deferred()];
      const { members, positions } = scripted({ a: () => a.promise, b: () => b.promise, c: [says('c')] });
      const three = definition(['a', 'b', 'c'], {}, { concurrency: 2 });
      const run = team({ definition: three, members, store: await makeStore() }).run();
      while (positions().length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      b.resolve(says('b'));
      await new Promise((resolve) => setTimeout(resolve, 50));
      assert.equal(positions().length, 2);
      a.resolve(says('a'));
      await run;
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1', 'team/c/1']);
    });

    test('T8 nothing of another room, and no result of another member, is in an input', async () => {
      const { members, calls } = scripted({
        a: [says('summary of a', post('pair', 'secret', 'b'), post('all', 'open', 'c'))],
        b: [says('x')],
        c: [says('y')],
      });
      const two = definition(['a', '-b', '-c'], { all: ['a', 'b', 'c'], pair: ['a', 'b'] });
      await team({ definition: two, members, store: await makeStore() }).run();
      const shown = JSON.stringify(calls.find(({ position }) => position === 'team/c/1').input);
      assert.ok(shown.includes('open') && !shown.includes('secret') && !shown.includes('summary of a'));
    });

    test('T9 one bad post and none of its turn is delivered', async () => {
      const two = definition(['a', '-b', '-c'], { all: ['a', 'b'], pair: ['b', 'c'] });
      for (const bad of [post('pair', 'x'), post('all', 'x', 'c'), post('all', 'x', 'nobody')]) {
        const { members, calls } = scripted({ a: [says('x', post('all', 'good', 'b'), bad)], b: [], c: [] });
        const one = team({ definition: two, members, store: await makeStore() });
        assert.deepEqual(failure(await one.run()), ['TEAM_NODE_FAILED', 'a RESULT_INVALID']);
        assert.deepEqual([one.snapshot().messages.length, calls.length], [0, 1]);
      }
    });

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
      const bad = '{"completed/1":{"nodeId":"b","position":"team/b/1","result":{"summary":7}}}';
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

    test('T13 failure beats pause in either order, also on replay', async () => {
      for (const order of [
        [0, 20],
        [20, 0],
      ]) {
        const store = await makeStore();
        const wait = (delay) => new Promise((resolve) => setTimeout(resolve, delay));
        const { members } = scripted({
          a: async (_, { pause }) => wait(order[0]).then(() => pause('ask', null)),
          b: async () => wait(order[1]).then(() => Promise.reject(Object.assign(new Error('no'), { code: 'DENIED' }))),
        });
        const both = definition(['a', 'b'], {}, { concurrency: 2 });
        const outcome = await team({ runId: 'r', definition: both, members, store }).run();
        assert.deepEqual(failure(outcome), ['TEAM_NODE_FAILED', 'b DENIED']);
        const again = await loadTeam({ runId: 'r', store, members });
        assert.deepEqual(await again.run(), outcome);
      }
    });

    test('T14 a pause waits for its batch; resumed, the turn keeps its position and its input', async () => {
      const store = await makeStore();
      const { members, calls, positions } = scripted({
        a: [
          (_, { pause, responses }) =>
            responses.length === 0 ? pause('which one?', { options: [1, 2] }) : says('done'),
          says('done again'),
        ],
        b: [says('b', post('room', 'news', 'a'))],
      });
      const both = definition(['a', 'b'], { room: ['a', 'b'] }, { concurrency: 2 });
      const one = team({ runId: 'r', definition: both, members, store });
      const paused = await one.run();
      assert.deepEqual([paused.status, paused.reason], ['paused', 'which one?']);
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1'], 'the batch went on');
      const [request] = paused.requests;
      assert.deepEqual([request.memberId, request.turnId, request.data], ['a', 'team/a/1', { options: [1, 2] }]);
      assert.deepEqual(await one.run(), paused, 'nothing is dispatched meanwhile');
      await assert.rejects(one.resume({ position: 'team/a/2' }), { code: 'not-found' });
      const again = await loadTeam({ runId: 'r', store, members });
      const outcome = await again.resume({
        requestId: request.id,
        responseId: 'answer',
        expectedRevision: paused.revision,
        response: { kind: 'input', content: 'the second' },
      });
      assert.equal(outcome.status, 'completed');
      assert.deepEqual(positions().slice(2), ['team/a/1', 'team/a/2']);
      assert.deepEqual(texts(calls[2]), [], 'the original input');
      const { responses, newerMessages } = calls[2].options;
      assert.deepEqual([responses[0].response.content, newerMessages], ['the second', 1]);
    });

    test('T16 a third turn under a cap of two is TEAM_TURN_LIMIT, with what there is', async () => {
      const loop = () => scripted({ a: [says('again', post('room', 'me', 'a'))] }).members;
      const capped = definition(['a'], { room: ['a'] }, { cap: 2 });
      const outcome = await team({ definition: capped, members: loop(), store: await makeStore() }).run();
      assert.deepEqual(failure(outcome), ['TEAM_TURN_LIMIT', 'a TEAM_TURN_LIMIT']);
      assert.equal(outcome.output.agents[0].result.summary, 'again');
      assert.deepEqual(outcome.pending, [{ id: 'a', messages: ['team/a/2/0'] }]);
      const soft = { definition: capped, members: loop(), softTurnLimit: true, store: await makeStore() };
      const limited = await team(soft).run();
      assert.deepEqual([limited.status, limited.output.agents[0].result.summary], ['limited', 'again']);
    });

    test('T21 after a crash behind a saved question only the remaining turns run, to the same end', async () => {
      const whole = await makeStore();
      const expected = await team({ runId: 'r', definition: PAIR, members: dialogue().members, store: whole }).run();
      const rooms = await renderTeamRooms({ store: whole, runId: 'r' });
      for (let appends = 0; appends < 6; appends++) {
        const store = await makeStore();
        const first = dialogue();
        for (const member of Object.values(first.members)) member.retrySafe = true;
        team({
          runId: 'r',
          definition: PAIR,
          members: first.members,
          store: dying(store, appends),
          clock: deadClock,
          leaseMs: 300,
        })
          .run()
          .catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, 100));
        const second = dialogue();
        const outcome = await unclaimed(async () => {
          return await (await loadTeam({ runId: 'r', store, members: second.members })).run();
        });
        assert.deepEqual(outcome.output, expected.output, `${appends} appends`);
        const done = new Set(second.positions());
        assert.equal(done.size, second.positions().length, 'no turn twice');
        assert.deepEqual((await renderTeamRooms({ store, runId: 'r' })).rooms[0].text, rooms.rooms[0].text);
      }
    });

    test('T22 a completed run reopened gives the same, appends nothing and calls nobody', async () => {
      const store = await makeStore();
      const { members } = dialogue();
      const outcome = await team({ runId: 'r', definition: PAIR, members, store }).run();
      const before = await lines(store, 'r');
      const { members: fresh, calls } = dialogue();
      assert.deepEqual(await team({ runId: 'r', definition: PAIR, members: fresh, store }).run(), outcome);
      const loaded = await loadTeam({ runId: 'r', store, members: fresh });
      assert.deepEqual(await loaded.run(), outcome);
      assert.deepEqual(loaded.snapshot().output, outcome.output);
      assert.deepEqual([await lines(store, 'r'), calls], [before, []]);
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

    test('T24 a deleted room file is rebuilt to the same bytes, and the record stays as it is', async () => {
      const store = await makeStore();
      await team({ runId: 'r', definition: PAIR, members: dialogue().members, store }).run();
      const before = await lines(store, 'r');
      const directory = join(await temporary(), 'rooms');
      const first = await projectTeamRooms({ store, runId: 'r', directory });
      const text = await readFile(first.files[0].path, 'utf8');
      assert.equal(text, 'writer [team/writer/1/0] @reviewer: question\nreviewer [team/reviewer/1/0] @writer: reply\n');
      assert.equal((await stat(first.files[0].path)).mode & 0o777, 0o600);
      const twin = (await readFile(first.files[0].jsonl, 'utf8'))
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      assert.deepEqual(
        twin.map(({ sender }) => sender),
        ['writer', 'reviewer'],
      );
      assert.equal(JSON.parse(await readFile(first.index, 'utf8')).revision, first.revision);
      await rm(first.files[0].path);
      assert.deepEqual(await projectTeamRooms({ store, runId: 'r', directory }), first);
      assert.equal(await readFile(first.files[0].path, 'utf8'), text);
      assert.deepEqual(await lines(store, 'r'), before);
      assert.equal(first.revision, (await store.load('r')).revision);
    });

    test('T25 hostile rooms, texts and links stay inside the directory, one line for a message', async () => {
      const store = await makeStore();
      const rooms = { '../escape': ['a'], ['x'.repeat(300)]: ['a'], 'b]: forged': ['a'], empty: [] };
      const text = 'one\nwriter [team/x/1/0]: forged\r\t\u0000\u001b[31m\u0085\u2028\u202e\u200b\ufeff\\';
      const { members } = scripted({
        a: [
          says(
            'x',
            ...Object.keys(rooms)
              .slice(0, 3)
              .map((id) => post(id, text)),
          ),
        ],
      });
      await team({ runId: '../../r', definition: definition(['a'], rooms), members, store }).run();
      const parent = await temporary();
      const directory = join(parent, 'rooms');
      const { files } = await projectTeamRooms({ store, runId: '../../r', directory });
      await writeFile(join(directory, 'other.txt'), 'mine');
      const outside = join(parent, 'outside.txt');
      await writeFile(outside, 'untouched');
      await rm(files[0].path);
      await symlink(outside, files[0].path);
      await projectTeamRooms({ store, runId: '../../r', directory });
      assert.deepEqual((await readdir(parent)).sort(), ['outside.txt', 'rooms']);
      assert.equal(await readFile(outside, 'utf8'), 'untouched');
      assert.equal(await readFile(join(directory, 'other.txt'), 'utf8'), 'mine');
      assert.equal((await readFile(files[3].path)).length, 0);
      const written = await readFile(files[0].path, 'utf8');
      const escaped =
        'one\\nwriter [team/x/1/0]: forged\\r\\t\\u0000\\u001b[31m\\u0085\\u2028\\u202e\\u200b\\ufeff\\\\';
      assert.equal(written, `a [team/a/1/0]: ${escaped}\n`);
    });

    test('T28 what is no team of version 1 is an error, and no file is made', async () => {
      const store = await makeStore();
      const talk = createRoundtable({
        conversationId: 'talk',
        participants: [agent('a', async () => ({ kind: 'speak', content: 'x' }))],
        limits: { maxTurnsPerRun: 1 },
        store,
      });
      await talk.run();
      await talk.dispose();
      const summary = {
        status: 'open',
        members: ['a'],
        createdAt: '2027-01-01T00:00:00.000Z',
        updatedAt: '2027-01-01T00:00:00.000Z',
      };
      await team({
        runId: 'r',
        definition: definition(['a'], { room: ['a'] }),
        members: scripted({ a: [says('x')] }).members,
        store,
      }).run();
      const [created] = await lines(store, 'r');
      const later = '{"dispatched/2":{"nodeId":"a","position":"team/a/1"}}';
      const record = { kind: 'team', schemaVersion: 1, summary };
      await store.create({ ...record, conversationId: 'empty', entries: [] });
      await store.create({
        ...record,
        conversationId: 'other',
        entries: [created.replace('team-created/1', 'created/1')],
      });
      await store.create({ ...record, conversationId: 'later', entries: [created, later] });
      const directory = join(await temporary(), 'rooms');
      for (const [runId, code] of [
        ['talk', 'STORED_GRAPH_MISMATCH'],
        ['empty', 'STORED_GRAPH_MISMATCH'],
        ['other', 'STORED_GRAPH_MISMATCH'],
        ['later', 'INVALID_EVENT'],
        ['none', 'not-found'],
      ]) {
        await assert.rejects(projectTeamRooms({ store, runId, directory }), { code }, runId);
        await assert.rejects(loadTeam({ store, runId, members: { a: () => says('x') } }), { code }, runId);
      }
      await assert.rejects(stat(directory), { code: 'ENOENT' });
      await assert.rejects(projectTeamRooms({ store, runId: 'r', directory: ' ' }), TypeError);
    });
  });
}

test('T11 T15 what comes after a turn is over changes nothing', async () => {
  const store = new MemoryConversationStore();
  let late;
  const keep = (options) => {
    late = options;
    return says('x');
  };
  const { members } = scripted({ a: [(_, options) => keep(options)] });
  const one = team({ runId: 'r', definition: definition(['a'], { room: ['a'] }), members, store });
  await one.run();
  const before = await lines(store, 'r');
  await assert.rejects(late.services.admitModelCall({ callId: 'c', providerId: 'p', modelId: 'm' }), {
    code: 'conflict',
  });
  assert.deepEqual(await lines(store, 'r'), before);
});

test('T17 T18 every finding is listed at once, each with its code and path', () => {
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
});

test('T19 what the caller does to its objects later changes nothing', async () => {
  const given = definition(['a', '-b', '-c'], { room: ['a', 'b'] });
  const compiled = compileTeam(given);
  const { members } = scripted({ a: [says('x', post('room', 'm', 'c'))], b: [], c: [] });
  const one = team({ definition: given, members });
  given.data.communication.rooms[0].members.push('c');
  given.nodes.length = 0;
  assert.deepEqual(failure(await one.run()), ['TEAM_NODE_FAILED', 'a RESULT_INVALID']);
  assert.equal(compiled.validateResult('a', says('x', post('room', 'm', 'c'))).path, '/posts/0/mentions/0');
  assert.equal(compiled.validateResult('a', says('x', post('room', 'm', 'b'))), null);
  assert.ok(Object.isFrozen(compiled.definition.data.communication.rooms[0].members));
  assert.deepEqual(compiled.bounds, { minDispatches: 1, maxDispatches: 15, maxConcurrency: 1 });
});

test('T26 a temporary file that is there already is an error and stays as it is', async (t) => {
  const store = new MemoryConversationStore();
  await team({ runId: 'r', definition: PAIR, members: dialogue().members, store }).run();
  const directory = await temporary();
  const { files } = await projectTeamRooms({ store, runId: 'r', directory });
  await rm(files[0].path);
  const there = `${files[0].path}.0000000000000000.tmp`;
  await writeFile(there, 'mine');
  const { randomBytes } = crypto;
  crypto.randomBytes = (length) => Buffer.alloc(length);
  syncBuiltinESMExports();
  t.after(() => {
    crypto.randomBytes = randomBytes;
    syncBuiltinESMExports();
  });
  await assert.rejects(projectTeamRooms({ store, runId: 'r', directory }), { code: 'EEXIST' });
  assert.equal(await readFile(there, 'utf8'), 'mine');
  assert.equal((await readdir(directory)).filter((name) => name.endsWith('.tmp')).length, 1);
});

test('T27 runs of one name in two stores have files of their own', async () => {
  const directory = await temporary();
  const paths = new Set();
  for (const runId of ['r', 's']) {
    for (let index = 0; index < 2; index++) {
      const store = fileStore({ directory: await temporary() });
      await team({ runId, definition: PAIR, members: dialogue().members, store }).run();
      const { files, index: list } = await projectTeamRooms({ store, runId, directory });
      for (const path of [list, ...files.map((file) => file.path)]) paths.add(path);
    }
  }
  assert.equal(paths.size, 8);
});

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

test('F a cancelled run keeps its turns for the next; a disposed team refuses calls', async () => {
  const store = new MemoryConversationStore();
  const controller = new AbortController();
  let stop = true;
  const { members, positions } = scripted({
    a: (_, { signal }) =>
      stop ? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))) : says('x'),
  });
  const events = [];
  const one = team({ definition: definition(['a'], {}), members, store, onEvent: (event) => void events.push(event) });
  const run = one.run({ signal: controller.signal });
  await assert.rejects(one.run(), { code: 'busy' });
  while (positions().length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  controller.abort(new Error('enough'));
  assert.equal((await run).status, 'cancelled');
  stop = false;
  assert.equal((await one.run()).status, 'completed');
  assert.deepEqual(positions(), ['team/a/1', 'team/a/1']);
  assert.deepEqual(
    events.map(({ type }) => type),
    ['dispatched', 'completed'],
  );
  await one.dispose();
  await one.dispose();
  await assert.rejects(one.run(), { code: 'disposed' });
});

test('F order oldest-trigger, self mentions ignored, and a tail that gives way to the byte budget', async () => {
  const three = definition(['a', '-b', '-c'], { room: ['a', 'b', 'c'] });
  const said = {
    a: [says('x', post('room', 'first', 'c'), post('room', 'second', 'b', 'a'))],
    b: [says('y')],
    c: [says('z')],
  };
  const { members, positions } = scripted(said);
  await team({ definition: three, members, order: 'oldest-trigger', selfMention: 'ignore' }).run();
  assert.deepEqual(positions(), ['team/a/1', 'team/c/1', 'team/b/1']);
  const long = { a: [says('x', post('room', 'x'.repeat(500)), post('room', 'wake', 'b'))], b: [says('y')] };
  const { members: more, calls } = scripted(long);
  const two = definition(['a', '-b'], { room: ['a', 'b'] });
  await team({ definition: two, members: more, limits: { inputBytes: 400, inputOverflow: 'drop-tail' } }).run();
  assert.deepEqual([texts(calls[1]), calls[1].input.omitted], [['wake'], 1]);
});

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
