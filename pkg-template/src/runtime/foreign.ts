/** Agents of other SDKs as participants: rendering, metering, waits, checkpoints and leases are the session's. */

import { placeOfContext } from '../conversation/place.js';
import { currentEngine } from '../engine.js';
import { RoundtableError } from '../errors.js';
import type {
  AgentParticipant,
  JsonValue,
  ParticipantCheckpoint,
  ParticipantExecutionOptions,
  ParticipantLease,
  ParticipantOutcome,
  ParticipantResponse,
  ParticipantSession,
  ParticipantTurn,
  TurnServices,
} from '../types.js';
import { deepFreeze, enclosing, isInstance } from '../values.js';
import { type AgentContext, hostJournal, participant, type RuntimeParticipantOptions } from './agent.js';
import { checkCallbacks } from './agent-options.js';
import { adoptExecution, clearDefaultJournal, openDefaultJournal } from './default-journal.js';
import { disposeQuietly } from './agent-session.js';
import { DeltaQueue } from './delta-queue.js';
import { AbortedWithFailure, ExecutionError, isOutcomeUnknown, RuntimeParticipantError } from './errors.js';
import { Context } from './foreign-context.js';
import { readJournal, refuseOthers } from './foreign-deeds.js';
import type { AgentRuntime, RuntimeResult, ToolApprovalDecision } from './foreign-types.js';
import {
  type ApprovalRequest,
  objectsOf,
  readAnswers,
  readResult,
  readRuntime,
  restore,
  type State,
  VERSION,
} from './foreign-values.js';
import { claim, SessionName, sessionIdOf } from './leases.js';
import { metered } from './metering.js';
import { renderInput, renderSharedIncrement } from './render.js';
import { settleTimeoutOf, unlessAborted, unlessLate, unlessStopped, untilOver } from './stop.js';
import type { ExecutionJournal, ExecutionRecord } from './types.js';

/** What {@link runtimeParticipant} takes. */
export interface ForeignParticipantOptions extends Omit<RuntimeParticipantOptions, 'onEvent'> {
  /** Called once for each session. The runtime and its resources belong to that session. */
  createRuntime(context: AgentContext): AgentRuntime | Promise<AgentRuntime>;
  /** Where executions are recorded; default as for `sessionParticipant`. */
  journal?(sessionId: string): ExecutionJournal;
}

/**
 * A participant run by an agent SDK. It is shown what it has not read yet, rendered as for every other
 * participant; its history and its tools' traces stay its own; a tool call that must be approved makes
 * the turn wait, and the answer continues the same run.
 */
export function runtimeParticipant(options: ForeignParticipantOptions): AgentParticipant {
  checkCallbacks(options, 'createRuntime', ['journal', 'render']);
  const settleTimeoutMs = settleTimeoutOf(options);
  return participant(options, {
    supportsContinuation: true,
    checkpointVersions: [VERSION],
    async openSession(opening): Promise<ParticipantLease> {
      const { conversationId, participantId, checkpoint, forkedFrom } = opening;
      const place = placeOfContext(opening);
      const restoring = checkpoint !== undefined;
      const runtime = await options.createRuntime({ conversationId, participantId, restoring });
      const sessionId = sessionIdOf(conversationId, participantId);
      const name = new SessionName(sessionId, place);
      const free = claim(objectsOf(runtime), name);
      try {
        name.take();
        const environment = readRuntime(runtime);
        const restored =
          checkpoint === undefined
            ? { history: [], firstTurnDone: false, pending: null }
            : restore(checkpoint, sessionId, environment, forkedFrom !== undefined, place !== '');
        const journal = hostJournal(options, sessionId);
        const render = options.render ?? renderSharedIncrement;
        const setting = { runtime, sessionId, name, place, environment, journal, render, settleTimeoutMs, free };
        const session = new RuntimeSession(setting, restored);
        name.rest();
        return { session, release: () => session.release() };
      } catch (error) {
        await disposeQuietly(runtime);
        free();
        throw error;
      }
    },
  });
}

interface Setting {
  readonly runtime: AgentRuntime;
  readonly sessionId: string;
  readonly name: SessionName;
  /** The store that its conversation is in. */
  readonly place: string;
  readonly environment: string;
  readonly journal: ExecutionJournal | undefined;
  readonly render: NonNullable<RuntimeParticipantOptions['render']>;
  readonly settleTimeoutMs: number;
  readonly free: () => void;
}

/** Reads what is on record of a run. */
type Read = (journal: ExecutionJournal) => Promise<readonly ExecutionRecord[]>;

/** How a run is begun or continued. */
type Start = (context: Context) => Promise<RuntimeResult>;

class RuntimeSession implements ParticipantSession {
  readonly #setting: Setting;
  #state: State;
  /** How much of the history a checkpoint has taken. */
  #saved: number;
  /** The turn that runs: how it is ended, and when it is over. */
  #running: { left: AbortController; over: Promise<unknown>; isStopped: () => boolean } | undefined;
  #released: Promise<void> | undefined;

  constructor(setting: Setting, state: State) {
    this.#setting = setting;
    this.#state = state;
    this.#saved = state.history.length;
  }

  async runTurn(turn: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome> {
    const { runtime, render, sessionId, place } = this.#setting;
    this.#refuseWaiting(turn);
    this.#refuseBusy();
    const input = renderInput(render, turn, !this.#state.firstTurnDone);
    const executionId = turn.attemptId;
    // A seed that is used again gives the same attempt ids again.
    clearDefaultJournal(sessionId, [executionId], place);
    return this.#perform(
      turn,
      options,
      executionId,
      async () => [],
      async (context) => {
        await context.journal.append({
          id: `${executionId}:start`,
          executionId,
          sessionId,
          kind: 'execution-start',
          turnId: turn.turnId,
          input,
        });
        return runtime.run(input, context);
      },
    );
  }

  /** In a conversation another turn begins only when the one that waited is over: a host has settled it. */
  #refuseWaiting({ earlierAttempts = [] }: ParticipantTurn): void {
    const { pending } = this.#state;
    if (pending === null) return;
    const isOver = this.#setting.place !== '' && !earlierAttempts.includes(pending.executionId);
    if (!isOver || this.#running !== undefined) {
      const problem = 'an execution of this session waits for answers, so no other turn can start';
      throw new ExecutionError('EXECUTION_RECOVERY_REQUIRED', problem);
    }
    this.#state = { ...this.#state, pending: null };
  }

  async resumeTurn(
    turn: ParticipantTurn,
    responses: readonly ParticipantResponse[],
    options: ParticipantExecutionOptions,
  ): Promise<ParticipantOutcome> {
    const { runtime, sessionId, place } = this.#setting;
    const { pending } = this.#state;
    if (pending === null) throw new RuntimeParticipantError('identity-mismatch', 'nothing waits for an answer');
    const answers = readAnswers(sessionId, turn, pending, responses);
    const { executionId } = pending;
    adoptExecution(sessionId, place, executionId);
    const read: Read = async (journal) => {
      const records = await readJournal(journal, sessionId, executionId);
      if (records.length === 0) {
        const problem = 'the execution journal has no records of the execution that waits';
        throw new RuntimeParticipantError('journal-missing', problem);
      }
      refuseOthers(turn.turnId, records, answers);
      return records;
    };
    return this.#perform(turn, options, executionId, read, async (context) => {
      for (const { requestId, responseId, approved, reason } of answers) {
        const answer = { requestId, responseId, approved, ...(reason === undefined ? {} : { reason }) };
        await context.journal.append({ id: `${requestId}:answer`, executionId, sessionId, kind: 'answer', ...answer });
      }
      const decisions = answers.map(({ action, approved, reason }): ToolApprovalDecision => {
        return reason === undefined ? { ...action, approved } : { ...action, approved, reason };
      });
      if (runtime.resume === undefined) throw unsupported();
      return runtime.resume(structuredClone(pending.state), decisions, context);
    });
  }

  async checkpoint(): Promise<ParticipantCheckpoint> {
    this.#refuseReleased();
    const { sessionId, environment } = this.#setting;
    const { history, firstTurnDone, pending } = this.#state;
    const append = history.slice(this.#saved);
    this.#saved = history.length;
    const data = structuredClone({ sessionId, environment, firstTurnDone, pending });
    return { version: VERSION, data: enclosing(data) as unknown as JsonValue, append };
  }

  /**
   * Waits for the turn that runs; one that was stopped or takes longer than `settleTimeoutMs` is ended first.
   * Idempotent: later calls give the first one's promise.
   */
  release(): Promise<void> {
    this.#released ??= this.#close();
    return this.#released;
  }

  async #close(): Promise<void> {
    const { runtime, settleTimeoutMs, free } = this.#setting;
    const running = this.#running;
    try {
      if (running !== undefined)
        await untilOver(running.over, running.isStopped() ? 0 : settleTimeoutMs, (reason) =>
          running.left.abort(reason),
        );
      await runtime.dispose?.();
    } finally {
      free();
    }
  }

  #refuseReleased(): void {
    if (this.#released !== undefined) throw new RoundtableError('disposed', 'the session was released');
  }

  #refuseBusy(): void {
    if (this.#running !== undefined) throw new RoundtableError('busy', 'a turn is already running on this session');
  }

  #journal(services: TurnServices): ExecutionJournal {
    const { journal, sessionId, place } = this.#setting;
    if (journal !== undefined) return journal;
    return services.journal?.durable === true ? services.journal : openDefaultJournal(sessionId, place);
  }

  async #perform(
    turn: ParticipantTurn,
    options: ParticipantExecutionOptions,
    executionId: string,
    read: Read,
    start: Start,
  ): Promise<ParticipantOutcome> {
    this.#refuseReleased();
    this.#refuseBusy();
    this.#setting.name.take();
    const left = new AbortController();
    const ending = this.#run(turn, options, executionId, read, start, left.signal);
    const isStopped = (): boolean => options.signal.aborted;
    this.#running = { left, over: ending.catch(() => undefined), isStopped };
    let goesOn = this.#state.pending !== null;
    try {
      const outcome = await ending;
      goesOn = this.#state.pending !== null;
      return outcome;
    } catch (error) {
      goesOn ||= options.signal.aborted || left.signal.aborted || isOutcomeUnknown(error);
      throw error;
    } finally {
      this.#running = undefined;
      const executions = [executionId, turn.attemptId, ...(turn.earlierAttempts ?? [])];
      if (!goesOn) clearDefaultJournal(this.#setting.sessionId, executions, this.#setting.place);
      this.#setting.name.rest(this.#state.pending !== null);
    }
  }

  async #run(
    turn: ParticipantTurn,
    options: ParticipantExecutionOptions,
    executionId: string,
    read: Read,
    start: Start,
    left: AbortSignal,
  ): Promise<ParticipantOutcome> {
    const stop = new AbortController();
    const onAbort = (): void => stop.abort(options.signal.reason);
    options.signal.addEventListener('abort', onAbort, { once: true });
    if (options.signal.aborted) onAbort();
    left.addEventListener('abort', () => stop.abort(left.reason), { once: true });
    const deltas = new DeltaQueue(
      (text) => options.onDelta(text),
      (error) => stop.abort(error),
    );
    const journal = this.#journal(options.services);
    try {
      const context = new Context({
        history: this.#state.history,
        signal: stop.signal,
        sessionId: this.#setting.sessionId,
        executionId,
        turnId: turn.turnId,
        attemptId: turn.attemptId,
        journal: metered(journal, options.services),
        records: await unlessAborted(read(journal), stop.signal),
        earlier: await unlessAborted(this.#earlier(turn, executionId, journal), stop.signal),
        retried: turn.reconciled === 'retry',
        deltas,
      });
      const result = await this.#result(context, start, left);
      const before = this.#state;
      // From here on the run is over, and an abort takes nothing back.
      const outcome = this.#settle(executionId, context, result);
      if (!stop.signal.aborted) await unlessStopped(deltas.flush(), stop.signal);
      if (deltas.failure === undefined) return outcome;
      this.#state = before;
      throw deltas.failure.error;
    } finally {
      options.signal.removeEventListener('abort', onAbort);
      deltas.close();
    }
  }

  /** What attempts of this turn that were stopped wrote down in executions of their own. */
  async #earlier(
    turn: ParticipantTurn,
    executionId: string,
    journal: ExecutionJournal,
  ): Promise<readonly ExecutionRecord[]> {
    const earlier = (turn.earlierAttempts ?? []).filter((id) => id !== executionId);
    const read = async (id: string): Promise<readonly ExecutionRecord[]> => {
      try {
        return await readJournal(journal, this.#setting.sessionId, id);
      } catch (error) {
        if (!isInstance(error, ExecutionError) || error.code !== 'EXECUTION_RECOVERY_INVALID') throw error;
        // Tools may have run, and no other attempt may run them again before a host has looked.
        throw new ExecutionError('EXECUTION_RECOVERY_REQUIRED', error.message, { cause: error });
      }
    };
    return (await Promise.all(earlier.map(read))).flat();
  }

  /** What the run came to, unless it is stopped first or the journal failed; tools are waited for all the same. */
  async #result(context: Context, start: Start, left: AbortSignal): Promise<RuntimeResult> {
    const { signal } = context;
    const failure = (error: unknown): unknown => {
      if (!signal.aborted) return context.journalError ?? error;
      return context.journalError === undefined
        ? signal.reason
        : new AbortedWithFailure(signal.reason, context.journalError);
    };
    if (signal.aborted) throw signal.reason;
    let result: RuntimeResult | undefined;
    try {
      result = await unlessStopped(start(context), signal);
    } catch (error) {
      if (signal.aborted) await unlessLate(context.idle(), this.#setting.settleTimeoutMs, left);
      else await unlessStopped(context.end(), signal);
      throw failure(error);
    }
    if (signal.aborted) {
      // Some SDKs resolve with what they have when they are stopped.
      await unlessLate(context.idle(), this.#setting.settleTimeoutMs, left);
      throw failure(signal.reason);
    }
    await unlessStopped(context.end(), signal);
    const wrong = context.journalError ?? context.deltaError;
    if (wrong !== undefined) throw failure(wrong);
    return readResult(result);
  }

  #settle(executionId: string, context: Context, result: RuntimeResult): ParticipantOutcome {
    if ('interruptions' in result) {
      if (this.#setting.runtime.resume === undefined) throw unsupported();
      const asked = { executionId, callId: context.lastCallId, actions: result.interruptions };
      const text = currentEngine().engine.approvalRequests(JSON.stringify(asked));
      const requests = JSON.parse(text) as ApprovalRequest[];
      const pending = deepFreeze({ executionId, requests, state: result.state });
      this.#state = { ...this.#state, firstTurnDone: true, pending };
      for (const { data } of requests) enclosing(data);
      return { kind: 'wait', requests };
    }
    const { finalOutput, newItems } = result;
    const history = Object.freeze([...this.#state.history, ...newItems]);
    this.#state = { history, firstTurnDone: true, pending: null };
    const content = finalOutput?.trim() ?? '';
    return content === '' ? { kind: 'yield' } : { kind: 'speak', content };
  }
}

function unsupported(): RuntimeParticipantError {
  return new RuntimeParticipantError('unsupported-wait', 'the runtime was interrupted and has no resume');
}
