// A conversation that one process holds, followed by another through its store.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { followConversation, readConversation } from 'agent-roundtable';
import { fileStore, sqliteStore } from 'agent-roundtable/node';
import { skip } from './support/sqlite-driver.mjs';

const writer = fileURLToPath(new URL('./support/write-conversation.mjs', import.meta.url));

async function all(options) {
  const found = [];
  for await (const event of followConversation(options)) found.push(event);
  return found;
}

const KINDS = {
  file: (folder) => ({ place: folder, store: fileStore({ directory: folder }) }),
  sqlite: (folder) => {
    const path = join(folder, 'c.db');
    return { place: path, store: sqliteStore({ path }) };
  },
};

for (const [kind, open] of Object.entries(KINDS)) {
  test(`C52 who joins at n in another process sees exactly n+1 onwards: ${kind}`, {
    skip: kind === 'sqlite' && skip,
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'follow-'));
    const { place, store } = open(folder);
    try {
      const child = fork(writer, [kind, place, '12']);
      const exit = once(child, 'exit');
      await once(child, 'message');
      const source = { store, conversationId: 'c' };
      const { revision } = await readConversation(source);
      const live = await Promise.all(
        [0, revision, revision + 7].map((n) => all({ ...source, afterRevision: n, pollMs: 3 })),
      );
      assert.deepEqual(await exit, [0, null]);
      const last = await readConversation(source);
      assert.ok(last.revision > revision + 7, 'it was written while it was followed');
      assert.equal(last.messages.length, 13);
      const whole = await all(source);
      for (const [index, after] of [0, revision, revision + 7].entries()) {
        assert.deepEqual(
          live[index],
          whole.filter((event) => event.revision > after),
        );
      }
      assert.deepEqual(
        whole.flatMap(({ messages = [] }) => messages),
        last.messages,
      );
      assert.equal(whole.at(-1).type, 'run-ended');
      assert.equal(whole.at(-1).result.status, 'completed');
    } finally {
      await store.close?.();
      await rm(folder, { recursive: true, force: true });
    }
  });
}
