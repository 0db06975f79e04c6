// Tools of real MCP servers, through both generations of the SDK's client, over its transport in memory.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport as OlderTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { Server as OlderServer } from '@modelcontextprotocol/sdk/server/index.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { InMemoryTransport, Server } from '@modelcontextprotocol/server';
import { agentParticipant, createRoundtable } from 'agent-roundtable';
import { mcpTools } from 'agent-roundtable/mcp';

const info = { name: 'test', version: '1' };
const capabilities = { capabilities: { tools: {} } };
const inputSchema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
/** The server's list, a page each. */
const PAGES = [
  [
    { name: 'double', description: 'Twice a number.', inputSchema, annotations: { readOnlyHint: true } },
    { name: 'count', inputSchema, annotations: { idempotentHint: true } },
  ],
  [
    { name: 'break', inputSchema },
    { name: 'draw', inputSchema },
    { name: 'hang', inputSchema },
  ],
];

/** What a server does; `calls` keeps what it was asked. */
function handlers(calls = []) {
  const text = (...texts) => ({ content: texts.map((one) => ({ type: 'text', text: one })) });
  const answers = {
    double: ({ a }) => ({ ...text('see the structure'), structuredContent: { twice: 2 * a } }),
    count: () => text('one', 'two'),
    break: () => ({ ...text('no such file'), isError: true }),
    draw: () => ({ content: [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }] }),
    hang: (_, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(new Error('stopped')))),
  };
  return {
    calls,
    list({ params }) {
      const page = Number(params?.cursor ?? 0);
      return { tools: PAGES[page], ...(page + 1 < PAGES.length ? { nextCursor: String(page + 1) } : {}) };
    },
    call({ params }, extra) {
      calls.push({ params, signal: extra.signal ?? extra.mcpReq?.signal });
      return answers[params.name](params.arguments, calls.at(-1));
    },
  };
}

async function current(does) {
  const server = new Server(info, capabilities);
  server.setRequestHandler('tools/list', does.list);
  server.setRequestHandler('tools/call', does.call);
  return joined(server, new Client(info), InMemoryTransport.createLinkedPair());
}

async function older(does) {
  const server = new OlderServer(info, capabilities);
  server.setRequestHandler(ListToolsRequestSchema, does.list);
  server.setRequestHandler(CallToolRequestSchema, does.call);
  return joined(server, new OlderClient(info), OlderTransport.createLinkedPair());
}

async function joined(server, client, [here, there]) {
  await Promise.all([server.connect(there), client.connect(here)]);
  return client;
}

const context = (extra = {}) => ({
  signal: new AbortController().signal,
  toolCallId: 't',
  idempotencyKey: 'key',
  ...extra,
});

for (const [generation, connect] of Object.entries({ current, older })) {
  test(`${generation}: all pages of the list become tools`, async (t) => {
    const client = await connect(handlers());
    t.after(() => client.close());
    const tools = await mcpTools(client);
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['double', 'count', 'break', 'draw', 'hang'],
    );
    assert.deepEqual([tools[0].description, tools[1].description], ['Twice a number.', '']);
    assert.deepEqual(JSON.parse(JSON.stringify(tools[0].parameters)), inputSchema);
    assert.ok(tools.every(({ idempotent }) => idempotent === false));
    const trusted = await mcpTools(client, { prefix: 'my_', trustAnnotations: true });
    assert.deepEqual(
      trusted.map(({ name, idempotent }) => [name, idempotent]),
      [
        ['my_double', true],
        ['my_count', true],
        ['my_break', false],
        ['my_draw', false],
        ['my_hang', false],
      ],
    );
    assert.notEqual((await mcpTools(client))[0], tools[0]);
  });

  test(`${generation}: results are structure, text or content; an error is thrown; the key goes along`, async (t) => {
    const does = handlers();
    const client = await connect(does);
    t.after(() => client.close());
    const tools = Object.fromEntries((await mcpTools(client, { prefix: 'my_' })).map((tool) => [tool.name, tool]));
    const run = (name) => tools[`my_${name}`].execute({ a: 2 }, context());
    assert.deepEqual(await run('double'), { twice: 4 });
    assert.equal(await run('count'), 'one\ntwo');
    assert.deepEqual(await run('draw'), [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }]);
    await assert.rejects(run('break'), { message: 'no such file' });
    const [{ params }] = does.calls;
    assert.deepEqual([params.name, params.arguments], ['double', { a: 2 }]);
    assert.equal(params._meta['agent-roundtable/idempotency-key'], 'key');
  });

  test(`${generation}: an aborted call is cancelled at the server, a slow one has a limit`, async (t) => {
    const does = handlers();
    const client = await connect(does);
    t.after(() => client.close());
    const hang = async (options) => (await mcpTools(client, options)).find(({ name }) => name === 'hang');
    const stop = new AbortController();
    const asked = (await hang()).execute({ a: 1 }, context({ signal: stop.signal }));
    while (does.calls.length === 0) await new Promise(setImmediate);
    stop.abort(new Error('enough'));
    await assert.rejects(asked, /enough/);
    while (!does.calls[0].signal.aborted) await new Promise(setImmediate);
    await assert.rejects((await hang({ timeoutMs: 5 })).execute({ a: 1 }, context()), /timed out/i);
  });
}

test('an agent calls a server, and is told of its error', async (t) => {
  const client = await current(handlers());
  t.after(() => client.close());
  const call = (id, name) => ({ id, type: 'function', function: { name, arguments: '{"a":21}' } });
  const replies = [[call('1', 'double'), call('2', 'break')], undefined];
  const seen = [];
  const provider = {
    name: 'p',
    async chat(messages) {
      seen.push(...messages.filter(({ role }) => role === 'tool').map(({ content }) => content));
      const toolCalls = replies.shift();
      const reply = { id: 'r', role: 'assistant', timestamp: new Date(), state: 'complete', content: 'done' };
      return toolCalls === undefined ? reply : { ...reply, content: null, toolCalls };
    },
  };
  const table = createRoundtable({
    conversationId: 'c',
    limits: { maxTurnsPerRun: 1 },
    participants: [
      agentParticipant({
        id: 'a',
        runtime: { id: 'mcp', version: '1' },
        createAgent: async () => ({ provider, model: 'm', tools: await mcpTools(client) }),
      }),
    ],
  });
  assert.equal((await table.run()).status, 'limited');
  assert.deepEqual([seen[0], seen[1].includes('no such file')], ['{"twice":42}', true]);
  await table.dispose();
});
