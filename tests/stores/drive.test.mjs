// Driven deliberations on every durable store, by processes that are killed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createDeliberations, readConversation } from 'agent-roundtable';
import { skip as noPostgres, startPostgres } from '../../scripts/lib/postgres-server.mjs';
import { openStore } from './support/durable-stores.mjs';
import { skip as noSqlite } from './support/sqlite-driver.mjs';

const HOST = fileURLToPath(new URL('support/drive-host.mjs', import.meta.url));
const KINDS = { file: undefined, sqlite: noSqlite, postgres: noPostgres };
const SAID = ['pat: Hello.', 'ana: ana 1', 'bo: bo 1', 'fac: Again.', 'ana: ana 2', 'bo: bo 2'];
/** Of a host that ends the deliberation in one go, at most. */
const WRITES = 80;
/** Until the claim of a process that was killed has run out. */
const LEASE_MS = 1600;

let server;
before(async () => {
  if (noPostgres) return;
  server = await startPostgres();
  process.env.POSTGRES = JSON.stringify(server.config);
});
after(() => server?.remove());

/** A host in a process of its own; at the given write it is killed. */
async function host(kind, folder, id, write = 0, when = 'before') {
  const child = spawn(process.execPath, [HOST, kind, folder, id, String(write), when]);
  const [out, err, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  if (signal === 'SIGKILL') return 'killed';
  assert.equal(code, 0, err);
  return JSON.parse(out);
}

for (const [kind, skip] of Object.entries(KINDS)) {
  test(`host after host is killed, and each thing said is in the thread once (${kind})`, { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'drive-'));
    const { store, close } = await openStore(kind, folder);
    const d = createDeliberations({ store, notifier: async () => {}, sweepIntervalMs: 0 });
    t.after(async () => {
      await d.dispose();
      await close();
      await rm(folder, { recursive: true });
    });
    const participants = ['ana', 'bo', 'pat'];
    const { id } = await d.create('fac', { topic: 'Push or pull?', goal: 'One.', participants, timeoutMinutes: 60 });
    await d.speak('pat', id, { message: 'Hello.' });

    let killed = 0;
    let ended;
    // Each host gets a little further than the one before it could.
    while (ended === undefined) {
      assert.ok(killed < WRITES, 'no host gets anywhere');
      const result = await host(kind, folder, id, 5 + (killed % 4), killed % 2 === 0 ? 'before' : 'after');
      if (result === 'killed') killed += 1;
      else ended = result;
      await sleep(LEASE_MS);
    }
    assert.ok(killed >= 3, `${killed} were killed`);
    assert.equal(ended.status, 'resolved');
    const { thread, outcome } = await d.get('pat', id);
    assert.equal(outcome, 'Pull.');
    assert.deepEqual(
      thread.map(({ from, message }) => `${from}: ${message}`),
      SAID,
    );
    const { messages } = await readConversation({ store, conversationId: `${id}/discussion` });
    const talk = messages.filter(({ participantId }) => participantId !== 'fac');
    assert.deepEqual(
      talk.map(({ participantId, content }) => `${participantId}: ${content}`),
      SAID.filter((one) => !one.startsWith('fac')),
    );
  });
}
