// Deliberations over HTTP: driven by fetch over loopback, in Node's own server, against their description.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer, request as rawRequest } from 'node:http';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { test } from 'node:test';
import { deliberationHandler, deliberationOpenApi } from 'agent-roundtable/http';
import { nodeListener } from 'agent-roundtable/node';
import { faultyStore } from 'agent-roundtable/testing';
import { MINUTE, request, stores, table } from './support/deliberations.mjs';
import { conform, generated, random } from './support/openapi.mjs';

/** A server whose callers name themselves in a header that only it is told to trust. */
async function server(t, options = {}, handlerOptions = {}) {
  const set = await table(t, stores.memory, options);
  const authenticate = async (request) => request.headers.get('x-caller');
  const handler = deliberationHandler(set.d, { authenticate, ...handlerOptions });
  const http = createServer(nodeListener(handler)).listen(0, '127.0.0.1');
  http.keepAliveTimeout = 60_000; // a slow test must not meet a connection that is being closed
  await once(http, 'listening');
  t.after(() => {
    http.closeAllConnections();
    http.close();
  });
  const origin = `http://127.0.0.1:${http.address().port}`;
  const base = `${origin}${handlerOptions.basePath ?? '/api/round-tables'}`;
  /** @returns {Promise<[number, any]>} */
  const call = async (caller, method, path, body, headers = {}) => {
    const sent =
      body === undefined
        ? {}
        : { body: typeof body === 'object' && !(body instanceof Uint8Array) ? JSON.stringify(body) : body };
    const who = caller === undefined ? {} : { 'x-caller': caller };
    const response = await fetch(base + path, { method, headers: { ...who, ...headers }, ...sent });
    assert.equal(response.headers.get('content-type'), 'application/json');
    return [response.status, await response.json()];
  };
  return { ...set, call, base, handler, port: http.address().port };
}

const wanted = request({ timeout_minutes: 5 });

test('D1 D7 a session over HTTP: create 201, read, speak 201, resolve 200, then 409', async (t) => {
  const { call, inbox } = await server(t);
  const [status, session] = await call('fac', 'POST', '', wanted);
  assert.equal(status, 201);
  assert.equal(session.expires_at, '2027-01-01T00:05:00.000Z');
  assert.match(session.group_id, /^group:/);
  const { id } = session;
  const [said, spoken] = await call('ana', 'POST', `/${id}/speak`, { message: 'Pull.' });
  assert.deepEqual([said, spoken.thread_length], [201, 1]);
  const [, read] = await call('bo', 'GET', `/${id}`);
  assert.deepEqual(
    read.thread.map((e) => [e.id, e.from, e.message]),
    [[spoken.thread_entry_id, 'ana', 'Pull.']],
  );
  assert.equal((await call('bo', 'GET', `/${id}?since=${read.version}`))[1].thread.length, 0);
  const [, listed] = await call('bo', 'GET', '?status=open&participant=ana');
  assert.deepEqual([listed.count, listed.round_tables[0].thread_length], [1, 1]);
  const outcome = { outcome: 'Pull it is.', decision: 'approved' };
  const [resolved, closed] = await call('fac', 'POST', `/${id}/resolve`, outcome);
  assert.deepEqual([resolved, closed.status, closed.outcome], [200, 'resolved', 'Pull it is.']);
  assert.equal(typeof closed.resolved_at, 'string');
  assert.deepEqual((await call('fac', 'POST', `/${id}/resolve`, outcome))[1].error, 'RESOLVE_FAILED');
  assert.equal((await call('ana', 'POST', `/${id}/speak`, { message: 'But' }))[0], 409);
  assert.equal(inbox('ana', 'resolution').length, 1);
});

test('D5 over HTTP who calls follows from authentication alone', async (t) => {
  const { call } = await server(t);
  const spoofs = { from: 'fac', facilitator: 'eve', caller: 'eve', agent_id: 'eve', status: 'resolved', id: 'rt_x' };
  const [, { id, facilitator, status }] = await call('fac', 'POST', '', { ...wanted, ...spoofs });
  assert.deepEqual([facilitator, status], ['fac', 'open']);
  const [said] = await call('ana', 'POST', `/${id}/speak`, { message: 'Hi', ...spoofs }, { 'x-agent-id': 'fac' });
  assert.equal(said, 201);
  assert.equal((await call('bo', 'GET', `/${id}`))[1].thread[0].from, 'ana');
  const forbidden = async () => [
    await call('eve', 'GET', `/${id}`),
    await call('eve', 'POST', `/${id}/speak`, { message: 'Hi', from: 'ana' }),
    await call('eve', 'POST', `/${id}/resolve`, { outcome: 'x', decision: 'approved', caller: 'fac' }),
  ];
  const open = await forbidden();
  assert.deepEqual(
    open.map(([code]) => code),
    [403, 403, 403],
  );
  await call('fac', 'POST', `/${id}/resolve`, { outcome: 'x', decision: 'approved' });
  assert.deepEqual(await forbidden(), open);
  for (const [method, path] of [
    ['POST', ''],
    ['GET', ''],
    ['GET', `/${id}`],
    ['POST', `/${id}/speak`],
    ['POST', `/${id}/resolve`],
  ]) {
    const body = method === 'POST' ? {} : undefined;
    assert.deepEqual((await call(undefined, method, path, body))[0], 401, `${method} ${path}`);
    assert.deepEqual((await call('', method, path, body))[0], 401, `${method} ${path}`);
  }
});

test('D8 over HTTP malformed bodies are refused, by name', async (t) => {
  const { call } = await server(t);
  const [, { id }] = await call('fac', 'POST', '', wanted);
  const bad = {
    '{': 'INVALID_JSON',
    '': 'INVALID_JSON',
    '[1]': 'INVALID_BODY',
    null: 'INVALID_BODY',
    '"x"': 'INVALID_BODY',
    7: 'INVALID_BODY',
  };
  for (const [body, error] of Object.entries(bad)) {
    for (const path of ['', `/${id}/speak`, `/${id}/resolve`]) {
      const [status, told] = await call('fac', 'POST', path, body);
      assert.deepEqual([status, told.error, typeof told.message], [400, error, 'string'], body);
    }
  }
  const notUtf8 = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
  assert.equal((await call('fac', 'POST', '', notUtf8))[1].error, 'INVALID_JSON');
  assert.deepEqual((await call('fac', 'POST', '', { ...wanted, timeout_minutes: null }))[1].error, 'INVALID_TIMEOUT');
  assert.deepEqual((await call('fac', 'POST', '', { ...wanted, timeout_minutes: '5' }))[1].error, 'INVALID_TIMEOUT');
  const deep = `{"topic":${'['.repeat(5000)}${']'.repeat(5000)}}`;
  assert.equal((await call('fac', 'POST', '', deep))[0], 400);
  const { topic: _, ...noTopic } = wanted;
  const proto = JSON.stringify(noTopic).replace('{', '{"__proto__":{"topic":"polluted"},');
  assert.equal((await call('fac', 'POST', '', proto))[1].error, 'INVALID_TOPIC');
  for (const query of [
    '?status=bogus',
    '?limit=0',
    '?limit=101',
    '?limit=1.5',
    '?limit=abc',
    '?cursor=no',
    '?limit=',
  ]) {
    assert.equal((await call('fac', 'GET', query))[0], 400, query);
  }
  assert.equal((await call('fac', 'GET', `/${id}?since=-1`))[1].error, 'INVALID_SINCE');
  assert.equal((await call('fac', 'GET', `/${id}?since=9007199254740991`))[0], 200);
  assert.equal((await call('fac', 'GET', `/${id}?since=9007199254740992`))[1].error, 'INVALID_SINCE');
});

test('D8 over HTTP a body of 256 KiB is read, a longer one is not, however it says so', async (t) => {
  const { call, base, port } = await server(t);
  const padded = (length) => {
    const text = JSON.stringify({ ...wanted, filler: '' });
    return text.replace('"filler":""', `"filler":"${'x'.repeat(length - text.length)}"`);
  };
  assert.equal((await call('fac', 'POST', '', padded(262_144)))[0], 201);
  for (const length of [262_145, 10_000_000]) {
    const [status, told] = await call('fac', 'POST', '', padded(length));
    assert.deepEqual([status, told.error], [413, 'BODY_TOO_LARGE']);
  }
  // Without a length, in pieces.
  const pieces = new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(65_536).fill(32));
      if (controller.desiredSize === null) controller.close();
    },
  });
  const chunked = await fetch(base, {
    method: 'POST',
    headers: { 'x-caller': 'fac' },
    body: limited(pieces, 40),
    duplex: 'half',
  });
  assert.equal(chunked.status, 413);
  // A client that goes away in the middle leaves the server well.
  await new Promise((resolve) => {
    const half = rawRequest({
      port,
      path: '/api/round-tables',
      method: 'POST',
      headers: { 'x-caller': 'fac', 'content-length': 1000 },
    });
    half.on('error', resolve);
    half.write('{"topic":');
    setTimeout(() => half.destroy(new Error('gone')), 50);
  });
  assert.equal((await call('fac', 'GET', ''))[0], 200);
});

function limited(stream, count) {
  const reader = stream.getReader();
  let left = count;
  return new ReadableStream({
    async pull(controller) {
      if (left-- > 0) controller.enqueue((await reader.read()).value);
      else controller.close();
    },
  });
}

test('D22 over HTTP an id that is none is 404, an unknown path too, another method 405', async (t) => {
  const { call, base } = await server(t);
  const ids = [
    'rt_000000000000',
    'x',
    '%2e%2e',
    'rt_%00',
    'a%2Fb',
    'a b',
    'x'.repeat(300),
    '%E0%A4%A',
    '__proto__',
    'rt_ABCDEFABCDEF',
  ];
  for (const id of ids) {
    assert.deepEqual((await call('fac', 'GET', `/${id}`))[0], 404, id);
    assert.deepEqual((await call('fac', 'POST', `/${id}/speak`, { message: 'x' }))[0], 404, id);
    assert.deepEqual((await call('fac', 'POST', `/${id}/resolve`, { outcome: 'x', decision: 'deferred' }))[0], 404, id);
  }
  for (const path of ['/x/y', '/x/speak/', '/x/speak/y', '/../round-tables-2', 'x']) {
    assert.deepEqual((await call('fac', 'GET', path))[1].error, 'NOT_FOUND', path);
  }
  const wrong = await fetch(base, { method: 'DELETE', headers: { 'x-caller': 'fac' } });
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'POST, GET']);
  // No `Request` can be made with it, and the handler answers it all the same.
  const trace = rawRequest(base, { method: 'TRACE', headers: { 'x-caller': 'fac' } }).end();
  const [traced] = await once(trace, 'response');
  traced.resume();
  assert.deepEqual([traced.statusCode, traced.headers.allow], [405, 'POST, GET']);
});

test('D25 over HTTP a failing store is 500 without its own words, a failing directory 503', async (t) => {
  const secret = 'password=hunter2';
  const set = await table(t);
  const broken = faultyStore(set.store, () => ({ when: 'before', error: new Error(secret) }));
  const { call, handler } = await server(t, { store: broken });
  for (const [method, path, body] of [
    ['POST', '', wanted],
    ['GET', ''],
    ['GET', '/rt_000000000000'],
  ]) {
    const [status, told] = await call('fac', method, path, body);
    assert.equal(status, 500);
    assert.doesNotMatch(JSON.stringify(told), /hunter2/);
  }
  assert.equal((await call('fac', 'GET', ''))[1].error, 'LIST_ROUND_TABLES_FAILED');
  const away = await server(t, { directory: { has: () => Promise.reject(new Error(secret)) } });
  const [status, told] = await away.call('fac', 'POST', '', wanted);
  assert.deepEqual([status, told.error], [503, 'CREATE_ROUND_TABLE_FAILED']);
  assert.equal(typeof handler, 'function');
  const unsure = await server(t, {}, { authenticate: () => Promise.reject(new Error(secret)) });
  const [failed, reply] = await unsure.call('fac', 'GET', '');
  assert.equal(failed, 500);
  assert.doesNotMatch(JSON.stringify(reply), /hunter2/);
});

test('the base path is the host’s to choose; a wrong one is refused', async (t) => {
  const { call } = await server(t, {}, { basePath: '/v1/tables' });
  assert.equal((await call('fac', 'POST', '/', wanted))[0], 201);
  const authenticate = async () => 'fac';
  for (const basePath of ['v1', '/v1/', 7, null]) {
    assert.throws(() => deliberationHandler({}, { authenticate, basePath }), TypeError);
  }
  assert.throws(() => deliberationHandler({}, {}), TypeError);
});

test('the description is the same as an object and as a file, and every reference in it leads somewhere', async () => {
  const file = createRequire(import.meta.url).resolve('agent-roundtable/openapi.json');
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), JSON.parse(JSON.stringify(deliberationOpenApi)));
  const refs = JSON.stringify(deliberationOpenApi).match(/#\/components\/schemas\/\w+/g);
  for (const ref of refs) assert.ok(deliberationOpenApi.components.schemas[ref.split('/').at(-1)], ref);
  const routes = Object.entries(deliberationOpenApi.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((m) => `${m} ${path}`),
  );
  assert.equal(routes.length, 5);
});

test('requests made from the description, sound and broken, get answers that it describes, and no 5xx', async (t) => {
  const { call, clock } = await server(t);
  const rng = random(20_270_101);
  const ids = ['rt_000000000000'];
  const seen = new Set();
  const callers = ['fac', 'ana', 'bo', 'eve', undefined];
  const operations = Object.entries(deliberationOpenApi.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  for (let n = 0; n < 600; n++) {
    const { path, method, operation } = rng.pick(operations);
    const isSound = rng.chance(0.5);
    const query = new URLSearchParams();
    for (const { name, in: place, schema } of operation.parameters ?? []) {
      if (place === 'query' && rng.chance(0.4))
        query.set(name, String(generated(rng, deliberationOpenApi, schema, isSound)));
    }
    let body;
    if (operation.requestBody) {
      body = generated(rng, deliberationOpenApi, operation.requestBody.content['application/json'].schema, isSound);
      if (isSound && body.participants) body.participants = ['ana', 'bo', `x${n}`];
      body = JSON.stringify(body);
    }
    const filled = path
      .replace('/api/round-tables', '')
      .replace('{id}', encodeURIComponent(rng.chance(0.9) ? rng.pick(ids) : `odd/${n}`));
    const [status, reply] = await call(
      rng.pick(callers),
      method.toUpperCase(),
      `${filled}${query.size ? `?${query}` : ''}`,
      body,
    );
    const described = operation.responses[status];
    const what = `${method} ${path} ${query} ${body?.slice(0, 200)} -> ${status} ${JSON.stringify(reply).slice(0, 200)}`;
    assert.ok(described, what);
    assert.ok(status < 500, what);
    assert.deepEqual(conform(deliberationOpenApi, described.content['application/json'].schema, reply), [], what);
    if (status === 201 && reply.id) ids.push(reply.id);
    seen.add(`${operation.operationId} ${status}`);
    if (n % 50 === 0) await clock.advance(MINUTE);
  }
  for (const outcome of [
    'create 201',
    'create 400',
    'create 401',
    'list 200',
    'list 400',
    'get 200',
    'get 403',
    'get 404',
    'speak 201',
    'speak 400',
    'speak 409',
    'resolve 200',
    'resolve 403',
    'resolve 409',
  ]) {
    assert.ok(seen.has(outcome), `no ${outcome} among ${[...seen]}`);
  }
});
