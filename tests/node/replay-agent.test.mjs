// Agents in a conversation recorded and replayed: acceptance rows 9 and 10 with the plain agent.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  agentParticipant,
  createReplayProvider,
  createRoundtable,
  decodeSessionLog,
  recordProvider,
  validateSessionLog,
} from 'agent-roundtable';
import { createReplayProviderFromNodeLogFile } from 'agent-roundtable/node';
import { calling, reply, scripted, tool } from './support/agent.mjs';
import { folder, sample } from './support/session-log.mjs';

let conversations = 0;

/** Runs one turn of an agent with this provider; what it published, and the run's result. */
async function runOnce(provider, tools = [], turns = 1) {
  const participant = agentParticipant({
    id: 'bot',
    runtime: { id: 'bot', version: '1' },
    createAgent: () => ({ model: 'm-1', provider, tools }),
  });
  const table = createRoundtable({
    conversationId: `replayed-${conversations++}`,
    participants: [participant],
    limits: { maxTurnsPerRun: turns },
  });
  const result = await table.run();
  const published = table.snapshot().messages.map((message) => message.content);
  await table.dispose();
  return { published, result };
}

test('R9 a live tool runs once with the recorded arguments, and its result precedes the second call', async () => {
  const provider = createReplayProvider({ entries: decodeSessionLog(sample('valid-2-tool-turn.jsonl')) });
  const asked = [];
  const watched = {
    name: provider.name,
    chat: (messages, options) => {
      asked.push(messages.map(({ role, content, toolCallId }) => [role, content, toolCallId]));
      return provider.chat(messages, options);
    },
  };
  const ran = [];
  const clock = tool('Clock', (args) => {
    ran.push([args, asked.length]);
    return { hour: 9 };
  });
  const { published } = await runOnce(watched, [clock]);
  assert.deepEqual([published, ran], [['It is 09:00.'], [[{ city: 'Oslo' }, 1]]]);
  assert.deepEqual(asked[1].at(-1), ['tool', '{"hour":9}', 'c1']);
  provider.assertExhausted();
});

test('R10 a long response and a sentinel, recorded by a live agent, replay byte for byte', async (t) => {
  const file = join(folder(t), 'log.jsonl');
  const long = 'é0123456789\n'.repeat(3152).slice(0, 40_975);
  const lines = [];
  const clock = tool('Clock', () => ({ hour: 9 }), { type: 'object', properties: { city: { type: 'string' } } });
  const live = scripted(calling(['c1', 'Clock', '{ "city" : "Oslo" }']), reply(long), reply('sentinel'));
  const recorder = recordProvider(live, { sessionId: 's', write: (line) => void lines.push(line) });
  const first = await runOnce(recorder, [clock], 2);
  assert.deepEqual(first.published, [long.trim(), 'sentinel']);
  writeFileSync(file, lines.join(''));
  assert.deepEqual(validateSessionLog(decodeSessionLog(readFileSync(file, 'utf8'))), { ok: true, issues: [] });

  const provider = await createReplayProviderFromNodeLogFile(file, { match: 'strict' });
  assert.equal(provider.recordedResponseCount, 3);
  const second = await runOnce(provider, [clock], 2);
  assert.deepEqual(second, first);
  provider.assertExhausted();
  provider.reset();
  await provider.chat(live.requests[0].messages, live.requests[0].options);
  assert.equal((await provider.chat(live.requests[1].messages, live.requests[1].options)).content, long);
});

test('a replay that is asked something else fails its turn and says where', async () => {
  const lines = [];
  const recorder = recordProvider(scripted(reply('one')), { sessionId: 's', write: (line) => void lines.push(line) });
  await runOnce(recorder);
  const provider = createReplayProvider({ entries: decodeSessionLog(lines.join('')), match: 'strict' });
  const { result } = await runOnce(provider, [tool('New', () => null)]);
  assert.equal(result.status, 'failed');
  assert.match(result.message, /tools\[0\]/);
  assert.equal(provider.consumed, 0);
});
