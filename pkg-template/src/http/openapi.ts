/** The HTTP interface of deliberations, described for machines (OpenAPI 3.1). */

const text = (maxLength: number, more: object = {}): object => ({ type: 'string', minLength: 1, maxLength, ...more });
/** Positive, and exact as a JavaScript number. */
const positive = { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
/** What is dropped around a text (of JavaScript's space, what is no control character), and what no line may hold. */
const SPACE = ' \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000\\ufeff';
const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029';
const AROUND = `[${SPACE}\\t-\\r\\u2028\\u2029]*`;
/** Not blank. */
const SAID = { pattern: `[^${SPACE}\\t-\\r\\u2028\\u2029]` };
/** Not blank, and one line without control characters, whatever is around it. */
const LINE = { pattern: `^${AROUND}[^${SPACE}${CONTROL}]([^${CONTROL}]*[^${SPACE}${CONTROL}])?${AROUND}$` };
const instant = { type: 'string', format: 'date-time' };
const agent = text(512);
const agents = { type: 'array', items: agent, maxItems: 20 };
const status = { type: 'string', enum: ['open', 'resolved', 'expired'] };
const decision = { type: 'string', enum: ['approved', 'rejected', 'deferred'] };
const key = { ...text(255, LINE), description: 'A repeated call with the same key gives what the first gave.' };
const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: object): object => ({ 'application/json': { schema } });

const object = (required: readonly string[], properties: Record<string, object>, more: object = {}): object => ({
  type: 'object',
  required,
  properties,
  ...more,
});

/** What summaries and whole sessions have in common. */
const session = {
  id: { type: 'string', pattern: '^rt_[0-9a-f]{12}$' },
  topic: text(500),
  goal: text(2000),
  facilitator: agent,
  participants: agents,
  group_id: { type: 'string' },
  status,
  version: positive,
  outcome: { type: ['string', 'null'], maxLength: 2000 },
  decision,
  note: text(2000),
  created_at: instant,
  expires_at: instant,
  resolved_at: instant,
  updated_at: instant,
  close_reason: text(2000),
  quorum: { type: 'integer', minimum: 1 },
  remind_at: instant,
  uninvited: agents,
};
const common = ['id', 'topic', 'goal', 'facilitator', 'participants', 'group_id', 'status', 'version', 'outcome'];
const required = [...common, 'created_at', 'expires_at'];
const position = object(['participant', 'stance', 'at'], {
  participant: agent,
  stance: { type: 'string', enum: ['for', 'against', 'abstain'] },
  note: text(2000),
  at: instant,
});
const positions = { type: 'array', items: position };
const entry = object(['id', 'from', 'message', 'timestamp'], {
  id: { type: 'string', format: 'uuid' },
  from: agent,
  message: text(10_000),
  timestamp: instant,
});
const thread = {
  thread: { type: 'array', items: ref('ThreadEntry'), maxItems: 200 },
  thread_hash: { type: 'string' },
  positions,
  dissent: positions,
};

const schemas = {
  Error: object(['error', 'message'], {
    error: { type: 'string', pattern: '^[A-Z_]+$', description: 'Stable, such as TOPIC_TOO_LONG or SPEAK_FAILED.' },
    message: { type: 'string', description: 'For people.' },
  }),
  ThreadEntry: entry,
  RoundTable: object([...required, 'thread', 'thread_hash'], { ...session, ...thread }),
  CreatedRoundTable: object([...required, 'thread', 'thread_hash'], {
    ...session,
    ...thread,
    excluded_participants: { type: 'array', items: agent },
  }),
  RoundTableSummary: object([...required, 'thread_length'], {
    ...session,
    thread_length: { type: 'integer', minimum: 0, maximum: 200 },
  }),
  CreateRoundTable: object(['topic', 'goal', 'participants'], {
    topic: text(500, { ...LINE, description: 'One line. Lengths are counted in Unicode scalar values.' }),
    goal: text(2000, SAID),
    participants: { type: 'array', minItems: 1, items: text(255, LINE), description: 'At most 20 distinct ones.' },
    timeout_minutes: { type: 'integer', minimum: 1, maximum: 10_080, default: 30 },
    idempotency_key: key,
    quorum: { type: 'integer', minimum: 1, maximum: 20, description: 'At most as many as there are participants.' },
    reminder_minutes: { type: 'integer', minimum: 1, maximum: 10_079, description: 'Less than the timeout.' },
    strict: { type: 'boolean', default: false },
  }),
  Speak: object(['message'], {
    message: text(10_000, SAID),
    idempotency_key: key,
    expected_version: positive,
  }),
  Spoken: object(['thread_entry_id', 'thread_length'], {
    thread_entry_id: { type: 'string', format: 'uuid' },
    thread_length: { type: 'integer', minimum: 1, maximum: 200 },
  }),
  Resolve: object(['outcome', 'decision'], {
    outcome: text(2000, SAID),
    decision,
    note: text(2000, SAID),
    expected_version: positive,
  }),
};

const errors: Record<number, string> = {
  400: 'A field is missing, of the wrong type or out of bounds.',
  401: 'The caller is not known.',
  403: 'The caller may not do this.',
  404: 'There is no such session.',
  409: 'The session is closed or full, or a key or version does not fit.',
  413: 'The body has more than 262144 bytes.',
  500: 'The store failed.',
  503: 'Try again later.',
};
const answers = (good: number, schema: string, codes: readonly number[]): object => {
  const refused = codes.map((code) => [code, { description: errors[code], content: json(ref('Error')) }]);
  return {
    [good]: { description: 'Done.', content: json(schema === 'Page' ? page : ref(schema)) },
    ...Object.fromEntries(refused),
  };
};
const page = object(['round_tables', 'count'], {
  round_tables: { type: 'array', items: ref('RoundTableSummary'), maxItems: 100 },
  count: { type: 'integer', minimum: 0, maximum: 100, description: 'Of this page.' },
  next_cursor: { type: 'string', description: 'Absent on the last page.' },
});
const body = (schema: string): object => ({ required: true, content: json(ref(schema)) });
const query = (name: string, schema: object): object => ({ name, in: 'query', required: false, schema });
const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } };

/** The description of what `deliberationHandler` serves, under its default base path. */
export const deliberationOpenApi: {
  readonly openapi: string;
  readonly paths: object;
  readonly [member: string]: unknown;
} = {
  openapi: '3.1.0',
  info: {
    title: 'Round tables',
    version: '1',
    description:
      'Facilitated discussions with a deadline and one outcome. Who calls follows from authentication alone.',
  },
  paths: {
    '/api/round-tables': {
      post: {
        operationId: 'create',
        summary: 'Opens a session, with the caller as facilitator.',
        requestBody: body('CreateRoundTable'),
        responses: answers(201, 'CreatedRoundTable', [400, 401, 409, 413, 500, 503]),
      },
      get: {
        operationId: 'list',
        summary: "The caller's own sessions, newest first.",
        parameters: [
          query('status', status),
          query('limit', { type: 'integer', minimum: 1, maximum: 100, default: 20 }),
          query('cursor', { ...text(4096), description: 'A `next_cursor`.' }),
        ],
        responses: answers(200, 'Page', [400, 401, 500, 503]),
      },
    },
    '/api/round-tables/{id}': {
      get: {
        operationId: 'get',
        summary: 'One session, to its members.',
        parameters: [
          id,
          query('since', {
            type: 'integer',
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'Only thread entries after this version.',
          }),
        ],
        responses: answers(200, 'RoundTable', [400, 401, 403, 404, 500, 503]),
      },
    },
    '/api/round-tables/{id}/speak': {
      post: {
        operationId: 'speak',
        summary: 'Adds an entry to the thread. It makes something, so it answers 201.',
        parameters: [id],
        requestBody: body('Speak'),
        responses: answers(201, 'Spoken', [400, 401, 403, 404, 409, 413, 500, 503]),
      },
    },
    '/api/round-tables/{id}/resolve': {
      post: {
        operationId: 'resolve',
        summary: 'Closes a session with an outcome; by its facilitator.',
        parameters: [id],
        requestBody: body('Resolve'),
        responses: answers(200, 'RoundTable', [400, 401, 403, 404, 409, 413, 500, 503]),
      },
    },
  },
  components: { schemas },
};
