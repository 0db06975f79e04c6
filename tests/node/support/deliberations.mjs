// What the tests of deliberations share: a set-up with a clock, inboxes, groups and any number of hosts on
// one store.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDeliberations, MemoryConversationStore } from 'agent-roundtable';
import { fileStore, sqliteStore } from 'agent-roundtable/node';
import { inProcessGroups, virtualClock } from 'agent-roundtable/testing';

export const MINUTE = 60_000;
export const DAY = 24 * 60 * MINUTE;

// Later than the oldest Node that this package runs in.
const hasSqlite = process.getBuiltinModule?.('node:sqlite') !== undefined;

/** The stores that the acceptance runs on, each made new for a test. */
export const stores = {
  memory: ({ clock }) => new MemoryConversationStore({ clock }),
  file: async ({ clock, folder }) => fileStore({ directory: await folder(), clock }),
  ...(hasSqlite && {
    sqlite: async ({ clock, folder }) => sqliteStore({ path: join(await folder(), 'store.db'), clock }),
  }),
};

/** A set-up: `host(more)` gives another host on its store, and `inbox(agent)` what an agent was sent. */
export async function table(t, makeStore = stores.memory, options = {}) {
  const clock = virtualClock();
  const folder = async () => {
    const path = await mkdtemp(join(tmpdir(), 'deliberations-'));
    t.after(() => rm(path, { recursive: true, force: true }));
    return path;
  };
  const store = await makeStore({ clock, folder });
  const notices = [];
  const events = [];
  const groups = inProcessGroups();
  const host = (more = {}) => {
    const made = createDeliberations({
      store,
      clock,
      groups,
      sweepIntervalMs: 0,
      notifier: async (notice) => {
        notices.push(notice);
      },
      onEvent: (event) => events.push(event),
      ...options,
      ...more,
    });
    t.after(() => made.dispose());
    return made;
  };
  t.after(() => store.close?.());
  const inbox = (agent, kind) => notices.filter((n) => n.to === agent && (kind === undefined || n.kind === kind));
  return { d: host(), host, clock, store, notices, events, groups, inbox };
}

/** A session of `fac` with `ana` and `bo`, and what to leave out or add. */
export function request(more = {}) {
  return { topic: 'Push or pull?', goal: 'Agree on one.', participants: ['ana', 'bo'], ...more };
}

/** The error that a call rejects with. */
export async function refusal(call) {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error('the call was not refused');
}

/** The code and reason that a call is refused with, and the field where there is one. */
export async function told(call) {
  const { name, code, reason, field } = await refusal(call);
  if (name !== 'DeliberationError') throw new Error(`not a DeliberationError: ${name}`);
  return field === undefined ? [code, reason] : [code, reason, field];
}
