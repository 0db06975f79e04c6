/** The HTTP interface of deliberations, for every server that speaks in `Request` and `Response`. */

import type { DeliberationErrorCode } from '../deliberation/errors.js';
import type {
  CreateDeliberation,
  Deliberations,
  DeliberationDecision,
  DeliberationStatus,
} from '../deliberation/types.js';

/** The longest body, in bytes: several times what the longest fields need. */
const MAX_BODY = 262_144;

const STATUS: Readonly<Record<DeliberationErrorCode, number>> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  'not-found': 404,
  conflict: 409,
  unavailable: 503,
  internal: 500,
};

export interface DeliberationHandlerOptions {
  /** Who calls, or `null`. Everything depends on this alone: no header or body is looked at for an identity. */
  authenticate(request: Request): Promise<string | null>;
  /** Default `/api/round-tables`. */
  basePath?: string;
}

/**
 * Serves `POST /`, `GET /`, `GET /:id`, `POST /:id/speak` and `POST /:id/resolve` under the base path; the
 * handler never rejects. Errors are `{error, message}`.
 * @throws TypeError where an option is missing or of the wrong type
 */
export function deliberationHandler(
  deliberations: Deliberations,
  options: DeliberationHandlerOptions,
): (request: Request) => Promise<Response> {
  const { authenticate, basePath = '/api/round-tables' } = options;
  if (typeof authenticate !== 'function') throw new TypeError('authenticate must be a function');
  if (typeof basePath !== 'string' || !/^(\/.*[^/])?$/.test(basePath)) {
    throw new TypeError('basePath must begin with a slash and end without one');
  }
  return async (request) => {
    try {
      const { route, id } = find(new URL(request.url).pathname, basePath);
      const method = request.method.toUpperCase();
      const serve = route?.[method];
      if (route === undefined) throw new Refused(404, 'NOT_FOUND', 'there is nothing under this path');
      if (serve === undefined) {
        throw new Refused(405, 'METHOD_NOT_ALLOWED', 'this path has other methods', {
          allow: Object.keys(route).join(', '),
        });
      }
      const caller = await authenticate.call(options, request);
      if (caller === null || caller === undefined) throw new Refused(401, 'UNAUTHENTICATED', 'who calls is not known');
      return await serve(deliberations, caller, request, id);
    } catch (error) {
      return refusal(error);
    }
  };
}

type Serve = (d: Deliberations, caller: string, request: Request, id: string) => Promise<Response>;
type Route = Readonly<Record<string, Serve>>;

const COLLECTION: Route = {
  POST: async (d, caller, request) => {
    const body = await readBody(request);
    const created = await d.create(caller, {
      topic: body['topic'],
      goal: body['goal'],
      participants: body['participants'],
      timeoutMinutes: body['timeout_minutes'],
      idempotencyKey: body['idempotency_key'],
      quorum: body['quorum'],
      reminderMinutes: body['reminder_minutes'],
      strict: body['strict'],
    } as CreateDeliberation);
    return reply(201, created);
  },
  GET: async (d, caller, request) => {
    const query = new URL(request.url).searchParams;
    const { items, nextCursor } = await d.list(caller, {
      ...optional('status', query.get('status') as DeliberationStatus | null),
      ...optional('limit', numberOf(query.get('limit'))),
      ...optional('cursor', query.get('cursor')),
    });
    return reply(200, { roundTables: items, count: items.length, ...optional('nextCursor', nextCursor) });
  },
};

const SESSION: Route = {
  GET: async (d, caller, request, id) => {
    const since = numberOf(new URL(request.url).searchParams.get('since'));
    return reply(200, await d.get(caller, id, optional('since', since)));
  },
};

const SPEAK: Route = {
  POST: async (d, caller, request, id) => {
    const body = await readBody(request);
    const input = {
      message: body['message'],
      idempotencyKey: body['idempotency_key'],
      expectedVersion: body['expected_version'],
    };
    return reply(201, await d.speak(caller, id, input as { message: string }));
  },
};

const RESOLVE: Route = {
  POST: async (d, caller, request, id) => {
    const body = await readBody(request);
    const input = {
      outcome: body['outcome'],
      decision: body['decision'],
      note: body['note'],
      expectedVersion: body['expected_version'],
    };
    return reply(200, await d.resolve(caller, id, input as { outcome: string; decision: DeliberationDecision }));
  },
};

function find(path: string, basePath: string): { route: Route | undefined; id: string } {
  const none = { route: undefined, id: '' };
  if (path === basePath || path === `${basePath}/`) return { route: COLLECTION, id: '' };
  if (!path.startsWith(`${basePath}/`)) return none;
  const [segment = '', action, ...rest] = path.slice(basePath.length + 1).split('/');
  if (rest.length > 0) return none;
  const route =
    action === undefined ? SESSION : action === 'speak' ? SPEAK : action === 'resolve' ? RESOLVE : undefined;
  try {
    return { route, id: decodeURIComponent(segment) };
  } catch {
    return { route, id: '' }; // no session has an id that does not decode
  }
}

/** The members of the JSON object in the body, reading no further than a body may be long. */
async function readBody(request: Request): Promise<Record<string, unknown>> {
  const tooLong = (): Refused => new Refused(413, 'BODY_TOO_LARGE', `the body has more than ${MAX_BODY} bytes`);
  if (Number(request.headers.get('content-length')) > MAX_BODY) throw tooLong();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const reader = request.body?.getReader();
  let length = 0;
  let text = '';
  try {
    for (let chunk = await reader?.read(); chunk !== undefined && !chunk.done; chunk = await reader?.read()) {
      length += chunk.value.byteLength;
      if (length > MAX_BODY) {
        void reader?.cancel().catch(() => {});
        throw tooLong();
      }
      text += decoder.decode(chunk.value, { stream: true });
    }
    const value: unknown = JSON.parse(text + decoder.decode());
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused(400, 'INVALID_JSON', 'the body is not JSON in UTF-8');
  }
  throw new Refused(400, 'INVALID_BODY', 'the body must be a JSON object');
}

/** What a query gives where a number is wanted; text that is none stays text, and is refused. */
function numberOf(value: string | null): number | null {
  return value !== null && /^\d{1,16}$/.test(value) ? Number(value) : (value as number | null);
}

function optional<K extends string, T>(name: K, value: T | null | undefined): { [key in K]?: T } {
  return (value === null || value === undefined ? {} : { [name]: value }) as { [key in K]?: T };
}

class Refused extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

function refusal(error: unknown): Response {
  if (error instanceof Refused) {
    return reply(error.status, { error: error.reason, message: error.message }, error.headers);
  }
  const { name, code, reason, message } = (error ?? {}) as {
    name?: string;
    code?: string;
    reason?: string;
    message?: string;
  };
  const status = name === 'DeliberationError' ? STATUS[code as DeliberationErrorCode] : undefined;
  // What a host's own code threw is nobody's business but the host's.
  if (status === undefined) return reply(500, { error: 'INTERNAL_ERROR', message: 'the server failed' });
  return reply(status, { error: reason ?? 'INTERNAL_ERROR', message: message ?? '' });
}

function reply(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  const more = { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
  return new Response(JSON.stringify(snakeCase(body)), { status, headers: { ...more, ...headers } });
}

/** Member names as HTTP has them. All members of a reply are the engine's own, none a user's. */
function snakeCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCase);
  if (typeof value !== 'object' || value === null) return value;
  const renamed = Object.entries(value).map(([name, member]) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    snakeCase(member),
  ]);
  return Object.fromEntries(renamed);
}
