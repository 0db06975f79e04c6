/** An agent behind a permission gate, whose waits for approval outlive its session. */

import type {
  AgentParticipant,
  ParticipantExecutionOptions,
  ParticipantLease,
  ParticipantOutcome,
  ParticipantResponse,
  ParticipantTurn,
  TurnServices,
} from '../types.js';
import { BadValue, describe } from '../values.js';
import { changeTeller, type AgentContext, objectsOf, participant, type RuntimeParticipantOptions } from './agent.js';
import { named } from './agent-options.js';
import { AgentSession, openAgentSession, type OpenedSession } from './agent-session.js';
import { clearDefaultJournal, forgetDefaultJournal, openDefaultJournal } from './default-journal.js';
import { claim, SessionName } from './leases.js';
import { renderSharedIncrement } from './render.js';
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
  const { render = renderSharedIncrement } = options;
  return participant(options, {
    supportsContinuation: true,
    checkpointVersions: ['session/1'],
    async openSession({ conversationId, participantId, checkpoint, forkedFrom }): Promise<ParticipantLease> {
      const context = { conversationId, participantId, restoring: checkpoint !== undefined };
      const made = await options.createSessionOptions(context);
      const name = new SessionName(JSON.stringify([conversationId, participantId]));
      const free = claim(await objectsOf(made), name);
      const identity = { conversationId, participantId, forked: forkedFrom !== undefined };
      const onChange = changeTeller(options, conversationId, participantId);
      return openAgentSession(
        { options: made, checkpoint, identity, render, free, onChange },
        (opened) => new GatedSession(opened, name, hostJournal(options, opened.sessionId)),
      );
    },
  });
}

function hostJournal(options: SessionParticipantOptions, sessionId: string): ExecutionJournal | undefined {
  if (options.journal === undefined) return undefined;
  const journal: ExecutionJournal = options.journal(sessionId);
  return named(() => {
    if (typeof journal?.append === 'function') return journal;
    throw new BadValue('journal', `must return an execution journal, not ${describe(journal)}`);
  });
}

class GatedSession extends AgentSession {
  readonly #name: SessionName;
  readonly #journal: ExecutionJournal | undefined;
  /** An execution waits for answers. */
  #parked: boolean;

  constructor(opened: OpenedSession, name: SessionName, journal: ExecutionJournal | undefined) {
    super(opened);
    this.#name = name;
    this.#journal = journal;
    this.#parked = opened.handle.pending() !== undefined;
    // What a wait that was never saved left behind.
    if (!this.#parked) clearDefaultJournal(opened.sessionId);
  }

  override async runTurn(turn: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome> {
    return this.#cleared(super.runTurn(turn, options));
  }

  async resumeTurn(
    turn: ParticipantTurn,
    responses: readonly ParticipantResponse[],
    options: ParticipantExecutionOptions,
  ): Promise<ParticipantOutcome> {
    this.#name.take();
    return this.#cleared(this.perform(turn, { turn, responses }, options, this.journalOf(options.services)));
  }

  protected override journalOf(services: TurnServices): ExecutionJournal {
    if (this.#journal !== undefined) return this.#journal;
    return services.journal?.durable === true ? services.journal : openDefaultJournal(this.opened.sessionId);
  }

  protected override forget(): void {
    if (!this.#parked) forgetDefaultJournal(this.opened.sessionId);
  }

  /** A turn that is over with nothing parked leaves no records; one that is parked may be taken over. */
  async #cleared(running: Promise<ParticipantOutcome>): Promise<ParticipantOutcome> {
    try {
      const outcome = await running;
      this.#parked = outcome.kind === 'wait';
      return outcome;
    } finally {
      if (this.#parked) this.#name.giveUp();
      else clearDefaultJournal(this.opened.sessionId);
    }
  }
}
