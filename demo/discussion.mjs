// Two agents discuss in a deliberation, a person joins in over HTTP, and a third agent decides. The host stops after
// a round; another one goes on from the same folder. Scripts play the models, so that it needs no account.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agentParticipant, createDeliberations, driveDeliberation, positionTool } from 'agent-roundtable';
import { deliberationHandler } from 'agent-roundtable/http';
import { fileStore } from 'agent-roundtable/node';
import { scriptedProvider } from 'agent-roundtable/testing';

// Your model service in place of a script makes these real agents.
const model = (...replies) => ({ model: 'script', provider: scriptedProvider({ replies }) });
const call = (name, args) => ({ toolCalls: [{ name, arguments: args }] });
const models = {
  ana: model('Pull: readers ask when they are ready.', call('take_position', { stance: 'for' }), 'Then once a minute.'),
  bo: model(
    'Push is faster.',
    call('take_position', { stance: 'against', note: 'a minute is long' }),
    'I can live with it.',
  ),
  fay: model(
    call('facilitate', { action: 'go_on', message: 'Mind what Pat said, and take positions.' }),
    call('facilitate', { action: 'resolve', outcome: 'Pull, once a minute.', decision: 'approved' }),
  ),
};

const directory = await mkdtemp(join(tmpdir(), 'discussion-'));
const host = () => {
  const store = fileStore({ directory });
  const deliberations = createDeliberations({ store, notifier: async () => {} });
  const agents = (id) =>
    ['ana', 'bo'].map((name) =>
      agentParticipant({
        id: name,
        runtime: { id: `demo/${name}`, version: '1' },
        createAgent: () => ({ ...models[name], tools: [positionTool(deliberations, id, name)] }),
      }),
    );
  const facilitator = { id: 'fay', createAgent: () => models.fay };
  const drive = (id, options) =>
    driveDeliberation(deliberations, id, { store, agents: agents(id), facilitator, recovery: 'durable', ...options });
  return { deliberations, drive };
};

const first = host();
const asked = { topic: 'Push or pull?', goal: 'Agree on one.', participants: ['ana', 'bo', 'pat'], quorum: 2 };
const { id } = await first.deliberations.create('fay', asked);

// Pat's client, on any server; see deliberation.mjs for one.
const handler = deliberationHandler(first.deliberations, { authenticate: async () => 'pat' });
const body = JSON.stringify({ message: 'Our readers sleep for a minute at a time.' });
const headers = { 'content-type': 'application/json' };
const say = () => handler(new Request(`http://host/api/round-tables/${id}/speak`, { method: 'POST', headers, body }));

const stop = new AbortController();
const beforeRound = async ({ number }) => {
  if (number === 1) await say();
  else stop.abort();
};
console.log((await first.drive(id, { beforeRound, signal: stop.signal })).status);
await first.deliberations.dispose();

const second = host();
const { status, session, usage } = await second.drive(id);
console.log(status);
for (const { from, message } of session.thread) console.log(`${from}: ${message}`);
console.log(
  `${session.decision}: ${session.outcome} (against: ${session.dissent.map(({ participant }) => participant)})`,
);
console.log(`${usage.length} model calls`);
await second.deliberations.dispose();
await rm(directory, { recursive: true });
