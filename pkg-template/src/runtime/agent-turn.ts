/**
 * One turn of an agent: performs what the engine's loop asks for and tells it what came of it. The
 * loop decides; here are the host's functions, the turn's signal and its streamed text.
 */

import { messageOf } from '../conversation/thrown.js';
import type { AgentHandle } from '../generated/bindings.js';
import type { ParticipantExecutionOptions, ParticipantResponse, ParticipantTurn } from '../types.js';
import { BadValue, elements, enclosing, isInstance, jsonText, unboundedJsonText } from '../values.js';
import type { Agent } from './agent-options.js';
import { DeltaQueue } from './delta-queue.js';
import { RuntimeParticipantError, ToolSuspension } from './errors.js';
import type { History } from './history.js';
import { type MeteringServices, metered } from './metering.js';
import { askCache, callModel, type ModelRequest } from './model-call.js';
import { unlessLate, unlessStopped } from './stop.js';
import { failureOf } from './turn-failure.js';
import { codedRecords, isIntent, TurnRecords } from './turn-records.js';
import type { ExecutionJournal } from './types.js';
import { type LoopEffect, type LoopInput, type LoopRecord, type PermitCall, type ToolRun, tell } from './wire.js';

/** What a turn works with. */
export interface TurnSetting {
  readonly agent: Agent;
  readonly handle: AgentHandle;
  readonly history: History;
  readonly turn: Pick<ParticipantTurn, 'turnId' | 'attemptId' | 'earlierAttempts' | 'reconciled'>;
  /** What begins the turn: its rendered text, or the answers it waited for. */
  readonly from: { readonly input: string } | Continued;
  readonly options: TurnOptions;
  readonly sessionId: string;
  /** How long it waits, once it is stopped, for tools that must not run twice. */
  readonly settleTimeoutMs: number;
  /** Where the execution is written down. */
  readonly journal: ExecutionJournal;
  /** Keeps the handle alive until what it returns is called. */
  readonly use: () => () => void;
}

/** A turn that goes on, and the answers it waited for. */
interface Continued {
  readonly turn: ParticipantTurn;
  readonly responses: readonly ParticipantResponse[];
}

/** What accompanies a turn. */
type TurnOptions = Omit<ParticipantExecutionOptions, 'services'> & { services: MeteringServices };

/** Effects that end a turn well. */
type Outcome = Extract<LoopEffect, { kind: 'speak' | 'yield' | 'wait' | 'decide' | 'call' }>;

/** Effects that end in an input. */
type Work = Exclude<LoopEffect, Outcome | { kind: 'extend' | 'record' | 'fail' }>;

export class AgentTurn {
  readonly #setting: TurnSetting;
  readonly #records: TurnRecords;
  readonly #deltas: DeltaQueue;
  /** Fires for the provider and the tools, when the turn's signal does or the observer fails. */
  readonly #stop = new AbortController();
  #stoppedBy: 'aborted' | 'delta-failed' | undefined;
  /** Fires when nobody waits for tools any more. */
  readonly #left = new AbortController();
  /** Tools have come to something: that must reach the journal before the turn ends, also where it is stopped. */
  #hasResults = false;
  /** What the provider or the permission policy threw. */
  #hostError: unknown;
  /** The journal is the conversation's own: it settles, and takes nothing once the turn has returned. */
  readonly #patient: boolean;

  constructor(setting: TurnSetting) {
    this.#setting = setting;
    this.#patient = setting.journal === setting.options.services.journal;
    const { agent, sessionId, turn } = setting;
    const journal = metered(setting.journal, setting.options.services);
    this.#records = new TurnRecords(journal, { agent, sessionId, executionId: turn.attemptId });
    this.#deltas = new DeltaQueue(
      (text) => setting.options.onDelta(text),
      (error) => this.#halt('delta-failed', error),
    );
  }

  /**
   * Runs the turn. Once it is stopped it ends within a macrotask, whatever host code is still doing;
   * a model call that settles later is still journaled and reported. A session's turn waits as long as the host
   * allows for tools that must not run twice, so that their results are on record; what comes later is not.
   */
  async run(): Promise<Outcome> {
    const { signal } = this.#setting.options;
    const onAbort = (): void => this.#halt('aborted', signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      return await this.#perform();
    } finally {
      if (this.#patient) await this.#records.written;
      signal.removeEventListener('abort', onAbort);
      this.#deltas.close();
    }
  }

  get isStopped(): boolean {
    return this.#stoppedBy !== undefined;
  }

  /** Ends the turn though tools still run. */
  leave(reason: unknown): void {
    this.#left.abort();
    this.#halt('aborted', reason);
  }

  async #perform(): Promise<Outcome> {
    const { history } = this.#setting;
    let effects = await this.#begin();
    for (;;) {
      let next: LoopEffect[] = [];
      for (const effect of effects) {
        switch (effect.kind) {
          case 'extend':
            history.extend(effect.messages);
            break;
          case 'record':
            this.#write(effect.record);
            break;
          case 'speak':
          case 'yield':
          case 'decide':
          case 'call':
            history.settle();
            return effect;
          case 'wait':
            // What waits is rebuilt from its records.
            history.revert();
            for (const request of effect.requests) if (request.kind !== 'input') enclosing(request.data as object);
            return effect;
          case 'fail':
            if (effect.code !== 'busy') history.revert();
            // A record that is refused meanwhile belongs to what went wrong.
            await (this.#hasResults ? this.#inTime(this.#records.written) : this.#untilWritten(this.#records.written));
            throw this.#failure(effect);
          default:
            next = await this.#work(effect);
        }
      }
      effects = next;
    }
  }

  async #begin(): Promise<LoopEffect[]> {
    const { turn, from, handle } = this.#setting;
    const { turnId, attemptId } = turn;
    const retried = turn.reconciled === 'retry';
    if ('input' in from) {
      const stopped = await this.#stoppedExecution();
      if (stopped === undefined)
        return this.#tell({ kind: 'start', turnId, attemptId, input: from.input, at: Date.now() });
      return this.#tell({ kind: 'continue', turnId, attemptId, ...stopped, retried, at: Date.now() });
    }
    const pending = handle.pending();
    const recordsText = pending === undefined ? '[]' : codedRecords(await this.#readRecords(pending));
    if (pending !== undefined) this.#records.goOnWith(pending);
    const responsesText = answersText(from.responses);
    const { conversationId, participantId, groupId } = from.turn;
    const resumed = { conversationId, participantId, turnId, groupId, attemptId };
    return this.#tell({ kind: 'resume', ...resumed, recordsText, responsesText, retried, at: Date.now() });
  }

  /** The execution of an earlier attempt that began to run tools, and was stopped; a session has one at most. */
  async #stoppedExecution(): Promise<{ executionId: string; recordsText: string } | undefined> {
    const { agent, turn } = this.#setting;
    if (agent.gate === undefined) return undefined;
    for (const executionId of turn.earlierAttempts ?? []) {
      const records = await this.#readRecords(executionId);
      if (!records.some(isIntent)) continue;
      this.#records.goOnWith(executionId);
      return { executionId, recordsText: codedRecords(records) };
    }
    return undefined;
  }

  async #readRecords(executionId: string): Promise<readonly unknown[]> {
    const records = await this.#unlessStopped(this.#records.of(executionId));
    if (records === undefined) throw this.#stop.signal.reason;
    return records;
  }

  /** Performs one effect; a turn that is stopped meanwhile goes on to its end without it. */
  async #work(effect: Work): Promise<LoopEffect[]> {
    // Records that are on their way are waited for: what comes of them says what can no longer happen.
    if (this.#stoppedBy !== undefined && effect.kind !== 'sync') return this.#tell({ kind: this.#stoppedBy });
    if (effect.kind === 'run-tools') return this.#runTools(effect.runs);
    const settling = this.#settle(effect);
    const isWriting = effect.kind === 'append' || effect.kind === 'sync';
    const input = await (isWriting ? this.#untilWritten(settling) : this.#unlessStopped(settling));
    if (this.#stoppedBy === undefined && input !== undefined) return this.#tell(input);
    const end = this.#tell({ kind: this.#stoppedBy ?? 'aborted' });
    const done = this.#setting.use();
    const late = settling.then((last) => this.#settleLate(last)).catch(() => undefined);
    void late.then(done);
    if (input !== undefined) await this.#untilWritten(late);
    return end;
  }

  /** Tells the loop of a call whose turn is over, and journals what it says. */
  async #settleLate(input: LoopInput): Promise<void> {
    for (const effect of this.#tell(input)) {
      if (effect.kind === 'append') await this.#records.append(effect.callId, effect.record);
      if (effect.kind === 'record') this.#records.write(effect.record);
    }
    await this.#records.written;
  }

  async #runTools(runs: readonly ToolRun[]): Promise<LoopEffect[]> {
    const effects: LoopEffect[] = [];
    let isOver = false;
    const run = async (what: ToolRun, over: () => void): Promise<void> => {
      const input = await this.#runTool(what);
      // By now another attempt may have run it again.
      if (isOver) return;
      const told = this.#tell(input);
      // The last result goes out together with what follows it.
      isOver = told.some(({ kind }) => kind !== 'record');
      for (const effect of told) {
        if (effect.kind === 'record' && !isOver) this.#write(effect.record);
        else effects.push(effect);
      }
      if (isOver) over();
    };
    const done = this.#setting.use();
    const over = new Promise<true>((resolve, reject) => {
      const all = Promise.all(runs.map((what) => run(what, () => resolve(true))));
      void all.then(() => resolve(true), reject).finally(done);
    });
    await this.#unlessStopped(over);
    if (this.#stoppedBy === undefined || isOver) return effects;
    let end = this.#tell({ kind: this.#stoppedBy });
    if (end.length === 0) {
      // The last result that is needed brings the end.
      if ((await this.#inTime(over)) === true) return effects;
      end = this.#tell({ kind: this.#stoppedBy });
    }
    isOver = true;
    return end;
  }

  #write(record: LoopRecord): void {
    if (record.kind === 'tool-result') this.#hasResults = true;
    this.#records.write(record);
  }

  /** The value, or nothing where a turn that was stopped waits no longer. */
  #inTime<T>(work: Promise<T>): Promise<T | undefined> {
    return unlessLate(work, this.#setting.settleTimeoutMs, this.#left.signal);
  }

  /** What an effect came to; never rejects. */
  async #settle(effect: Exclude<Work, { kind: 'run-tools' }>): Promise<LoopInput> {
    switch (effect.kind) {
      case 'append':
        await this.#records.append(effect.callId, effect.record);
        return this.#appended(effect.callId);
      case 'sync':
        await this.#records.written;
        return this.#appended(effect.callId);
      case 'permit':
        return this.#permit(effect.callId, effect.calls);
      case 'ask-cache':
        return this.#askCache(effect.callId, effect.offerTools);
      case 'call-model':
        return this.#callModel(effect.callId, effect.offerTools);
      case 'flush':
        // A failing sink has stopped the turn by the time this resolves.
        return this.#deltas.flush().then(() => ({ kind: 'flushed' }));
    }
  }

  #appended(callId: string): LoopInput {
    if (this.#records.error !== undefined) return { kind: 'append-refused', callId };
    return { kind: 'appended', callId, at: Date.now() };
  }

  async #permit(callId: string, calls: readonly PermitCall[]): Promise<LoopInput> {
    const { gate } = this.#setting.agent;
    try {
      const verdicts = await Promise.all(calls.map((call) => gate?.(call) ?? 'deny'));
      return { kind: 'permitted', callId, verdicts, at: Date.now() };
    } catch (error) {
      this.#hostError = error;
      return { kind: 'permission-failed', callId };
    }
  }

  async #askCache(callId: string, offerTools: boolean): Promise<LoopInput> {
    try {
      const replyText = await askCache(this.#setting.agent.provider, this.#request(callId, offerTools));
      return { kind: 'cache-answered', callId, replyText };
    } catch (error) {
      this.#hostError = error;
      return { kind: 'cache-failed', callId };
    }
  }

  async #callModel(callId: string, offerTools: boolean): Promise<LoopInput> {
    try {
      const replyText = await callModel(this.#setting.agent.provider, this.#request(callId, offerTools));
      return { kind: 'model-replied', callId, replyText };
    } catch (error) {
      this.#hostError = error;
      return { kind: 'model-failed', callId, message: messageOf(error) };
    }
  }

  #request(callId: string, offerTools: boolean): ModelRequest {
    const { agent, history } = this.#setting;
    const signal = this.#stop.signal;
    const tools = offerTools && agent.toolSchemas.length > 0 ? { tools: agent.toolSchemas } : {};
    return {
      messages: history.view(),
      options: { model: agent.model, signal, callId, ...agent.callOptions, ...tools },
      signal,
      deltas: this.#deltas,
    };
  }

  async #runTool(run: ToolRun): Promise<LoopInput> {
    const { callId, index, toolCallId, idempotencyKey } = run;
    const tool = this.#setting.agent.tools[run.tool];
    try {
      const context = { signal: this.#stop.signal, toolCallId, idempotencyKey };
      const result: unknown = await tool?.execute(run.arguments, context);
      return { kind: 'tool-returned', callId, index, at: Date.now(), resultText: jsonText(result, 'result') };
    } catch (error) {
      const at = Date.now();
      if (isInstance(error, ToolSuspension)) return { kind: 'tool-suspended', callId, index, at };
      const kind = isInstance(error, BadValue) ? 'tool-result-invalid' : 'tool-failed';
      return { kind, callId, index, at, message: messageOf(error) };
    }
  }

  #tell(input: LoopInput): LoopEffect[] {
    return tell(this.#setting.handle, input);
  }

  #halt(by: 'aborted' | 'delta-failed', reason: unknown): void {
    if (this.#stoppedBy !== undefined) return;
    this.#stoppedBy = by;
    this.#stop.abort(reason);
  }

  /** Waits for the conversation's own journal; for another only while the turn is not stopped. */
  #untilWritten<T>(work: Promise<T>): Promise<T | undefined> {
    return this.#patient ? work : this.#unlessStopped(work);
  }

  /** The value, or nothing where the turn is stopped and a macrotask later the value is still not there. */
  #unlessStopped<T>(work: Promise<T>): Promise<T | undefined> {
    return unlessStopped(work, this.#stop.signal);
  }

  #failure(effect: LoopEffect & { kind: 'fail' }): unknown {
    return failureOf(effect, {
      abortReason: this.#stop.signal.reason,
      journal: this.#records.error,
      sink: this.#deltas.failure?.error,
      host: this.#hostError,
    });
  }
}

/** Answers as the engine reads them. @throws `identity-mismatch` */
function answersText(responses: readonly ParticipantResponse[]): string {
  try {
    return unboundedJsonText(elements(responses, 'responses', Infinity), 'responses', 4);
  } catch (error) {
    throw isInstance(error, BadValue) ? new RuntimeParticipantError('identity-mismatch', error.message) : error;
  }
}
