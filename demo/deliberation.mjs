// A deliberation over HTTP: a facilitator opens it, two agents speak, and it is resolved with an outcome.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createDeliberations, MemoryConversationStore } from 'agent-roundtable';
import { deliberationHandler } from 'agent-roundtable/http';
import { nodeListener } from 'agent-roundtable/node';

// Deliver a notice here: to an inbox, a queue, a chat. One that is rejected is tried again.
const notifier = async ({ kind, from, to }) => console.log(`  ${kind} from ${from} to ${to}`);
const deliberations = createDeliberations({ store: new MemoryConversationStore(), notifier });

// Check a token or a session here. Who calls follows from this alone.
const tokens = new Map([
  ['Bearer f', 'fay'],
  ['Bearer a', 'ana'],
  ['Bearer b', 'bo'],
]);
const authenticate = async (request) => tokens.get(request.headers.get('authorization')) ?? null;

const server = createServer(nodeListener(deliberationHandler(deliberations, { authenticate })));
await once(server.listen(0, '127.0.0.1'), 'listening');

async function call(token, method, path = '', body = undefined) {
  const url = `http://127.0.0.1:${server.address().port}/api/round-tables${path}`;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  console.log(`${method} ${path.replace(/rt_\w+/, ':id') || '/'} by ${token}: ${response.status}`);
  return response.json();
}

const topic = { topic: 'Push or pull?', goal: 'Agree on one.', participants: ['ana', 'bo'], timeout_minutes: 5 };
const { id } = await call('f', 'POST', '', topic);
await call('a', 'POST', `/${id}/speak`, { message: 'Pull: the readers know when they are ready.' });
await call('b', 'POST', `/${id}/speak`, { message: 'Agreed.' });
await call('b', 'POST', `/${id}/resolve`, { outcome: 'Pull.', decision: 'approved' });
await call('f', 'POST', `/${id}/resolve`, { outcome: 'Pull.', decision: 'approved' });
const { status, outcome, thread } = await call('a', 'GET', `/${id}`);
for (const { from, message } of thread) console.log(`${from}: ${message}`);
console.log(`${status}: ${outcome}`);

server.close();
server.closeAllConnections();
await deliberations.dispose();
