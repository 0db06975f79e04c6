/** The driver of one team: performs what the engine wants done, and decides nothing. */

import { type Attempt, abortReason, Attempts, type StopReason, type TellDelta } from '../conversation/attempts.js';
import { Timekeeper } from '../conversation/clock.js';
import type { EngineHandle } from '../conversation/engine-handle.js';
import { callHost, guarded } from '../conversation/inside.js';
import { type ObserverOptions, Observers } from '../conversation/observers.js';
import { checkCheckpoint, checkOutcome } from '../conversation/outcomes.js';
import { turnServices } from '../conversation/services.js';
import { Sessions, type SessionTraits } from '../conversation/sessions.js';
import { placedIn, placeOf } from '../conversation/place.js';
import { type StoreAnswer, StorePort } from '../conversation/store-port.js';
import { thrownJson } from '../conversation/thrown.js';
import { MemoryConversationStore } from '../memory-store.js';
import type { RoundtableEvent } from '../types.js';
import { BadValue, deepFreeze, MAX_JSON, unboundedJsonText } from '../values.js';
import type { TeamEffects, TeamEngine, TeamRun } from './engine.js';
import type { TeamThrown } from './errors.js';
import type { MemberPorts, ReadTeamOptions } from './options.js';
import { TeamPause } from './pause.js';
import type { TeamEvent, TeamTurnOptions } from './types.js';

type AgentRun = TeamRun & Required<Pick<TeamRun, 'agent'>>;

/** An agent's session. */
interface OpenSession {
  readonly number: number;
  readonly traits: SessionTraits;
  /** An attempt that was given up may still be using it. */
  isLeft: boolean;
}

/** The host's side of one team. */
export class TeamPorts implements TeamEffects {
  readonly engine: EngineHandle<TeamEngine, undefined>;
  readonly thrown: TeamThrown;
  readonly #cancelReason: () => unknown;
  readonly #options: ReadTeamOptions;
  readonly #store: StorePort;
  readonly #place: string;
  readonly #time: Timekeeper;
  readonly #attempts = new Attempts();
  readonly #sessions = new Sessions(this);
  /** By member. */
  readonly #opened = new Map<number, OpenSession>();
  #sessionsOpened = 0;
  /** Attempts that nobody awaits any more and that have not returned. */
  readonly #givenUp = new Set<string>();
  readonly #observers: Observers;

  /** @param cancelReason why the active call was cancelled */
  constructor(
    options: ReadTeamOptions,
    engine: EngineHandle<TeamEngine, undefined>,
    thrown: TeamThrown,
    cancelReason: () => unknown,
  ) {
    this.engine = engine;
    this.thrown = thrown;
    this.#cancelReason = cancelReason;
    this.#options = options;
    this.#observers = new Observers(this, options as unknown as ObserverOptions);
    this.#time = new Timekeeper(options.clock, (timer) => this.engine.use((handle) => handle.timerFired(timer)));
    const store = options.store ?? new MemoryConversationStore({ clock: { now: () => this.#time.now() } });
    this.#place = options.store?.place ?? placeOf(store);
    const ids = options.members.map(({ id }) => id);
    this.#store = new StorePort(this, options.runId, ids, store, this.thrown, 'team');
    engine.use((handle) => handle.performedBy(this));
  }

  /** Gives every session back; what failed. */
  async releaseSessions(): Promise<unknown[]> {
    const failures: unknown[] = [];
    const open = [...this.#opened.values()];
    this.#opened.clear();
    await Promise.all(
      open.map(
        ({ number }) =>
          new Promise<void>((resolve) => {
            this.#sessions.release(number, resolve, (error) => {
              failures.push(error);
              resolve();
            });
          }),
      ),
    );
    return failures;
  }

  /** Stops timers and observers. */
  close(): void {
    this.#time.stopAll();
    this.#observers.close();
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

  create(batch: string): void {
    this.#store.create(batch, this.#answer('created'));
  }

  append(batch: string): void {
    this.#store.append(batch, this.#answer('appended'));
  }

  claim(ownerId: string, leaseMs: number): void {
    this.#store.claim(ownerId, leaseMs, this.#answer('claimed'));
  }

  renew(claim: { fence: number }, leaseMs: number): void {
    const settle = (result: string): void => this.#input(`{"renewed":{"fence":${claim.fence},"result":${result}}}`);
    this.#store.renew(JSON.stringify(claim), leaseMs, storeAnswer(settle));
  }

  release(claim: object): void {
    const released = storeAnswer(() => this.#input('"released"'));
    this.#store.release(JSON.stringify(claim), released);
  }

  read(after: number): void {
    this.#store.read(after, this.#answer('read'));
  }

  run(run: TeamRun): void {
    const member = this.#options.members[run.member];
    const attempt = this.#attempts.get(run.attempt);
    if (member === undefined) {
      this.#failed(run, attempt, new BadValue('member', 'is missing'));
      return;
    }
    attempt.turn = { groupId: run.group, turnId: run.position, participantId: member.id };
    if (member.run !== undefined) this.#runFunction(run, member.run, attempt);
    else if (run.agent !== undefined) this.#runAgent(run as AgentRun, member, attempt);
  }

  abort(attempt: string, reason: StopReason): void {
    this.#attempts.get(attempt).abort(abortReason(reason, this.#cancelReason()));
  }

  giveUp(attempt: string, member: number): void {
    this.#attempts.close(attempt)?.endStream(this.#tellDelta);
    this.#givenUp.add(attempt);
    const opened = this.#opened.get(member);
    if (opened !== undefined) opened.isLeft = true;
  }

  reply(call: number, ok: boolean, result: string): void {
    this.engine.reply(call, ok, result);
  }

  answer(ticket: number, refusal: string | null): void {
    this.engine.answer(ticket, refusal ?? undefined);
  }

  emit(revision: number, events: object[]): void {
    if (!this.#observers.present) return;
    const at = new Date(this.now()).toISOString();
    const told = events.map((event) => deepFreeze({ ...event, runId: this.#options.runId, at, revision }));
    this.#tell(told as unknown as TeamEvent[], () => {});
  }

  #runFunction(run: TeamRun, member: NonNullable<MemberPorts['run']>, attempt: Attempt): void {
    const failed = (error: unknown): void => this.#failed(run, attempt, error);
    const options: TeamTurnOptions = Object.assign(this.#executionOptions(attempt), {
      position: run.position,
      pause: (reason: unknown, request: unknown) => new TeamPause(reason, request),
      responses: deepFreeze(run.answers),
      newerMessages: run.newer,
    });
    const returned = (value: unknown): void => {
      if (value instanceof TeamPause) {
        const pause = `{"reason":${JSON.stringify(value.reason)},"request":${value.request}}`;
        this.#returned(run, attempt, `{"pause":${pause}}`);
      } else this.#result(run, attempt, value, undefined);
    };
    callHost<unknown>(
      this,
      () => member(deepFreeze(JSON.parse(run.input)), options),
      guarded(returned, failed),
      failed,
    );
  }

  #runAgent(run: AgentRun, member: MemberPorts, attempt: Attempt): void {
    const opened = this.#opened.get(run.member);
    if (opened === undefined) this.#openSession(run, member, attempt);
    else if (opened.isLeft) this.#releaseSession(run.member, () => this.#openSession(run, member, attempt));
    else this.#runSession(run, member, attempt, opened);
  }

  #openSession(run: AgentRun, member: MemberPorts, attempt: Attempt): void {
    const { checkpoint } = run.agent;
    const context = { conversationId: this.#options.runId, participantId: member.id };
    const number = this.#sessionsOpened++;
    this.#sessions.open(
      number,
      member.agent as NonNullable<typeof member.agent>,
      placedIn(checkpoint === undefined ? context : { ...context, checkpoint }, this.#place),
      (traits) => {
        if (this.#givenUp.delete(run.attempt)) {
          this.#sessions.release(number, ignore, ignore);
          return;
        }
        const opened = { number, traits, isLeft: false };
        this.#opened.set(run.member, opened);
        this.#runSession(run, member, attempt, opened);
      },
      (error) => this.#failed(run, attempt, error),
    );
  }

  /** What its release fails with is nobody's outcome. */
  #releaseSession(member: number, done: () => void): void {
    const opened = this.#opened.get(member);
    this.#opened.delete(member);
    if (opened === undefined) done();
    else this.#sessions.release(opened.number, done, done);
  }

  #runSession(run: AgentRun, member: MemberPorts, attempt: Attempt, { number, traits }: OpenSession): void {
    const failed = (error: unknown): void => {
      if (this.#givenUp.delete(run.attempt)) return;
      // What the session had in mind is not what was saved; the next attempt begins with what was.
      if (traits.canCheckpoint) this.#releaseSession(run.member, () => this.#failed(run, attempt, error));
      else this.#failed(run, attempt, error);
    };
    const turn = {
      conversationId: this.#options.runId,
      participantId: member.id,
      turnId: run.position,
      attemptId: run.attempt,
      groupId: run.group,
      purpose: run.agent.purpose,
      context: { baseRevision: run.baseRevision, messages: deepFreeze(run.agent.messages) },
      ...(run.earlier === undefined ? {} : { earlierAttempts: run.earlier }),
      ...(run.retried ? ({ reconciled: 'retry' } as const) : {}),
    };
    const returned = guarded((value: unknown) => {
      if (this.#givenUp.delete(run.attempt)) return;
      const outcome = checkOutcome(value);
      if (!traits.canCheckpoint) {
        this.#outcome(run, member, attempt, outcome, undefined);
        return;
      }
      const saved = guarded((checkpoint: unknown) => {
        this.#outcome(run, member, attempt, outcome, checkCheckpoint(checkpoint));
      }, failed);
      this.#sessions.checkpoint(number, saved, failed);
    }, failed);
    const responses = run.answers.length > 0 ? run.answers : undefined;
    this.#sessions.run(number, turn, responses, this.#executionOptions(attempt), returned, failed);
  }

  #outcome(
    run: TeamRun,
    member: MemberPorts,
    attempt: Attempt,
    outcome: ReturnType<typeof checkOutcome>,
    checkpoint: string | undefined,
  ): void {
    const saved = checkpoint === undefined ? '' : `,"checkpoint":${checkpoint}`;
    if ('content' in outcome) {
      const { parse } = this.#options;
      if (parse !== undefined) this.#result(run, attempt, parse(outcome.content, member.id), checkpoint);
      else this.#returned(run, attempt, `{"spoke":{"content":${JSON.stringify(outcome.content)}${saved}}}`);
      return;
    }
    const { kind, message } = JSON.parse(outcome.json) as { kind: string; message?: string };
    if (kind === 'yield') this.#returned(run, attempt, `{"spoke":{"content":""${saved}}}`);
    else if (kind === 'failed') throw Object.assign(new Error(message), { code: 'AGENT_FAILED' });
    else {
      const { requests } = JSON.parse(outcome.json) as { requests: unknown };
      this.#returned(run, attempt, `{"wait":{"requests":${JSON.stringify(requests)}${saved}}}`);
    }
  }

  #result(run: TeamRun, attempt: Attempt, value: unknown, checkpoint: string | undefined): void {
    let result: string;
    try {
      result = unboundedJsonText(value, 'result', 1);
    } catch (error) {
      if (!(error instanceof BadValue)) throw error;
      throw Object.assign(new Error(error.message), { code: 'RESULT_INVALID' });
    }
    if (result.length > MAX_JSON)
      throw Object.assign(new Error('the result is too long'), { code: 'RESULT_TOO_LARGE' });
    const saved = checkpoint === undefined ? '' : `,"checkpoint":${checkpoint}`;
    this.#returned(run, attempt, `{"result":{"result":${result}${saved}}}`);
  }

  #executionOptions(attempt: Attempt): ReturnType<Attempt['options']> {
    return attempt.options(this.#tellDelta, turnServices(this.engine, attempt, this.#options.durable));
  }

  #failed(run: TeamRun, attempt: Attempt, error: unknown): void {
    this.#returned(run, attempt, `{"thrown":${thrownJson(error, attempt.stopped)}}`);
  }

  #returned(run: TeamRun, attempt: Attempt, outcome: string): void {
    if (this.#givenUp.delete(run.attempt)) return;
    attempt.endStream(this.#tellDelta);
    this.#attempts.close(run.attempt);
    this.#input(`{"returned":{"attempt":${JSON.stringify(run.attempt)},"outcome":${outcome}}}`);
  }

  #input(input: string): void {
    this.engine.use((engine) => engine.input(input));
  }

  #answer(name: string): StoreAnswer {
    return storeAnswer((result) => this.#input(`{"${name}":${result}}`));
  }

  #tell(events: readonly TeamEvent[], done: () => void): boolean {
    return this.#observers.tell(events as unknown as RoundtableEvent[], done);
  }

  readonly #tellDelta: TellDelta = (attempt, text, done) => {
    const { turn } = attempt;
    const index = attempt.deltas++;
    if (turn === undefined || !this.#observers.present) return done();
    const event: TeamEvent = Object.freeze({
      type: 'delta',
      runId: this.#options.runId,
      at: new Date(this.now()).toISOString(),
      nodeId: turn.participantId,
      position: turn.turnId,
      attemptId: attempt.id,
      index,
      text,
    });
    if (!this.#tell([event], done)) done();
  };
}

function ignore(): void {}

function storeAnswer(settle: (result: string) => void): StoreAnswer {
  const done = (value: string): void => settle(`{"Ok":${value}}`);
  return {
    done: () => done('null'),
    revision: (revision) => done(String(revision)),
    json: done,
    failed: (failure) => settle(`{"Err":${failure}}`),
  };
}
