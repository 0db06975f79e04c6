// Eight processes fight for two hundred conversations on one PostgreSQL, for a minute.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readConversation } from 'agent-roundtable';
import { postgresStore } from 'agent-roundtable/postgres';
import { skip, startPostgres } from '../../scripts/lib/postgres-server.mjs';

const CONTENDER = fileURLToPath(new URL('support/contender.mjs', import.meta.url));
const PROCESSES = 8;
const CONVERSATIONS = 200;
const SECONDS = Number(process.env.CONTENTION_SECONDS ?? 60);

test('C46 C50 F many hosts on one database: one history each, no input lost, no turn twice', { skip }, async (t) => {
  const server = await startPostgres();
  t.after(() => server.remove());
  process.env.POSTGRES = JSON.stringify(server.config);
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({ ...server.config, max: 4 });
  pool.on('error', () => {});
  t.after(() => pool.end());
  const store = postgresStore({ pool, schema: 'contest' });
  await store.setup();

  const contend = (_, seed) =>
    promisify(execFile)(process.execPath, [...process.execArgv, CONTENDER, seed, SECONDS, CONVERSATIONS].map(String), {
      maxBuffer: 1 << 28,
    });
  const ends = await Promise.all(Array.from({ length: PROCESSES }, contend));
  const told = ends.map(({ stdout }) => JSON.parse(stdout));
  const inputs = told.flatMap((one) => one.inputs);
  const turns = told.flatMap((one) => one.turns);
  assert.deepEqual(
    told.flatMap((one) => one.failed),
    [],
  );
  assert.equal(new Set(turns).size, turns.length, 'no turn was run twice');

  let batches = 0;
  const kept = { inputs: new Set(), turns: new Set() };
  for (let number = 0; number < CONVERSATIONS; number++) {
    const conversationId = `contested-${number}`;
    const record = await store.read(conversationId, { after: 0 });
    if (record === undefined) continue;
    assert.deepEqual(
      record.batches.map(({ revision }) => revision),
      record.batches.map((_, index) => index + 1),
      'one history without a gap',
    );
    batches += record.batches.length;
    // The strict fold takes nothing that could not have happened.
    const { messages, turns } = await readConversation({ store, conversationId });
    for (const { participantId, content } of messages) {
      if (participantId === 'pia') kept.inputs.add(`${conversationId} ${content.replace('input ', '')}`);
    }
    for (const { id } of turns) kept.turns.add(`${conversationId} ${id}`);
  }
  for (const input of inputs) assert.ok(kept.inputs.has(input), `${input} was acknowledged and is lost`);
  for (const turn of kept.turns) assert.ok(turns.includes(turn), `${turn} was published and nobody ran it`);
  assert.ok(kept.inputs.size > CONVERSATIONS && kept.turns.size > CONVERSATIONS, 'there was a contest');

  const refused = {};
  for (const one of told) {
    for (const [code, count] of Object.entries(one.refused)) refused[code] = (refused[code] ?? 0) + count;
  }
  t.diagnostic(
    `${PROCESSES} processes, ${CONVERSATIONS} conversations, ${SECONDS} s: ${batches} batches ` +
      `(${Math.round(batches / SECONDS)} a second), ${inputs.length} inputs, ${turns.length} turns, ` +
      `refused ${JSON.stringify(refused)}`,
  );
});
