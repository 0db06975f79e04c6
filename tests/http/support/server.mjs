// The handler of deliberations in Node's own server on loopback, with prepared sessions.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createDeliberations, MemoryConversationStore } from 'agent-roundtable';
import { deliberationHandler } from 'agent-roundtable/http';
import { nodeListener } from 'agent-roundtable/node';
import { virtualClock } from 'agent-roundtable/testing';

const MINUTE = 60_000;
export const BASE_PATH = '/api/round-tables';
/** Leads to a session of `fac` that is open and has room, whatever was asked of the last one. */
export const OPEN = 'rt_0123456789ab';

/**
 * Callers are known by a token, `token-` and their name. `distort(response, operation)` may break what the handler
 * answers. `seen` holds each operation with the statuses it was answered with, by the caller.
 */
export async function serve(t, { distort = (response) => response } = {}) {
  const store = new MemoryConversationStore({ clock: virtualClock() });
  const clock = virtualClock();
  const options = { store, clock, seed: 'http', sweepIntervalMs: 0, notifier: async () => {} };
  const d = createDeliberations({ ...options, directory: { has: (id) => id !== 'nobody' } });
  const sessions = await prepared(d, clock);

  const names = new Set(['fac', 'ana', 'eve']);
  const authenticate = async (request) => {
    const name = request.headers.get('authorization')?.replace(/^Bearer token-/, '');
    return names.has(name) ? name : null;
  };
  const handler = deliberationHandler(d, { authenticate });
  let open = await d.create('fac', TABLE);
  const current = async () => {
    const { status, thread } = await d.get('fac', open.id);
    if (status !== 'open' || thread.length === 200) open = await d.create('fac', TABLE);
    return open.id;
  };
  const seen = new Set();
  const answer = async (request) => {
    const url = new URL(request.url);
    const operation = operationOf(request.method, url.pathname);
    if (url.pathname.includes(OPEN) && ['GET', 'POST'].includes(request.method)) {
      url.pathname = url.pathname.replace(OPEN, await current());
      request = new Request(url, request);
    }
    const caller = await authenticate(request);
    const response = await handler(request);
    seen.add(`${caller} ${operation} ${response.status}`);
    return distort(response, operation);
  };
  // Long queries are for the handler to refuse.
  const http = createServer({ maxHeaderSize: 131_072 }, nodeListener(answer)).listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.after(async () => {
    http.closeAllConnections();
    http.close();
    await d.dispose();
  });
  return { origin: `http://127.0.0.1:${http.address().port}`, d, store, sessions, seen };
}

const TABLE = { topic: 'Push or pull?', goal: 'Agree on one.', participants: ['ana', 'bo'], timeoutMinutes: 600 };

/** One session of each kind of end, one of others, and pages that go on. */
async function prepared(d, clock) {
  const create = (caller, more) => d.create(caller, { ...TABLE, ...more });
  const { id: expired } = await create('fac', { timeoutMinutes: 1 });
  await d.speak('ana', expired, { message: 'Too late.' });
  await clock.advance(2 * MINUTE);
  await d.expireStale();
  const { id: resolved } = await create('fac', {
    participants: ['ana', 'bo', 'nobody'],
    quorum: 1,
    reminderMinutes: 5,
  });
  await d.speak('bo', resolved, { message: 'Pull "it"\n\u202e😀' });
  await d.takePosition('ana', resolved, { stance: 'against', note: 'Too slow.' });
  await d.takePosition('bo', resolved, { stance: 'for' });
  await d.resolve('fac', resolved, { outcome: 'Pull.', decision: 'approved', note: 'For now.' });
  const { id: closed } = await create('fac', {});
  await d.close('fac', closed, { reason: 'Moot.' });
  const { id: full } = await create('fac', {});
  for (let n = 0; n < 200; n++) await d.speak('ana', full, { message: `${n}` });
  const { id: attended } = await create('bo', { participants: ['fac', 'ana'] });
  const { id: foreign } = await create('bo', { participants: ['ana'] });
  const { nextCursor: cursor } = await d.list('fac', { limit: 1 });
  return { expired, resolved, closed, full, attended, foreign, cursor };
}

function operationOf(method, path) {
  const [id, action] = path.slice(BASE_PATH.length + 1).split('/');
  if (method === 'POST') return action ?? (id === '' ? 'create' : method);
  return method === 'GET' && action === undefined ? (id === '' ? 'list' : 'get') : method;
}
