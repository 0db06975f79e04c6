/** An agent behind a permission gate, whose waits for approval outlive its session. */

import { placeOfContext } from '../conversation/place.js';
import type {
  AgentParticipant,
  ParticipantExecutionOptions,
  ParticipantLease,
  ParticipantOutcome,
  ParticipantResponse,
  ParticipantTurn,
  TurnServices,
} from '../types.js';
import {
  changeTeller,
  type AgentContext,
  hostJournal,
  objectsOf,
  participant,
  type RuntimeParticipantOptions,
} from './agent.js';
import { checkCallbacks } from './agent-options.js';
import { AgentSession, openAgentSession, type OpenedSession } from './agent-session.js';
import { adoptExecution, clearDefaultJournal, openDefaultJournal } from './default-journal.js';
import { isOutcomeUnknown, isUnsupportedWait } from './errors.js';
import { claim, SessionName, sessionIdOf } from './leases.js';
import { renderSharedIncrement } from './render.js';
import { settleTimeoutOf } from './stop.js';
import type { ExecutionJournal, SessionOptions } from './types.js';

/** What {@link sessionParticipant} takes. */
export interface SessionParticipantOptions extends RuntimeParticipantOptions {
  /** Called once for each session. The options object, its provider and its tools belong to that session. */
  createSessionOptions(context: AgentContext): SessionOptions | Promise<SessionOptions>;
  /**
   * Where the session's executions are written down. Default: the conversation's own journal where that is
   * durable, else one in memory, for the life of the process.
   */
  journal?(sessionId: string): ExecutionJournal;
}

/**
 * A participant that answers with a model's words and asks before its tools act. A call that must be
 * approved makes the turn wait, with one request of kind `approval` for each; the answers continue the same
 * turn, and each approval covers that one call. Every effect is written down before it is made, so that a
 * turn can be continued after a restart and no effect is made twice.
 */
export function sessionParticipant(options: SessionParticipantOptions): AgentParticipant {
  checkCallbacks(options, 'createSessionOptions', ['journal', 'render', 'onEvent']);
  const { render = renderSharedIncrement } = options;
  const settleTimeoutMs = settleTimeoutOf(options);
  return participant(options, {
    supportsContinuation: true,
    checkpointVersions: ['session/1'],
    async openSession(opening): Promise<ParticipantLease> {
      const { conversationId, participantId, checkpoint, forkedFrom } = opening;
      const place = placeOfContext(opening);
      const context = { conversationId, participantId, restoring: checkpoint !== undefined };
      const made = await options.createSessionOptions(context);
      const name = new SessionName(sessionIdOf(conversationId, participantId), place);
      const free = claim(await objectsOf(made), name);
      const placed = place !== '';
      const identity = { conversationId, participantId, forked: forkedFrom !== undefined, placed };
      const onChange = changeTeller(options, conversationId, participantId);
      return openAgentSession(
        { options: made, checkpoint, isStored: placed, identity, render, settleTimeoutMs, name, free, onChange },
        (opened) => new GatedSession(opened, name, place, hostJournal(options, opened.sessionId)),
      );
    },
  });
}

class GatedSession extends AgentSession {
  readonly #name: SessionName;
  readonly #place: string;
  readonly #journal: ExecutionJournal | undefined;
  /** An execution waits for answers. */
  #parked: boolean;

  constructor(opened: OpenedSession, name: SessionName, place: string, journal: ExecutionJournal | undefined) {
    super(opened);
    this.#name = name;
    this.#place = place;
    this.#journal = journal;
    this.#parked = opened.handle.pending() !== undefined;
  }

  override async runTurn(turn: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome> {
    this.refuseReleased();
    this.refuseBusy();
    this.#name.take();
    const { handle } = this.opened;
    // In a conversation another turn begins only when the one that waited is over: a host has settled it.
    if (this.#parked && this.#place !== '' && !turn.earlierAttempts?.includes(handle.pending() ?? '')) {
      handle.giveUpWait();
      this.#parked = false;
    }
    // A seed that is used again gives the same attempt ids again; what waits is left alone, whoever is refused.
    if (!this.#parked) clearDefaultJournal(this.opened.sessionId, [turn.attemptId], this.#place);
    return this.#cleared(turn, options, () => super.runTurn(turn, options));
  }

  async resumeTurn(
    turn: ParticipantTurn,
    responses: readonly ParticipantResponse[],
    options: ParticipantExecutionOptions,
  ): Promise<ParticipantOutcome> {
    this.refuseReleased();
    this.refuseBusy();
    this.#name.take();
    const { handle, sessionId } = this.opened;
    const pending = handle.pending();
    if (pending !== undefined) adoptExecution(sessionId, this.#place, pending);
    const journal = this.journalOf(options.services);
    return this.#cleared(turn, options, () => this.perform(turn, { turn, responses }, options, journal));
  }

  protected override journalOf(services: TurnServices): ExecutionJournal {
    if (this.#journal !== undefined) return this.#journal;
    if (services.journal?.durable === true) return services.journal;
    return openDefaultJournal(this.opened.sessionId, this.#place);
  }

  /**
   * In a conversation nothing else of the session can go on, so attempts that the host has settled by itself leave
   * nothing either. Without one, sessions of other conversations may have the same name.
   */
  #clear(executions: readonly string[]): void {
    clearDefaultJournal(this.opened.sessionId, this.#place === '' ? executions : undefined, this.#place);
  }

  /**
   * A turn that is over leaves no records; one that is parked may be taken over, one that was stopped, or ended by the
   * session's release, goes on.
   */
  async #cleared(
    turn: ParticipantTurn,
    { signal }: ParticipantExecutionOptions,
    run: () => Promise<ParticipantOutcome>,
  ): Promise<ParticipantOutcome> {
    const { handle } = this.opened;
    const executions = [turn.attemptId, ...(turn.earlierAttempts ?? []), handle.pending() ?? turn.attemptId];
    let goesOn = false;
    try {
      const outcome = await run();
      this.#parked = outcome.kind === 'wait';
      goesOn = this.#parked;
      return outcome;
    } catch (error) {
      // What can never be answered is given up, with what waited before it.
      if (isUnsupportedWait(error)) this.#parked = handle.pending() !== undefined;
      goesOn = this.#parked || signal.aborted || this.isReleased || isOutcomeUnknown(error);
      throw error;
    } finally {
      if (!goesOn) this.#clear(executions);
      this.#name.rest(this.#parked);
    }
  }
}
