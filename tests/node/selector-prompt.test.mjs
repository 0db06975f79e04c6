// What the model behind agentSelector is shown.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from './support/agent.mjs';
import { chair, context, given, speak, TOOL } from './support/selector.mjs';

async function shown(where, extra) {
  const provider = scripted(speak(where.participants[0].id));
  await chair(provider, extra).select(where, given());
  const [{ messages, options }] = provider.requests;
  assert.equal(messages.length, 1);
  return { prompt: messages[0].content, tool: options.tools[0] };
}

test('A104 author and text of a message are in the prompt, quoted as participants see them', async () => {
  const { prompt } = await shown(context(['ana', 'bo'], [['bo', 'Hall A\r\nis free']]));
  assert.ok(prompt.includes('\n\n### From bo\n> Hall A\n> is free\n\n'), prompt);
});

test('A104 the prompt in full', async () => {
  const participants = ['ana', { id: 'pia', kind: 'external', description: 'a person' }];
  const messages = [
    ['ana', 'one'],
    ['pia', ''],
  ];
  const turns = [
    { id: 't', groupId: 'g', participantId: 'ana', outcome: 'speak' },
    { id: 'u', groupId: 'h', participantId: 'pia', outcome: 'yield' },
  ];
  const { prompt } = await shown(context(participants, messages, { turns, remainingTurns: 3 }));
  const [instruction, ...rest] = prompt.split('\n\n');
  assert.ok(instruction.includes(TOOL) && !instruction.includes('\n'));
  assert.deepEqual(rest, [
    'Participants:\n- ana (agent)\n- pia (external: a person)',
    'Messages, oldest first:',
    '### From ana\n> one',
    '### From pia\n> ',
    'Last turns, oldest first:\n- ana: speak\n- pia: yield',
    'Turns remaining in this run: 3',
  ]);
});

test('A104 empty sections say so', async () => {
  const { prompt } = await shown(context());
  assert.match(prompt, /\n\nMessages: none yet\.\n\nLast turns: none yet\.\n\n/);
});

test('A104 a participant whose description is empty has none', async () => {
  const provider = scripted(speak('ana'));
  const people = [
    { id: 'ana', kind: 'agent', description: '' },
    { id: 'bo', kind: 'external' },
  ];
  await chair(provider).select(context(people), given());
  const prompt = provider.requests[0].messages[0].content;
  assert.ok(prompt.includes('\n- ana (agent)\n- bo (external)\n'), prompt);
});

test('A104 the last ten turns are shown', async () => {
  const turns = Array.from({ length: 12 }, (_, i) => ({ participantId: `p${i}`, outcome: 'speak' }));
  const { prompt } = await shown(context(undefined, [], { turns }));
  const lines = prompt.match(/^- p\d+: speak$/gm);
  assert.deepEqual(
    lines,
    turns.slice(2).map((turn) => `- ${turn.participantId}: speak`),
  );
});

test('A104 the tool names the ids of this moment', async () => {
  const { tool } = await shown(context(['ana', 'WHO "IDS" {}']));
  assert.equal(tool.name, TOOL);
  const { properties, required } = tool.parameters;
  assert.deepEqual(properties.action.enum, ['speak', 'finish']);
  assert.deepEqual(properties.participantIds.items.enum, ['ana', 'WHO "IDS" {}']);
  assert.equal(properties.reason.type, 'string');
  assert.deepEqual(required, ['action']);
});

test('K13 the whole transcript by default; a window shows the last messages and says how many it leaves out', async () => {
  const messages = Array.from({ length: 50 }, (_, i) => ['ana', `message ${i}.`]);
  const whole = await shown(context(undefined, messages));
  assert.equal(whole.prompt.match(/^### From ana$/gm).length, 50);
  assert.doesNotMatch(whole.prompt, /left out/);
  const windowed = await shown(context(undefined, messages), { messageWindow: 3 });
  assert.deepEqual(windowed.prompt.match(/^> .*$/gm), ['> message 47.', '> message 48.', '> message 49.']);
  assert.match(windowed.prompt, /^Messages, oldest first, the last 3; 47 earlier ones are left out:$/m);
  const wide = await shown(context(undefined, messages), { messageWindow: 50 });
  assert.equal(wide.prompt, whole.prompt);
});

test('K13 a window is computed from the context alone: what was decided before shifts nothing', async () => {
  const all = Array.from({ length: 9 }, (_, i) => ['ana', `message ${i}.`]);
  const contexts = [9, 4, 7, 1, 0, 2].map((count) => context(undefined, all.slice(0, count)));
  const provider = scripted(...contexts.map(() => speak('ana')));
  const selector = chair(provider, { messageWindow: 2 });
  for (const [index, where] of contexts.entries()) {
    await selector.select(where, given());
    const { prompt } = await shown(where, { messageWindow: 2 });
    assert.equal(provider.requests[index].messages[0].content, prompt);
    const count = where.messages.length;
    assert.deepEqual(
      prompt.match(/^> .*$/gm) ?? [],
      all.slice(Math.max(0, count - 2), count).map(([, text]) => `> ${text}`),
    );
    assert.equal(prompt.includes(`; ${count - 2} earlier ones are left out:`), count > 2);
  }
});

test('a message that changes is rendered anew', async () => {
  const provider = scripted(speak('ana'), speak('ana'));
  const selector = chair(provider);
  const where = context();
  where.messages = [{ participantId: 'ana', content: 'before' }];
  await selector.select(where, given());
  where.messages[0].content = 'after';
  await selector.select(where, given());
  assert.match(provider.requests[1].messages[0].content, /^> after$/m);
});
