// The HTTP interface of deliberations, driven over loopback by schemathesis against its own description.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliberationOpenApi } from 'agent-roundtable/http';
import { schemathesis } from './support/schemathesis.mjs';
import { OPEN, serve } from './support/server.mjs';

/**
 * The description as a host would publish it: with its way of authentication. What no schema can say, the test does:
 * which ids and cursors there are.
 */
function published({ ids, cursor }, change = () => {}) {
  const description = structuredClone(deliberationOpenApi);
  description.security = [{ token: [] }];
  description.components.securitySchemes = { token: { type: 'http', scheme: 'bearer' } };
  for (const operation of Object.values(description.paths).flatMap(Object.values)) {
    for (const parameter of operation.parameters ?? []) {
      if (parameter.name === 'id' && ids !== undefined) parameter.schema.enum = ids;
      if (parameter.name === 'cursor') parameter.schema.enum = [cursor];
    }
  }
  change(description);
  return description;
}

/** What is sound by itself may contradict the rest of the session: a quorum of more than there are, for one. */
const CONTRADICTIONS = `
[[operations]]
include-operation-id = "create"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "409"]
`;
const ONLY_CREATED = `
[[operations]]
include-operation-id = "create"
checks.positive_data_acceptance.expected-statuses = ["201"]
`;

test('D5 D8 D23 sound and broken requests get answers that are described, and no 5xx; nobody gets in unknown', async (t) => {
  const { origin, d, store, sessions, seen } = await serve(t);
  const { cursor, ...prepared } = sessions;
  const description = published({ ids: [OPEN, ...Object.values(prepared)], cursor });
  const found = await schemathesis(t, { origin, description, caller: 'fac', examples: 60, config: CONTRADICTIONS });
  assert.equal(found.code, 0, found.output);

  const wanted = {
    create: [201, 400],
    list: [200, 400],
    get: [200, 400, 403, 404],
    speak: [201, 400, 403, 404, 409],
    resolve: [200, 400, 403, 404, 409],
  };
  for (const [operation, statuses] of Object.entries(wanted)) {
    for (const status of statuses) assert.ok(seen.has(`fac ${operation} ${status}`), `${operation} ${status}`);
    assert.ok(seen.has(`null ${operation} 401`), `${operation} 401`);
    assert.ok(![...seen].some((one) => one.startsWith('null') && !/ (401|404|405)$/.test(one)), [...seen].join());
  }
  // Whatever senders and roles the bodies named, only who was known has begun or said anything.
  const { items } = await store.list({ kind: 'deliberation', limit: 100 });
  assert.ok(items.length > 10);
  for (const { conversationId, summary } of items) {
    const { facilitator, thread } = await d.get(summary.members[0], conversationId);
    for (const who of [facilitator, ...thread.map((entry) => entry.from)]) {
      assert.ok(['fac', 'ana', 'bo'].includes(who), who);
    }
  }
});

test('D1 D8 every request to create that the description takes is granted', async (t) => {
  const { origin, sessions, seen } = await serve(t);
  const description = published(sessions, ({ paths, components }) => {
    for (const path of Object.keys(paths)) if (path.includes('{id}')) delete paths[path];
    const { properties } = components.schemas.CreateRoundTable;
    for (const name of ['quorum', 'reminder_minutes', 'idempotency_key']) delete properties[name];
    Object.assign(properties.participants, {
      maxItems: 20,
      items: { ...properties.participants.items, not: { const: 'fac' } },
    });
  });
  const options = ['--mode', 'positive', '--phases', 'coverage,fuzzing'];
  const found = await schemathesis(t, {
    origin,
    description,
    caller: 'fac',
    examples: 100,
    config: ONLY_CREATED,
    options,
  });
  assert.equal(found.code, 0, found.output);
  assert.ok(seen.has('fac create 201'));
});

test('D5 an outsider is told the same of every session, whatever state it is in', async (t) => {
  const { origin, sessions, seen } = await serve(t);
  const { cursor, ...prepared } = sessions;
  const description = published({ ids: [OPEN, ...Object.values(prepared)], cursor }, ({ paths }) => {
    delete paths['/api/round-tables'];
    for (const { responses } of Object.values(paths).flatMap(Object.values)) {
      for (const status of ['200', '201', '409']) delete responses[status];
    }
  });
  const options = ['--phases', 'coverage,fuzzing', '--exclude-checks', 'positive_data_acceptance'];
  const found = await schemathesis(t, { origin, description, caller: 'eve', examples: 40, options });
  assert.equal(found.code, 0, found.output);
  for (const operation of ['get', 'speak', 'resolve']) assert.ok(seen.has(`eve ${operation} 403`), operation);
});

const DEFECTS = {
  'an undescribed status': [
    'Undocumented status code',
    (response, operation) =>
      operation === 'list' ? new Response(response.body, { ...response, status: 299 }) : response,
  ],
  'a missing member': [
    'Response violates schema',
    async (response, operation) => {
      if (operation !== 'create' || response.status !== 201) return response;
      const { version, ...rest } = await response.json();
      return Response.json(rest, { status: 201 });
    },
  ],
  'a server that fails': [
    'Server error',
    (response, operation) =>
      operation === 'create' && response.status === 400 ? Response.json({}, { status: 500 }) : response,
  ],
  'a broken request that is taken': [
    'Schema-violating request accepted',
    (response, operation) =>
      operation === 'list' && response.status === 400 ? Response.json({ round_tables: [], count: 0 }) : response,
  ],
  'a caller without a token': [
    'API accepts requests without authentication',
    (response, operation) =>
      operation === 'list' && response.status === 401 ? Response.json({ round_tables: [], count: 0 }) : response,
  ],
};

for (const [defect, [finding, distort]] of Object.entries(DEFECTS)) {
  test(`the check itself can fail: ${defect}`, async (t) => {
    const { origin, sessions } = await serve(t, { distort });
    const description = published(sessions, ({ paths }) => {
      for (const path of Object.keys(paths)) if (path.includes('{id}')) delete paths[path];
    });
    const options = ['--phases', 'coverage', '--max-failures', '1'];
    const { code, output } = await schemathesis(t, {
      origin,
      description,
      caller: 'fac',
      examples: 1,
      config: CONTRADICTIONS,
      options,
    });
    assert.equal(code, 1, output);
    assert.ok(output.includes(finding), output);
  });
}
