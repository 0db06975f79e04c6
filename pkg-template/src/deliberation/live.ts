/** Deliberations on a store: the engine decides, this class carries. */

import { currentEngine } from '../engine.js';
import { DeliberationError } from './errors.js';
import { commandText } from './input.js';
import type { Settings } from './options.js';
import { Outbox } from './outbox.js';
import { finish, internal, randomHex, read, Sessions, storeFailed } from './sessions.js';
import { Sweeper } from './sweeper.js';
import type { Deliberation, Deliberations, DeliberationStatus, DeliberationSummary } from './types.js';

const CREATE = 'CREATE_ROUND_TABLE_FAILED';
const LIST = 'LIST_ROUND_TABLES_FAILED';
const GET = 'GET_ROUND_TABLE_FAILED';

/** What the fields of each command are, and the reason of an error that the engine does not give. */
const COMMANDS = {
  get: { fields: ['since'], failed: GET },
  speak: { fields: ['message', 'idempotencyKey', 'expectedVersion'], failed: 'SPEAK_FAILED' },
  resolve: { fields: ['outcome', 'decision', 'note', 'expectedVersion'], failed: 'RESOLVE_FAILED' },
  position: { fields: ['stance', 'note', 'expectedVersion'], failed: 'POSITION_FAILED' },
  decline: { fields: ['note', 'expectedVersion'], failed: 'DECLINE_FAILED' },
  handOver: { fields: ['to', 'expectedVersion'], failed: 'HAND_OVER_FAILED' },
  extend: { fields: ['minutes', 'expectedVersion'], failed: 'EXTEND_FAILED' },
  close: { fields: ['reason', 'expectedVersion'], failed: 'CLOSE_FAILED' },
} as const;

const CREATION = [
  'topic',
  'goal',
  'participants',
  'timeoutMinutes',
  'idempotencyKey',
  'quorum',
  'reminderMinutes',
  'strict',
];
/** How many ids are tried before there must be something else wrong than that they are taken. */
const MAX_IDS = 1000;
const SESSION_ID = /^rt_[0-9a-f]{12}$/;

type Created = Awaited<ReturnType<Deliberations['create']>>;

export class LiveDeliberations implements Deliberations {
  readonly #settings: Settings;
  readonly #sessions: Sessions;
  readonly #outbox: Outbox;
  readonly #sweeper: Sweeper;
  readonly #seed: string;
  readonly #underWay = new Set<Promise<unknown>>();
  #created = 0;
  #isDisposed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#seed = settings.seed ?? randomHex();
    this.#sessions = new Sessions(settings.store);
    this.#outbox = new Outbox(this.#sessions, settings, () => this.#now());
    this.#sweeper = new Sweeper(this.#sessions, this.#outbox, settings, () => this.#now());
    this.#sweeper.start();
  }

  create(caller: string, input: Parameters<Deliberations['create']>[1]): Promise<Created> {
    return this.#track(CREATE, () => this.#create(caller, input));
  }

  list(caller: string, query: Parameters<Deliberations['list']>[1] = {}): ReturnType<Deliberations['list']> {
    return this.#track(LIST, () => this.#list(caller, query));
  }

  get(caller: string, id: string, options?: { since?: number }): Promise<Deliberation> {
    return this.#command('get', caller, id, options);
  }

  speak(caller: string, id: string, input: Parameters<Deliberations['speak']>[2]): ReturnType<Deliberations['speak']> {
    const { maxEntriesPerSpeaker, maxThreadBytes } = this.#settings.limits;
    return this.#command('speak', caller, id, input, { maxEntriesPerSpeaker, maxThreadBytes });
  }

  resolve(caller: string, id: string, input: Parameters<Deliberations['resolve']>[2]): Promise<Deliberation> {
    return this.#command('resolve', caller, id, input);
  }

  takePosition(caller: string, id: string, input: Parameters<Deliberations['takePosition']>[2]): Promise<Deliberation> {
    return this.#command('position', caller, id, input);
  }

  async decline(caller: string, id: string, input?: { note?: string }): Promise<void> {
    await this.#command('decline', caller, id, input);
  }

  handOver(caller: string, id: string, input: { to: string }): Promise<Deliberation> {
    return this.#command('handOver', caller, id, input);
  }

  extend(caller: string, id: string, input: { minutes: number }): Promise<Deliberation> {
    return this.#command('extend', caller, id, input);
  }

  close(caller: string, id: string, input: { reason: string }): Promise<Deliberation> {
    return this.#command('close', caller, id, input);
  }

  expireStale(): Promise<number> {
    return this.#track('EXPIRE_FAILED', () => this.#sweeper.expire({}));
  }

  purge(): Promise<number> {
    return this.#track('PURGE_FAILED', () => this.#sweeper.purge());
  }

  deliverPending(): Promise<number> {
    return this.#track('DELIVERY_FAILED', () => this.#sweeper.deliver());
  }

  async dispose(): Promise<void> {
    this.#isDisposed = true;
    this.#sweeper.stop();
    await Promise.allSettled([...this.#underWay, this.#sweeper.sweeping]);
    this.#sessions.forgetAll();
  }

  async #create(caller: string, input: unknown): Promise<Created> {
    const text = commandText({ caller }, input, CREATION);
    const { engine } = currentEngine();
    for (let tries = 0; tries < MAX_IDS; tries++) {
      const counter = this.#created++;
      const plan = finish(
        read<{ id: string; isKeyed: boolean; participants: string[]; error?: unknown }>(
          engine.planDeliberation(text, this.#seed, counter),
          CREATE,
        ),
      );
      const repeated = plan.isKeyed ? text : undefined;
      if (plan.isKeyed && (await this.#sessions.exists(plan.id, CREATE))) return this.#creation(plan.id, repeated);
      await this.#checkShare(caller);
      const known = await this.#known(plan.participants);
      const opened = finish(read(engine.openDeliberation(text, known, this.#seed, counter, this.#now()), CREATE));
      if (await this.#sessions.create(plan.id, opened, CREATE)) {
        await this.#outbox.deliver(plan.id, {});
        return this.#creation(plan.id, undefined);
      }
      if (plan.isKeyed) return this.#creation(plan.id, repeated);
    }
    throw new DeliberationError('internal', 'the store has a session under every id that was tried', {
      reason: CREATE,
    });
  }

  async #creation(id: string, repeated: string | undefined): Promise<Created> {
    const created = await this.#sessions.look(id, CREATE, (handle) => handle.created(repeated));
    return finish(read<{ reply: Created; error?: unknown }>(created, CREATE)).reply;
  }

  async #checkShare(caller: string): Promise<void> {
    const { maxOpenPerFacilitator } = this.#settings.limits;
    if (maxOpenPerFacilitator === Number.MAX_SAFE_INTEGER) return;
    let open = 0;
    for await (const { summary } of this.#sweeper.records({ status: 'open', member: caller })) {
      if (summary.members[0] === caller) open += 1;
    }
    if (open < maxOpenPerFacilitator) return;
    throw new DeliberationError('conflict', 'the facilitator has as many open sessions as one may', { reason: CREATE });
  }

  async #known(participants: readonly string[]): Promise<Uint8Array> {
    const { directory } = this.#settings;
    if (directory === undefined) return new Uint8Array(participants.length).fill(1);
    try {
      const known = await Promise.all(participants.map(async (one) => directory.has(one)));
      return Uint8Array.from(known, (is) => (is === true ? 1 : 0));
    } catch (error) {
      throw new DeliberationError('unavailable', 'the directory failed', { reason: CREATE, cause: error });
    }
  }

  async #list(caller: string, query: unknown): ReturnType<Deliberations['list']> {
    const text = commandText({ caller }, query, ['status', 'limit', 'cursor']);
    const { limit } = finish(
      read<{ limit: number; error?: unknown }>(currentEngine().engine.queryDeliberations(text), LIST),
    );
    const { status, cursor } = query as { status?: DeliberationStatus; cursor?: string };
    // Nobody sees as open what is over.
    await this.#sweeper.expire({ member: caller });
    const filter = { ...(status === undefined ? {} : { status }), ...(cursor === undefined ? {} : { cursor }) };
    const page = await this.#settings.store
      .list({ kind: 'deliberation', member: caller, limit, ...filter })
      .catch((error: unknown) => {
        const isCursor = (error as { code?: unknown } | null)?.code === 'invalid-config' && cursor !== undefined;
        if (!isCursor) throw storeFailed(error, LIST);
        const more = { reason: 'INVALID_CURSOR', field: 'cursor', cause: error };
        throw new DeliberationError('invalid', 'cursor must be one that a listing gave', more);
      });
    const items = await Promise.all(page.items.map(({ conversationId }) => this.#listed(conversationId)));
    const listed = items.filter((item) => item !== undefined && (status === undefined || item.status === status));
    const { nextCursor } = page;
    return { items: listed as DeliberationSummary[], ...(nextCursor === undefined ? {} : { nextCursor }) };
  }

  /** `undefined` where it was purged meanwhile. */
  async #listed(id: string): Promise<DeliberationSummary | undefined> {
    try {
      return read<DeliberationSummary>(await this.#sessions.look(id, LIST, (handle) => handle.listed()), LIST);
    } catch (error) {
      if (error instanceof DeliberationError && error.code === 'not-found') return undefined;
      throw error;
    }
  }

  #command<T>(
    kind: keyof typeof COMMANDS,
    caller: string,
    id: string,
    input: unknown,
    limits: Record<string, number> = {},
  ): Promise<T> {
    const { fields, failed } = COMMANDS[kind];
    return this.#track(failed, async () => {
      const command = commandText({ kind, caller, ...limits }, input, fields);
      // Malformed input is told before whether there is such a session.
      finish(read<{ error?: unknown }>(currentEngine().engine.checkDeliberationCommand(command), failed));
      if (typeof id !== 'string' || !SESSION_ID.test(id)) {
        throw new DeliberationError('not-found', 'there is no such session', { reason: failed });
      }
      const decided = await this.#sessions.run(id, failed, (handle) => handle.decide(command, this.#now()));
      // Also where the command is refused because the deadline has passed: that is told now.
      if (decided.entries.length > 0) await this.#outbox.deliver(id, decided);
      return finish(decided).reply as T;
    });
  }

  async #track<T>(failed: string, work: () => Promise<T>): Promise<T> {
    if (this.#isDisposed) throw new DeliberationError('unavailable', 'disposed', { reason: failed });
    const working = work();
    this.#underWay.add(working);
    try {
      return await working;
    } catch (error) {
      if (error instanceof DeliberationError) throw error;
      throw internal(error, failed);
    } finally {
      this.#underWay.delete(working);
    }
  }

  #now(): number {
    const { clock } = this.#settings;
    return clock === undefined ? Date.now() : clock.now();
  }
}
