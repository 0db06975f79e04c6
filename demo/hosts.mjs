// Two hosts share one conversation on PostgreSQL. The first begins it, a person is asked, and the host is killed;
// the second, which has looked on, takes the conversation over, hands in the answer and ends it.
//
//   node demo/hosts.mjs    on the database that PGHOST, PGPORT, PGUSER and PGDATABASE name
//
// `make hosts` starts a server for it.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import * as roundtable from 'agent-roundtable';
import { postgresStore } from 'agent-roundtable/postgres';
import pg from 'pg';

const { createRoundtable, followConversation, loadRoundtable, readConversation } = roundtable;
const [host, conversationId = `venue-${Date.now()}`] = process.argv.slice(2);

// Every host has a pool of its own to the one database.
const pool = new pg.Pool();
const store = postgresStore({ pool });
await store.setup(); // makes the tables, once; any number of hosts may call it at the same time

// Functions stand for models. What an agent knows of its own turns comes with the conversation, not with the host.
const lines = {
  ana: ['The hall seats 200, the garden is free.', 'Then I take the garden, as I said it is free.'],
  bo: ['Rain is likely.'],
};
const agents = Object.keys(lines).map((id) =>
  roundtable.agentParticipant({
    id,
    runtime: { id, version: '1' },
    createAgent: () => ({ model: 'example-1', provider: { name: 'example', chat: (messages) => speak(id, messages) } }),
  }),
);
async function speak(id, messages) {
  await new Promise((resolve) => setTimeout(resolve, 200)); // a model thinks
  const before = messages.filter(({ role }) => role === 'assistant').length;
  const content = lines[id][before];
  return { id: crypto.randomUUID(), role: 'assistant', state: 'complete', timestamp: new Date(), content };
}

const agenda = [
  { kind: 'speak', participantId: 'ana' },
  { kind: 'speak', participantId: 'bo' },
  { kind: 'wait', participantId: 'pia', reason: 'Hall or garden?' },
  { kind: 'speak', participantId: 'ana' },
  { kind: 'finish', reason: 'a venue is chosen' },
];
const reference = { id: 'agenda', version: '1' };
const selector = { reference, select: ({ turns }) => agenda[turns.length] };
const registry = {
  resolveParticipant: ({ id }) => {
    const { runtime, factory } = agents.find((agent) => agent.id === id);
    return { reference: runtime, factory };
  },
  resolveSelector: () => ({ reference, create: () => selector }),
};

const say = (text) => console.log(`${`host ${host}`.padEnd(8)}  ${text}`);

/** The first host: begins the conversation, and is killed while it waits for a person. */
async function begin() {
  const table = createRoundtable({
    conversationId,
    participants: [...agents, roundtable.externalParticipant({ id: 'pia' })],
    selector,
    limits: { maxTurnsPerRun: 9 },
    store,
    recovery: 'durable',
    onEvent: ({ type }) => type === 'run-started' && process.send('begun'),
  });
  say('begins the conversation');
  const { status, requests } = await table.run();
  say(`${status}: ${requests[0].participantId} is asked "${requests[0].reason}"`);
  process.send('waits');
  await once(process, 'disconnect'); // a host has other work to do
}

/** The second host: looks on from the start, and once it is told to, takes the conversation over. */
async function lookOn() {
  let taken;
  for await (const event of followConversation({ store, conversationId })) {
    for (const message of event.messages ?? []) say(`sees ${message.participantId}: ${message.content}`);
    if (event.type === 'requested') {
      taken = once(process, 'message').then(takeOver);
      process.send('sees the question');
    }
  }
  const { status, reason } = await taken;
  say(`${status}: ${reason}`);
}

async function takeOver() {
  const table = await loadRoundtable({ conversationId, store, registry });
  const { revision, requests } = table.snapshot();
  say(`takes over, and finds the question "${requests[0].reason}"`);
  await table.submitInput({
    participantId: 'pia',
    inputId: 'answer-1', // sent twice, it counts once
    replyToRequestId: requests[0].id,
    expectedRevision: revision,
    content: 'The garden.',
  });
  const result = await table.run();
  await table.dispose();
  return result;
}

/** The program without arguments: two processes, of which it kills one. */
async function both() {
  const start = (name) => fork(fileURLToPath(import.meta.url), [name, conversationId]);
  const one = start('one');
  await heardFrom(one);
  const two = start('two');
  await Promise.all([heardFrom(one), heardFrom(two)]);
  one.kill('SIGKILL');
  await once(one, 'exit');
  console.log('host one is killed');
  two.send('take over');
  const [code] = await once(two, 'exit');
  const { messages, status } = await readConversation({ store, conversationId });
  console.log(`stored: ${messages.length} messages, ${status}`);
  process.exitCode = code;
}

/** Resolves with the next message of a process. */
function heardFrom(child) {
  return new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('exit', () => reject(new Error('a host ended by itself')));
  });
}

await { undefined: both, one: begin, two: lookOn }[host]();
await pool.end();
