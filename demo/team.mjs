import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTeam, loadTeam, renderTeamRooms } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';

const node = (id, role, initialTurn) => ({ id, data: { role, brief: `Be a good ${role}.`, initialTurn } });
const definition = {
  id: 'review',
  definitionVersion: 1,
  edges: [],
  nodes: [node('writer', 'writer', true), node('reviewer', 'reviewer', false)],
  data: {
    task: 'Write one sentence.',
    globalConcurrency: 1,
    maxTurnsPerMember: 4,
    communication: { tailMessages: 10, rooms: [{ id: 'desk', members: ['writer', 'reviewer'] }] },
  },
};
const post = (text, ...mentions) => [{ roomId: 'desk', text, mentions }];

// Functions stand for models here. A mention, not a name in a text, gives a member its next turn.
const members = {
  writer: ({ result, messages }) =>
    result === null
      ? { summary: 'asked', posts: post('The sky is green?', 'reviewer') }
      : { summary: `The sky is blue, since I was told: ${messages.at(-1).text}` },
  reviewer: () => ({ summary: 'checked', posts: post('Blue, rather.', 'writer') }),
};

const directory = await mkdtemp(join(tmpdir(), 'team-'));
const open = () => fileStore({ directory });
const { status, revision } = await createTeam({ runId: 'r', definition, members, store: open() }).run();
const again = await loadTeam({ runId: 'r', members, store: open() }); // only the record knows what happened
const outcome = await again.run();
const { rooms } = await renderTeamRooms({ store: open(), runId: 'r' });
const lines = (await open().read('r', { after: 0 })).batches.flatMap(({ entries }) =>
  entries.map((line) => JSON.parse(line)),
);
console.log(`${status}; reopened: ${outcome.status}, ${outcome.revision - revision} events added`);
process.stdout.write(rooms[0].text);
console.log('order:', lines.flatMap((line) => line['dispatched/1']?.position ?? []).join(', '));
for (const { name, result } of outcome.output.agents) console.log(`${name}: ${result.summary}`);
await again.dispose();
await rm(directory, { recursive: true });
