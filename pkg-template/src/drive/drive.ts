/**
 * Drives a session: one turn of the agents' conversation after the other, and between two turns what was
 * said on either side is told on the other. Everything follows from the two records, so a call that starts
 * anew goes on where the last one stopped.
 */

import { DeliberationError } from '../deliberation/errors.js';
import type { Deliberation, Deliberations } from '../deliberation/types.js';
import type { CompletedTurn, ConversationRequest, RunResult, Selection, SharedMessage } from '../types.js';
import { type Discussion, openDiscussion } from './discussion.js';
import { decisionOf, Facilitator } from './facilitator.js';
import { readSettings, type Settings } from './options.js';
import type { Action, Decision, Standing } from './question.js';
import type { DriveEnd, DriveOptions, DriveResult } from './types.js';

const MAX_THREAD = 200;
/** The longest time that timers take. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export async function drive(deliberations: Deliberations, id: string, options: DriveOptions): Promise<DriveResult> {
  return new Drive(deliberations, id, readSettings(id, options)).run();
}

class Drive {
  readonly #deliberations: Deliberations;
  readonly #id: string;
  readonly #settings: Settings;
  readonly #facilitator: Facilitator | undefined;
  /** The entries that messages of the conversation became. */
  readonly #own = new Set<string>();
  #session!: Deliberation;
  #discussion!: Discussion;
  /** Turns before this one are those of earlier rounds. */
  #roundStart = 0;
  /** How many messages there were before the first turn of this round. */
  #messagesBefore: number | undefined;
  #rounds = 0;
  /** The thread refused an entry of an agent, and the session was open. */
  #isFull = false;
  #isExtended = false;
  /** Why the facilitator's last decision could not be carried out. */
  #refused: string | undefined;
  /** The conversation stands between two turns, as far as this call has seen. */
  #isBetween = false;
  #isFinishing = false;

  constructor(deliberations: Deliberations, id: string, settings: Settings) {
    this.#deliberations = deliberations;
    this.#id = id;
    this.#settings = settings;
    const { facilitator } = settings;
    if (facilitator !== undefined) this.#facilitator = new Facilitator(facilitator, () => this.#ask());
  }

  async run(): Promise<DriveResult> {
    const refusal = await this.#read();
    if (refusal !== undefined) throw refusal;
    const next = (turns: readonly CompletedTurn[]): Selection => this.#next(turns);
    this.#discussion = await openDiscussion(this.#settings, this.#session, this.#facilitator, next);
    const { table } = this.#discussion;
    try {
      const turns = this.#turns();
      const decided = this.#facilitator === undefined ? turns.length : lastDecision(turns, this.#facilitator.id) + 1;
      this.#roundStart = decided;
      const end = await this.#drive();
      const { usage } = table.snapshot();
      const { conversationId } = this.#settings;
      return { ...end, conversationId, session: this.#session, rounds: this.#rounds, usage };
    } finally {
      await table.dispose();
      await this.#facilitator?.release();
    }
  }

  async #drive(): Promise<DriveEnd> {
    for (let isNew = true; ; ) {
      await this.#tell();
      if ((await this.#read()) !== undefined) return { status: 'left' };
      if (this.#session.status !== 'open') return this.#finish(this.#session.status);
      await this.#discussion.hear(this.#session.thread, this.#own, this.#isBetween);
      if (this.#settings.signal?.aborted === true) return { status: 'cancelled' };
      if (this.#isRoundOver()) {
        const end = await this.#endRound();
        if (end !== undefined) return end;
        isNew = true;
      } else if (isNew) {
        isNew = false;
        // Somebody may speak meanwhile, or close the session.
        await this.#settings.beforeRound?.({ number: this.#rounds + 1, session: this.#session });
      } else {
        this.#messagesBefore ??= this.#messages();
        const end = await this.#turn();
        if (end !== undefined) return end;
      }
    }
  }

  /** Asks the facilitator, where that is an agent of this call; gives how the call ends, if it does. */
  async #endRound(): Promise<DriveEnd | undefined> {
    const isLast = this.#isLast();
    const before = this.#turns();
    const isQuiet = this.#messages() === (this.#messagesBefore ?? 0);
    const isFacilitating = this.#isFacilitating();
    if (isFacilitating && this.#offered().length > 0) {
      const end = await this.#turn();
      if (end !== undefined) return end;
      const fault = this.#facilitator?.takeFault();
      if (fault !== undefined) return { status: 'failed', code: fault.code, message: fault.message };
      await this.#tell();
      await this.#read();
      // Nothing may have been decided: the session was closed, or the time was over.
      const id = this.#facilitator?.id ?? '';
      if (this.#session.status !== 'open' || lastDecision(this.#turns(), id) < before.length) return undefined;
    }
    this.#rounds += 1;
    this.#roundStart = this.#turns().length;
    this.#messagesBefore = undefined;
    if (isLast) return { status: this.#hasRoom() ? (this.#active().length === 0 ? 'left' : 'rounds') : 'full' };
    return isQuiet && !isFacilitating ? { status: 'quiet' } : undefined;
  }

  /** One turn of whoever is next; gives how the call ends, if it does. */
  async #turn(): Promise<DriveEnd | undefined> {
    const { signal, limits } = this.#settings;
    const { expiresAt } = this.#session;
    const timeoutMs = Math.min(Math.max(Date.parse(expiresAt) - this.#now() + 1, 1), MAX_TIMEOUT_MS);
    this.#isBetween = false;
    const result = await this.#discussion.table.run({
      limits: { ...limits, maxTurnsPerRun: 1, timeoutMs },
      ...(signal === undefined ? {} : { signal }),
    });
    const end = await this.#endOf(result, expiresAt);
    if (end === undefined) return undefined;
    // What was published counts, whatever ends the call.
    await this.#tell();
    await this.#read();
    return end;
  }

  async #endOf(result: RunResult, deadline: string): Promise<DriveEnd | undefined> {
    switch (result.status) {
      case 'limited': {
        const { reason } = result;
        this.#isBetween = reason === 'turns';
        if (this.#isBetween) return undefined;
        await this.#read();
        const isMoved = this.#session.status !== 'open' || this.#session.expiresAt !== deadline;
        return reason === 'time' && isMoved ? undefined : { status: 'limited', reason };
      }
      case 'waiting':
        return (await this.#answered(result.requests)) ? undefined : { status: 'waiting', requests: result.requests };
      case 'cancelled':
        return { status: 'cancelled' };
      case 'completed':
        return { status: 'failed', message: 'the conversation has ended, and the session has not' };
      case 'failed': {
        const { message, code } = result;
        return { status: 'failed', ...(code === undefined ? {} : { code }), message };
      }
    }
  }

  /** Whether the host answered all of it. */
  async #answered(requests: readonly ConversationRequest[]): Promise<boolean> {
    const { table } = this.#discussion;
    for (const request of requests) {
      const response = await this.#settings.answer?.(request);
      if (response === undefined) return false;
      const { id } = request;
      const { revision } = table.snapshot();
      const by = 'driveDeliberation';
      await table.resume({ requestId: id, responseId: `${id}/answer`, expectedRevision: revision, response, by });
    }
    return true;
  }

  /** Ends the conversation with its session, where that takes no turn. */
  async #finish(status: 'resolved' | 'expired'): Promise<DriveEnd> {
    if (this.#isBetween) {
      this.#isFinishing = true;
      // What it ends in is told already; a record that stays open harms nobody.
      await this.#discussion.table.run({ limits: { maxTurnsPerRun: 1 } }).catch(() => undefined);
    }
    return { status };
  }

  /** Makes entries of what agents said, and does what the facilitator decided. */
  async #tell(): Promise<void> {
    for (let next = this.#discussion.untold(); next !== undefined; next = this.#discussion.untold()) {
      const { message } = next;
      if (message.participantId === this.#facilitator?.id) await this.#carryOut(message);
      else await this.#speak(message, message.content);
      next.done();
    }
  }

  /** Repeated as often as need be: the session knows the key. */
  async #speak({ id, participantId }: SharedMessage, message: string): Promise<void> {
    const idempotencyKey = `${this.#settings.conversationId}/${id}`;
    try {
      const entry = await this.#deliberations.speak(participantId, this.#id, { message, idempotencyKey });
      this.#own.add(entry.threadEntryId);
    } catch (error) {
      await this.#refusal(error);
      // One that does not take part any more says nothing.
      if (this.#session.status === 'open' && codeOf(error) === 'conflict') this.#isFull = true;
    }
  }

  async #carryOut(message: SharedMessage): Promise<void> {
    const decision = decisionOf(message);
    if (decision.action === 'extend') this.#isExtended = true;
    if (decision.message !== undefined) await this.#speak(message, decision.message);
    // An earlier one was carried out before the turn after it.
    if (this.#turns().at(-1)?.id !== message.turnId) return;
    this.#refused = undefined;
    try {
      await this.#act(message.participantId, decision);
    } catch (error) {
      await this.#refusal(error);
      if (this.#session.status === 'open') this.#refused = (error as Error).message;
    }
  }

  async #act(caller: string, { action, message: _message, minutes = 0, ...decided }: Decision): Promise<void> {
    const { outcome = '', decision = 'deferred', note, reason = '' } = decided;
    const noted = note === undefined ? {} : { note };
    if (action === 'resolve') await this.#deliberations.resolve(caller, this.#id, { outcome, decision, ...noted });
    else if (action === 'extend') await this.#deliberations.extend(caller, this.#id, { minutes });
    else if (action === 'close') await this.#deliberations.close(caller, this.#id, { reason });
  }

  /** Reads the session anew where it refused something by its rules; anything else is an error of the call. */
  async #refusal(error: unknown): Promise<void> {
    if (!['conflict', 'forbidden', 'invalid'].includes(String(codeOf(error)))) throw error;
    await this.#read();
  }

  /** Reads the session as one of those that are spoken for; gives the error where it lets none of them. */
  async #read(): Promise<unknown> {
    const { agents, facilitator } = this.#settings;
    let refusal: unknown;
    for (const { id } of facilitator === undefined ? agents : [facilitator, ...agents]) {
      try {
        this.#session = await this.#deliberations.get(id, this.#id);
        return undefined;
      } catch (error) {
        if (codeOf(error) !== 'forbidden') throw error;
        refusal = error;
      }
    }
    return refusal;
  }

  /** What the facilitator is asked, by its own turn. */
  async #ask(): Promise<{ session: Deliberation; standing: Standing } | undefined> {
    // A turn that was stopped when it was done is published by the run that asks.
    await this.#tell();
    await this.#read();
    if (this.#session.status !== 'open' || !this.#isFacilitating()) return undefined;
    const offered = this.#offered();
    if (offered.length === 0) return undefined;
    const roundsLeft = this.#isLast() ? 0 : this.#settings.maxRounds - this.#rounds - 1;
    return { session: this.#session, standing: { offered, roundsLeft, refused: this.#refused } };
  }

  #offered(): Action[] {
    const { participants, positions = [], quorum = 0 } = this.#session;
    const may = this.#settings.facilitator?.may ?? [];
    const offered: Action[] = this.#isLast() ? [] : ['go_on'];
    if (!this.#isLast() && may.includes('extend') && !this.#isExtended) offered.push('extend');
    if (positions.length >= Math.min(quorum, participants.length)) offered.push('resolve');
    if (may.includes('close')) offered.push('close');
    return offered;
  }

  /** Whose turn it is: of the agents without one in this round, the one whose last was longest ago. */
  #next(turns: readonly CompletedTurn[]): Selection {
    if (this.#isFinishing) return { kind: 'finish', reason: this.#session.status };
    if (this.#isRoundOver(turns) && this.#isFacilitating()) return speak(this.#facilitator?.id);
    const had = new Set(turns.slice(this.#roundStart).map(({ participantId }) => participantId));
    const active = this.#active();
    const waiting = active.filter((id) => !had.has(id));
    const order = turns.map(({ participantId }) => participantId);
    const last = (id: string): number => order.lastIndexOf(id);
    const [next] = [...(waiting.length > 0 ? waiting : active)].sort((one, other) => last(one) - last(other));
    return speak(next ?? this.#settings.agents[0]?.id);
  }

  #isRoundOver(turns = this.#turns()): boolean {
    const had = new Set(turns.slice(this.#roundStart).map(({ participantId }) => participantId));
    return !this.#hasRoom() || this.#active().every((id) => had.has(id));
  }

  /** Whether no round can follow this one. */
  #isLast(): boolean {
    return !this.#hasRoom() || this.#active().length === 0 || this.#rounds + 1 >= this.#settings.maxRounds;
  }

  #hasRoom(): boolean {
    return !this.#isFull && this.#session.thread.length < MAX_THREAD;
  }

  #isFacilitating(): boolean {
    return this.#facilitator?.id === this.#session.facilitator;
  }

  #active(): string[] {
    return this.#settings.agents.map(({ id }) => id).filter((id) => this.#session.participants.includes(id));
  }

  #messages(): number {
    return this.#discussion.table.snapshot().messages.length;
  }

  #turns(): readonly CompletedTurn[] {
    return this.#discussion.table.snapshot().turns;
  }

  #now(): number {
    const { clock } = this.#settings;
    return clock === undefined ? Date.now() : clock.now();
  }
}

/** Where the last turn is that came to a decision; -1 for none. A yield of the facilitator decided nothing. */
function lastDecision(turns: readonly CompletedTurn[], facilitator: string): number {
  return turns.map((turn) => turn.participantId === facilitator && turn.outcome === 'speak').lastIndexOf(true);
}

function speak(participantId: string | undefined): Selection {
  return { kind: 'speak', participantId: participantId ?? '' };
}

function codeOf(error: unknown): unknown {
  return error instanceof DeliberationError ? error.code : undefined;
}
