// Room files: rebuilt from the record, and safe whatever ids and texts are.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createRoundtable, loadTeam } from 'agent-roundtable';
import { fileStore, projectTeamRooms } from 'agent-roundtable/node';
import { agent } from './support/conversations.mjs';
import { definition, dialogue, lines, PAIR, post, says, scripted, stores, team, temporary } from './support/teams.mjs';

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`on the ${name} store`, () => {
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

    test('T26 a temporary file that is there already is an error and stays as it is', async (t) => {
      const store = await makeStore();
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
  });
}

// Stores in memory have no identity of their own: they end with their process.
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
