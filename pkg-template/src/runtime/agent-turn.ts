/**
 * One turn of an agent: performs what the engine's loop asks for and tells it what came of it. The
 * loop decides; here are the host's functions, the turn's signal and its streamed text.
 */

import { messageOf } from '../conversation/thrown.js';
import { RoundtableError } from '../errors.js';
import type { AgentHandle } from '../generated/bindings.js';
import type { ParticipantExecutionOptions, ParticipantOutcome, ParticipantTurn } from '../types.js';
import { BadValue, jsonText } from '../values.js';
import type { Agent } from './agent-options.js';
import { DeltaQueue } from './delta-queue.js';
import { AbortedWithFailure, ExecutionError, RuntimeParticipantError, ToolSuspension } from './errors.js';
import { type History, messageFrom } from './history.js';
import { meterJournal } from './metering.js';
import { askCache, callModel, type ModelRequest } from './model-call.js';
import type { ExecutionJournal, ExecutionRecord } from './types.js';
import { type LoopEffect, type LoopInput, type LoopRecord, type ToolRun, tell } from './wire.js';

/** What a turn works with. */
export interface TurnSetting {
  readonly agent: Agent;
  readonly handle: AgentHandle;
  readonly history: History;
  readonly turn: ParticipantTurn;
  readonly input: string;
  readonly options: ParticipantExecutionOptions;
  readonly sessionId: string;
  /** Keeps the handle alive until what it returns is called. */
  readonly use: () => () => void;
}

/** Effects that end in an input. */
type Work = Exclude<LoopEffect, { kind: 'extend' | 'speak' | 'yield' | 'fail' }>;

export class AgentTurn {
  readonly #setting: TurnSetting;
  readonly #journal: ExecutionJournal;
  readonly #deltas: DeltaQueue;
  /** Fires for the provider and the tools, when the turn's signal does or the observer fails. */
  readonly #stop = new AbortController();
  #stoppedBy: 'aborted' | 'delta-failed' | undefined;
  #journalError: ExecutionError | undefined;
  #providerError: unknown;

  constructor(setting: TurnSetting) {
    this.#setting = setting;
    this.#journal = meterJournal({ append: async () => undefined }, setting.options.services);
    this.#deltas = new DeltaQueue(
      (text) => setting.options.onDelta(text),
      (error) => this.#halt('delta-failed', error),
    );
  }

  /**
   * Runs the turn. Once it is stopped it ends within a macrotask, whatever host code is still doing;
   * a model call that settles later is still journaled and reported.
   */
  async run(): Promise<ParticipantOutcome> {
    const { signal } = this.#setting.options;
    const onAbort = (): void => this.#halt('aborted', signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      return await this.#perform();
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#deltas.close();
    }
  }

  async #perform(): Promise<ParticipantOutcome> {
    const { turn, input, history } = this.#setting;
    const { turnId, attemptId } = turn;
    let effects = this.#tell({ kind: 'start', turnId, attemptId, input, at: Date.now() });
    for (;;) {
      let next: LoopEffect[] = [];
      for (const effect of effects) {
        switch (effect.kind) {
          case 'extend':
            history.extend(effect.messages);
            break;
          case 'speak':
            history.settle();
            return { kind: 'speak', content: effect.content };
          case 'yield':
            history.settle();
            return { kind: 'yield' };
          case 'fail':
            if (effect.code !== 'busy') history.revert();
            throw this.#failure(effect);
          default:
            next = await this.#work(effect);
        }
      }
      effects = next;
    }
  }

  /** Performs one effect; a turn that is stopped meanwhile goes on to its end without it. */
  async #work(effect: Work): Promise<LoopEffect[]> {
    if (this.#stoppedBy !== undefined) return this.#tell({ kind: this.#stoppedBy });
    if (effect.kind === 'run-tools') return this.#runTools(effect.runs);
    const settling = this.#settle(effect);
    const input = await this.#unlessStopped(settling);
    if (this.#stoppedBy === undefined && input !== undefined) return this.#tell(input);
    const end = this.#tell({ kind: this.#stoppedBy ?? 'aborted' });
    const done = this.#setting.use();
    const late = settling.then((last) => this.#settleLate(last)).catch(() => undefined);
    void late.then(done);
    if (input !== undefined) await this.#unlessStopped(late);
    return end;
  }

  /** Tells the loop of a call whose turn is over, and journals what it says. */
  async #settleLate(input: LoopInput): Promise<void> {
    for (const effect of this.#tell(input))
      if (effect.kind === 'append') await this.#append(effect.callId, effect.record);
  }

  async #runTools(runs: readonly ToolRun[]): Promise<LoopEffect[]> {
    let effects: LoopEffect[] = [];
    const running = runs.map(async (run) => {
      const input = await this.#runTool(run);
      if (this.#stoppedBy === undefined) effects = [...effects, ...this.#tell(input)];
    });
    const settled = Promise.all(running).then(() => true);
    await this.#unlessStopped(settled);
    return this.#stoppedBy === undefined ? effects : this.#tell({ kind: this.#stoppedBy });
  }

  /** What an effect came to; never rejects. */
  async #settle(effect: Exclude<Work, { kind: 'run-tools' }>): Promise<LoopInput> {
    switch (effect.kind) {
      case 'append':
        return this.#append(effect.callId, effect.record);
      case 'ask-cache':
        return this.#askCache(effect.callId, effect.offerTools);
      case 'call-model':
        return this.#callModel(effect.callId, effect.offerTools);
      case 'flush':
        // A failing sink has stopped the turn by the time this resolves.
        return this.#deltas.flush().then(() => ({ kind: 'flushed' }));
    }
  }

  async #append(callId: string, record: LoopRecord): Promise<LoopInput> {
    try {
      await this.#journal.append(this.#record(callId, record));
      return { kind: 'appended', callId, at: Date.now() };
    } catch (error) {
      const message = `the execution journal refused a record: ${messageOf(error)}`;
      this.#journalError = new ExecutionError('EXECUTION_JOURNAL_FAILED', message, { cause: error });
      return { kind: 'append-refused', callId };
    }
  }

  #record(callId: string, record: LoopRecord): ExecutionRecord {
    const { agent, turn, sessionId } = this.#setting;
    const base = { id: record.id, executionId: turn.attemptId, sessionId, callId };
    const identity = { providerId: agent.providerName, modelId: agent.model };
    switch (record.kind) {
      case 'model-request':
        return { ...base, kind: record.kind, ...identity };
      case 'model-response':
        return { ...base, kind: record.kind, response: messageFrom(record.response) };
      case 'model-cache-hit':
        return { ...base, kind: record.kind, ...identity, response: messageFrom(record.response) };
      case 'model-failure': {
        const { kind, message, cancelled } = record;
        return cancelled ? { ...base, kind, message, cancelled } : { ...base, kind, message };
      }
    }
  }

  async #askCache(callId: string, offerTools: boolean): Promise<LoopInput> {
    try {
      const replyText = await askCache(this.#setting.agent.provider, this.#request(callId, offerTools));
      return { kind: 'cache-answered', callId, replyText };
    } catch (error) {
      this.#providerError = error;
      return { kind: 'cache-failed', callId };
    }
  }

  async #callModel(callId: string, offerTools: boolean): Promise<LoopInput> {
    try {
      const replyText = await callModel(this.#setting.agent.provider, this.#request(callId, offerTools));
      return { kind: 'model-replied', callId, replyText };
    } catch (error) {
      this.#providerError = error;
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
      if (error instanceof ToolSuspension) return { kind: 'tool-suspended', callId, index, at };
      const kind = error instanceof BadValue ? 'tool-result-invalid' : 'tool-failed';
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

  /** The value, or nothing where the turn is stopped and a macrotask later the value is still not there. */
  #unlessStopped<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const { signal } = this.#stop;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const onStop = (): void => {
        timer = setTimeout(() => resolve(undefined), 0);
      };
      const done = (): void => {
        signal.removeEventListener('abort', onStop);
        clearTimeout(timer);
      };
      if (signal.aborted) onStop();
      else signal.addEventListener('abort', onStop, { once: true });
      work.then(resolve, reject).finally(done);
    });
  }

  #failure(effect: LoopEffect & { kind: 'fail' }): unknown {
    switch (effect.code) {
      case 'aborted': {
        const reason: unknown = this.#setting.options.signal.reason;
        return this.#journalError === undefined ? reason : new AbortedWithFailure(reason, this.#journalError);
      }
      case 'delta-failed':
        return this.#deltas.failure?.error;
      case 'journal-failed':
        return this.#journalError;
      case 'model-failed':
        return this.#providerError;
      case 'invalid-reply':
        return new ExecutionError('EXECUTION_REPLY_INVALID', effect.message);
      case 'invalid-input':
        return new ExecutionError('EXECUTION_INPUT_INVALID', effect.message);
      case 'round-limit':
        return new ExecutionError('EXECUTION_ROUND_LIMIT', effect.message);
      case 'unsupported-wait':
        return new RuntimeParticipantError('unsupported-wait', effect.message);
      case 'busy':
        return new RoundtableError('busy', effect.message);
    }
  }
}
