/** The ports object of one conversation: what the engine calls, done with the host's functions. */

import { RoundtableError } from '../errors.js';
import { type Batches, StoredJournal } from '../inspection/stored-journal.js';
import { MemoryConversationStore } from '../memory-store.js';
import type {
  DeltaEvent,
  ParticipantCheckpoint,
  ParticipantResponse,
  ParticipantTurn,
  RoundtableEvent,
  SelectionContext,
  TurnServices,
  UsageRecord,
} from '../types.js';
import { BadValue } from '../values.js';
import { abortReason, type Attempt, Attempts, type StopReason, type TellDelta } from './attempts.js';
import { RELEASE_TIMER, Timekeeper } from './clock.js';
import { EngineHandle, type EnginePorts, type MakeHandle } from './engine-handle.js';
import { callHost, callHostNow, guarded } from './inside.js';
import { Mirror } from './mirror.js';
import { Observers } from './observers.js';
import type { Loaded, ReadOptions, SelectorPorts } from './options.js';
import { checkCheckpoint, checkOutcome, checkSelection } from './outcomes.js';
import { priceJson } from './pricing.js';
import { turnServices } from './services.js';
import { Sessions } from './sessions.js';
import { placedIn, placeOf } from './place.js';
import { type StoreAnswer, StorePort } from './store-port.js';
import { ThrownValues, thrownJson } from './thrown.js';

/** A turn as the engine names it: the participant by its place, messages by their positions. */
interface TurnView {
  readonly participant: number;
  readonly turnId: string;
  readonly attemptId: string;
  readonly groupId: string;
  readonly baseRevision: number;
  readonly messages: readonly number[];
  readonly earlier?: readonly string[];
  readonly retried?: boolean;
}

/** The host's side of one conversation. */
export class Ports implements EnginePorts {
  readonly mirror: Mirror;
  readonly observers: Observers;
  readonly thrown = new ThrownValues();
  readonly engine: EngineHandle;
  /** Why the active run was cancelled, where its signal did it. */
  cancelReason: () => unknown = () => undefined;
  readonly #options: ReadOptions;
  #selector: SelectorPorts | undefined;
  /** What every session of a fork is told. */
  readonly #origin: { forkedFrom?: NonNullable<Loaded['forkedFrom']> };
  readonly #conversationId: string;
  /** Whether what an execution records outlives the process. */
  readonly #durable: boolean;
  readonly #purpose: string | undefined;
  readonly #participants: SelectionContext['participants'];
  readonly #store: StorePort;
  readonly #place: string;
  readonly #batches: Batches;
  readonly #sessions: Sessions;
  readonly #attempts = new Attempts();
  readonly #time: Timekeeper;

  /** @throws RoundtableError `invalid-config` */
  constructor(options: ReadOptions) {
    this.#options = options;
    this.#selector = options.selector;
    const forkedFrom = options.loaded?.forkedFrom;
    this.#origin = forkedFrom === undefined ? {} : { forkedFrom };
    this.observers = new Observers(this, options);
    this.#sessions = new Sessions(this);
    this.#time = new Timekeeper(options.clock, (timer) => this.engine.use((handle) => handle.timerFired(timer)));
    const make: MakeHandle = (engine, ports) => new engine.RoundtableHandle(options.config, ports);
    const { link, make: load = make } = options.loaded ?? {};
    this.engine = new EngineHandle(load, this, this.thrown, () => this.close(), link);
    // The engine has checked the types of all of these.
    const { conversationId, purpose, participants } = options.config as unknown as {
      conversationId: string;
      purpose?: string;
      participants: { id: string; kind: 'agent' | 'external'; description?: string }[];
    };
    this.#conversationId = conversationId;
    this.#durable = options.config['recovery'] === 'durable';
    this.#purpose = purpose;
    this.#participants = Object.freeze(
      participants.map(({ id, kind, description }) =>
        Object.freeze(description === undefined ? { id, kind } : { id, kind, description }),
      ),
    );
    this.mirror = new Mirror(conversationId, purpose, this.#participants);
    const store = options.store ?? new MemoryConversationStore({ clock: { now: () => this.#time.now() } });
    this.#batches = store;
    this.#place = options.store?.place ?? placeOf(store);
    this.#store = new StorePort(
      this,
      conversationId,
      participants.map(({ id }) => id),
      store,
      this.thrown,
    );
    this.observed();
    if (options.loaded !== undefined) this.mirror.apply(this.engine.read((handle) => handle.transcript()));
  }

  /** Tells the engine whether anybody wants events. */
  observed(): void {
    this.engine.use((handle) => handle.setObserved(this.observers.present));
  }

  /** The journal's events after a revision and up to another, from the store. */
  async pastEvents(after: number, until: number): Promise<readonly RoundtableEvent[]> {
    if (after >= until) return [];
    const journal = new StoredJournal(this.#batches, this.#conversationId);
    const events: RoundtableEvent[] = [];
    try {
      while (journal.revision < until) {
        for (const event of JSON.parse(await journal.next({ until, eventsAfter: after }))) events.push(event);
      }
      return events;
    } finally {
      journal.close();
    }
  }

  /** Releases the host's selector; what it rejects with, if it does, or that it took longer than it may. */
  releaseSelector(withinMs?: number): Promise<{ readonly error: unknown } | undefined> {
    const release = this.#selector?.release;
    if (release === undefined) return Promise.resolve(undefined);
    return new Promise((done) => {
      const over = (failed?: { readonly error: unknown }): void => {
        if (withinMs !== undefined) this.#time.stop(RELEASE_TIMER);
        done(failed);
      };
      const failed = (error: unknown): void => over({ error });
      const late = (): void => failed(new RoundtableError('unavailable', 'the selector was not released in time'));
      if (withinMs !== undefined) this.#time.start(RELEASE_TIMER, withinMs, late);
      callHost(this, release, () => over(), failed);
    });
  }

  /** Stops timers and observers; the engine calls nothing after this. */
  close(): void {
    this.#sessions.close();
    this.#time.stopAll();
    this.observers.close();
  }

  now(): number {
    return this.#time.now();
  }

  mono(): number {
    return this.#time.mono();
  }

  startTimer(timer: number, delayMs: number): void {
    this.#time.start(timer, delayMs);
  }

  stopTimer(timer: number): void {
    this.#time.stop(timer);
  }

  create(slot: number, batch: string): void {
    this.#store.create(batch, this.#storeAnswer(slot));
  }

  append(slot: number, batch: string, snapshot: string | undefined): void {
    this.#store.append(batch, this.#storeAnswer(slot), snapshot);
  }

  claim(slot: number, ownerId: string, leaseMs: number): void {
    this.#store.claim(ownerId, leaseMs, this.#storeAnswer(slot));
  }

  renew(slot: number, claim: string, leaseMs: number): void {
    this.#store.renew(claim, leaseMs, this.#storeAnswer(slot));
  }

  release(slot: number, claim: string): void {
    this.#store.release(claim, this.#storeAnswer(slot));
  }

  read(slot: number, after: number): void {
    this.#store.read(after, this.#storeAnswer(slot));
  }

  select(
    slot: number,
    attemptId: string,
    messages: number,
    turns: number,
    remainingTurns: number,
    restore: string | undefined,
  ): void {
    const attempt = this.#attempts.get(attemptId);
    const failed = this.#failed(slot, attempt);
    const context = this.mirror.selectionContext(messages, turns, remainingTurns);
    const options = {
      get signal() {
        return attempt.signal;
      },
      services: this.#services(attempt),
      attemptId,
    };
    const ask = (selector: SelectorPorts): void => {
      const decided = guarded((value: unknown) => {
        const selection = checkSelection(value);
        if (selector.checkpoint === undefined) return this.#settle(slot, `{"selection":${selection}}`);
        const saved = guarded((checkpoint: unknown) => {
          this.#settle(slot, `{"selection":${selection},"checkpoint":${checkCheckpoint(checkpoint)}}`);
        }, failed);
        callHost<unknown>(this, selector.checkpoint, saved, failed);
      }, failed);
      callHost<unknown>(this, () => selector.select(context, options), decided, failed);
    };
    const create = this.#options.loaded?.createSelector;
    if (restore !== undefined && create !== undefined) {
      const saved = JSON.parse(restore) as { checkpoint?: ParticipantCheckpoint };
      const made = (selector: SelectorPorts): void => {
        void this.releaseSelector();
        this.#selector = selector;
        ask(selector);
      };
      callHost(this, () => create(saved), made, failed);
    } else if (this.#selector === undefined) failed(new BadValue('selector', 'is missing'));
    else ask(this.#selector);
  }

  openSession(slot: number, session: number, participant: number, checkpoint: string | undefined): void {
    const failed = (error: unknown): void => {
      const failure = this.thrown.openingFailure(error);
      this.engine.use((handle) => handle.fail(slot, failure));
    };
    const agent = this.#options.agents[participant];
    const participantId = this.#participants[participant]?.id;
    if (agent === undefined || participantId === undefined) {
      failed(new BadValue('participant', 'is no agent'));
      return;
    }
    const saved = checkpoint === undefined ? {} : { checkpoint: JSON.parse(checkpoint) as ParticipantCheckpoint };
    this.#sessions.open(
      session,
      agent,
      placedIn({ conversationId: this.#conversationId, participantId, ...saved, ...this.#origin }, this.#place),
      ({ canResume, canCheckpoint }) =>
        this.engine.use((handle) => handle.settleNumber(slot, (canResume ? 1 : 0) + (canCheckpoint ? 2 : 0))),
      failed,
    );
  }

  runTurn(slot: number, session: number, turn: string, responses: string | undefined): void {
    const view = JSON.parse(turn) as TurnView;
    const { turnId, attemptId, groupId, baseRevision } = view;
    const participantId = this.#participants[view.participant]?.id ?? '';
    const attempt = this.#attempts.get(attemptId);
    attempt.turn = { groupId, turnId, participantId };
    const shown: ParticipantTurn = {
      conversationId: this.#conversationId,
      participantId,
      turnId,
      attemptId,
      groupId,
      ...(this.#purpose === undefined ? {} : { purpose: this.#purpose }),
      context: { baseRevision, messages: this.mirror.messages(view.messages) },
      ...(view.earlier === undefined ? {} : { earlierAttempts: view.earlier }),
      ...(view.retried === true ? { reconciled: 'retry' } : {}),
    };
    const failed = this.#failed(slot, attempt);
    const returned = guarded((value: unknown) => {
      const outcome = checkOutcome(value);
      attempt.endStream(this.#tellDelta);
      this.engine.use((handle) => {
        if ('content' in outcome) handle.settleSpeak(slot, outcome.content);
        else handle.settle(slot, outcome.json);
      });
    }, failed);
    this.#sessions.run(
      session,
      shown,
      responses === undefined ? undefined : (JSON.parse(responses) as ParticipantResponse[]),
      attempt.options(this.#tellDelta, this.#services(attempt)),
      returned,
      failed,
    );
  }

  takeCheckpoint(slot: number, session: number): void {
    const failed = this.#failed(slot, undefined);
    const taken = guarded((value: unknown) => this.#settle(slot, checkCheckpoint(value)), failed);
    this.#sessions.checkpoint(session, taken, failed);
  }

  releaseSession(slot: number, session: number): void {
    const failed = (error: unknown): void => {
      const failure = this.thrown.releaseFailure(error);
      this.engine.use((handle) => handle.fail(slot, failure));
    };
    this.#sessions.release(session, () => this.#settle(slot), failed);
  }

  abort(attempt: string, reason: StopReason): void {
    this.#attempts.get(attempt).abort(abortReason(reason, this.cancelReason()));
  }

  closeAttempt(attempt: string): void {
    this.#attempts.close(attempt)?.endStream(this.#tellDelta);
  }

  price(text: string): string | undefined {
    const { cost } = this.#options;
    if (cost === undefined) return undefined;
    const record = JSON.parse(text) as UsageRecord;
    try {
      return callHostNow(this, () => priceJson(cost, record));
    } catch (error) {
      const at = new Date(this.now()).toISOString();
      const { conversationId, runId, revision } = record;
      this.observers.report(error, Object.freeze({ type: 'usage', conversationId, runId, at, revision, record }));
      return undefined;
    }
  }

  emit(slot: number, emission: string): boolean {
    return this.observers.tell(this.mirror.apply(emission), () => this.#settle(slot));
  }

  reply(call: number, ok: boolean, result: string): void {
    this.engine.reply(call, ok, result);
  }

  answer(ticket: number, refusal: string | undefined): void {
    this.engine.answer(ticket, refusal);
  }

  #settle(slot: number, text?: string): void {
    this.engine.use((handle) => handle.settle(slot, text));
  }

  /** What an attempt or session threw, told to the engine. */
  #failed(slot: number, attempt: Attempt | undefined): (error: unknown) => void {
    return (error) => {
      attempt?.endStream(this.#tellDelta);
      const failure = thrownJson(error, attempt?.stopped);
      this.engine.use((handle) => handle.fail(slot, failure));
    };
  }

  #storeAnswer(slot: number): StoreAnswer {
    return {
      done: () => this.#settle(slot),
      revision: (revision) => this.engine.use((handle) => handle.settleNumber(slot, revision)),
      json: (text) => this.#settle(slot, text),
      failed: (failure) => this.engine.use((handle) => handle.fail(slot, failure)),
    };
  }

  #services(attempt: Attempt): TurnServices {
    return turnServices(this.engine, attempt, this.#durable);
  }

  readonly #tellDelta: TellDelta = (attempt, text, done) => {
    const { turn } = attempt;
    const index = attempt.deltas++;
    if (turn === undefined || !this.observers.present) return done();
    const event: DeltaEvent = Object.freeze({
      type: 'delta',
      conversationId: this.#conversationId,
      ...(this.mirror.runId === undefined ? {} : { runId: this.mirror.runId }),
      at: new Date(this.now()).toISOString(),
      ...turn,
      attemptId: attempt.id,
      index,
      text,
    });
    const events: readonly RoundtableEvent[] = [event];
    if (!this.observers.tell(events, done)) done();
  };
}
