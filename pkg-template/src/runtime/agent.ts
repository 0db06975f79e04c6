/** An agent as a participant: a provider, a model and tools, run by the engine's own loop. */

import { placeOfContext } from '../conversation/place.js';
import type { AgentParticipant, ParticipantFactory, ParticipantLease, RuntimeReference } from '../types.js';
import { checkCallbacks, leasedObjects } from './agent-options.js';
import { AgentSession, type ConstructionChange, disposeQuietly, openAgentSession } from './agent-session.js';
import { claim } from './leases.js';
import { checkJournal } from './metering.js';
import { type Render, renderSharedIncrement } from './render.js';
import { settleTimeoutOf } from './stop.js';
import type { AgentOptions, ExecutionJournal } from './types.js';

/** For whom an agent is made. */
export interface AgentContext {
  conversationId: string;
  participantId: string;
  /** Whether it takes over the private history of a checkpoint. */
  restoring: boolean;
}

/** What {@link agentParticipant} takes. */
export interface AgentParticipantOptions extends RuntimeParticipantOptions {
  /** Called once for each session. The options object, its provider and its tools belong to that session. */
  createAgent(context: AgentContext): AgentOptions | Promise<AgentOptions>;
}

/** What participants of this package's runtimes have in common. */
export interface RuntimeParticipantOptions {
  id: string;
  description?: string;
  runtime: RuntimeReference;
  /**
   * How long, in milliseconds, a turn that was stopped waits for tools that must not run twice, so that what they came
   * to is on record, and a release for the turn that runs. A tool that takes longer leaves its turn to the host, by
   * `reconcile`. Default 2000; at most 2147483647. Without its tools a turn ends at once.
   */
  settleTimeoutMs?: number;
  /** Makes the text of a turn's input; default {@link renderSharedIncrement}. */
  render?: Render;
  /** Told when a session is restored under another system message or other tools than wrote its checkpoint. */
  onEvent?(event: {
    type: 'construction-changed';
    conversationId: string;
    participantId: string;
    changed: readonly ConstructionChange[];
  }): void;
}

/**
 * A participant that answers with a model's words. Its private history and its tools' traces stay its
 * own; only the last reply of a turn, trimmed, is published. It supports no waits: a tool that suspends
 * fails the turn.
 */
export function agentParticipant(options: AgentParticipantOptions): AgentParticipant {
  checkCallbacks(options, 'createAgent', ['render', 'onEvent']);
  const { render = renderSharedIncrement } = options;
  const settleTimeoutMs = settleTimeoutOf(options);
  return participant(options, {
    checkpointVersions: ['agent/1'],
    async openSession(opening): Promise<ParticipantLease> {
      const { conversationId, participantId, checkpoint } = opening;
      const made = await options.createAgent({ conversationId, participantId, restoring: checkpoint !== undefined });
      const free = claim(await objectsOf(made));
      const onChange = changeTeller(options, conversationId, participantId);
      const isStored = placeOfContext(opening) !== '';
      const setting = { options: made, checkpoint, isStored, render, settleTimeoutMs, free, onChange };
      return openAgentSession(setting, (opened) => new AgentSession(opened));
    },
  });
}

/** A participant whose model calls are metered. */
export function participant(options: RuntimeParticipantOptions, factory: ParticipantFactory): AgentParticipant {
  const { id, description, runtime } = options;
  const described = description === undefined ? {} : { description };
  return { kind: 'agent', id, ...described, runtime, factory: { modelCalls: 'metered', ...factory } };
}

/** The journal that a host gives for a session, where it gives any. @throws `invalid-config` for what is none */
export function hostJournal(
  options: { journal?(sessionId: string): ExecutionJournal },
  sessionId: string,
): ExecutionJournal | undefined {
  if (options.journal === undefined) return undefined;
  const journal: ExecutionJournal = options.journal(sessionId);
  checkJournal(journal);
  return journal;
}

/** Tells the host's observer of construction changes, which changes nothing itself. */
export function changeTeller(
  options: RuntimeParticipantOptions,
  conversationId: string,
  participantId: string,
): (changed: readonly ConstructionChange[]) => void {
  return (changed) => {
    try {
      options.onEvent?.({ type: 'construction-changed', conversationId, participantId, changed });
    } catch {
      // An observer changes nothing.
    }
  };
}

/** What a session over these options holds; options that are none are disposed of. */
export async function objectsOf(options: AgentOptions): Promise<readonly object[]> {
  try {
    return leasedObjects(options);
  } catch (error) {
    await disposeQuietly(options);
    throw error;
  }
}
