// Teams for tests: definitions in short, scripted members, and the stores each rule is shown on.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { createTeam, MemoryConversationStore } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';

/** `nodes` are ids, a leading `-` for one without a first turn; `rooms` is `{ id: [members] }`. */
export function definition(nodes, rooms, { concurrency = 1, cap = 5, tail = 10, ...rest } = {}) {
  return {
    id: 'team',
    definitionVersion: 1,
    data: {
      task: 'the task',
      globalConcurrency: concurrency,
      maxTurnsPerMember: cap,
      ...(rooms && {
        communication: { tailMessages: tail, rooms: Object.entries(rooms).map(([id, members]) => ({ id, members })) },
      }),
    },
    nodes: nodes.map((name) => {
      const id = name.replace(/^-/, '');
      return {
        id,
        data: { role: `role of ${id}`, brief: `brief of ${id}`, ...(id !== name && { initialTurn: false }) },
      };
    }),
    edges: [],
    ...rest,
  };
}

export const post = (roomId, text, ...mentions) => ({ roomId, text, mentions });
export const says = (summary, ...posts) => ({ summary, posts });

/** Members that answer by their turn's number; what was called is kept in `calls`. */
export function scripted(script, calls = []) {
  const members = Object.fromEntries(
    Object.entries(script).map(([id, answers]) => [
      id,
      (input, options) => {
        calls.push({ position: options.position, input, options });
        const number = Number(options.position.split('/').at(-1));
        const answer = typeof answers === 'function' ? answers : (answers[number - 1] ?? answers.at(-1));
        return typeof answer === 'function' ? answer(input, options) : answer;
      },
    ]),
  );
  return { members, calls, positions: () => calls.map(({ position }) => position) };
}

/** A writer that begins and a reviewer that waits to be asked. */
export const PAIR = definition(['writer', '-reviewer'], { room: ['writer', 'reviewer'] });
export const dialogue = (calls) =>
  scripted(
    {
      writer: [says('draft', post('room', 'question', 'reviewer')), says('final')],
      reviewer: [says('checked', post('room', 'reply', 'writer'))],
    },
    calls,
  );
export const texts = ({ input }) => input.messages.map(({ text }) => text);

/** Code and failed members of an outcome that failed. */
export function failure(outcome) {
  assert.equal(outcome.status, 'failed');
  return [outcome.code, ...outcome.members.map(({ id, code }) => `${id} ${code}`)];
}

let runs = 0;

export function team(given) {
  return createTeam({ runId: `run-${++runs}`, seed: 'seed', ...given });
}

export async function temporary() {
  const folder = await mkdtemp(join(tmpdir(), 'agent-roundtable-team-'));
  after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The stores on which every rule is shown. */
export const stores = {
  memory: async () => new MemoryConversationStore(),
  files: async () => fileStore({ directory: await temporary() }),
};

export async function lines(store, runId) {
  return (await store.load(runId)).batches.flatMap(({ entries }) => entries);
}

/** A store that stops answering after so many appends, as for a process that dies. */
export function dying(store, appends) {
  let left = appends;
  return new Proxy(store, {
    get(target, key) {
      const value = target[key];
      if (typeof value !== 'function') return value;
      if (key !== 'append') return value.bind(target);
      return (batch) => (left-- > 0 ? target.append(batch) : new Promise(() => {}));
    },
  });
}

/** Repeats a call until the claim of a dead process has run out. */
export async function unclaimed(call) {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (error.code !== 'busy') throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** The time of a process that does nothing more: its timers never fire, and hold nothing up. */
export const deadClock = { now: () => Date.now(), setTimeout: () => 0, clearTimeout() {} };
