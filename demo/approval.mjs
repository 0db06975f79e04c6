import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRoundtable, loadRoundtable, sessionParticipant } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';

// This stands for a model: it asks for a tool, then says what came of it.
const chat = async (messages) => {
  const { role, content } = messages.at(-1);
  const reply = { id: crypto.randomUUID(), role: 'assistant', state: 'complete', timestamp: new Date() };
  if (role === 'tool') return { ...reply, content: `As for the mail: ${content}` };
  const mail = { name: 'send_mail', arguments: '{"to":"pia","text":"Is Friday all right?"}' };
  return { ...reply, content: null, toolCalls: [{ id: 'call-1', type: 'function', function: mail }] };
};
const sendMail = () => ({
  name: 'send_mail',
  description: 'Sends a mail.',
  parameters: { type: 'object', required: ['to', 'text'], properties: { to: {}, text: {} } },
  execute: ({ to, text }) => {
    console.log(`a mail goes to ${to}: ${text}`);
    return 'it is sent';
  },
});
const reference = { id: 'secretary', version: '1' };
const ana = sessionParticipant({
  id: 'ana',
  runtime: reference,
  // A provider and tools belong to one session at a time, so each session gets its own.
  createSessionOptions: () => ({
    provider: { name: 'example', chat },
    model: 'example-1',
    tools: [sendMail()],
    permissions: { allow: ['read_*'], ask: ['send_*'], deny: ['delete_*'] },
  }),
});

const directory = await mkdtemp(join(tmpdir(), 'approval-'));
const open = () => fileStore({ directory });
const conversationId = 'friday';
const limits = { maxTurnsPerRun: 1 };
const first = createRoundtable({ conversationId, participants: [ana], limits, store: open(), recovery: 'durable' });
console.log((await first.run()).status);
await first.dispose();

// From here on it could be another process, days later: the store is all it needs.
const registry = { resolveParticipant: () => ({ reference, factory: ana.factory }) };
const second = await loadRoundtable({ conversationId, store: open(), registry });
const { revision, requests } = second.snapshot();
const { id: requestId, data } = requests[0];
console.log(`pia reads: ${data.toolName} ${JSON.stringify(data.arguments)}`);
const response = { kind: 'approval', approved: true };
await second.resume({ requestId, responseId: 'yes-1', expectedRevision: revision, response, by: 'pia' });
await second.run();
for (const { participantId, content } of second.snapshot().messages) console.log(`${participantId}: ${content}`);
await second.dispose();
await rm(directory, { recursive: true });
