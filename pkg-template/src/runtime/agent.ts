/** An agent as a participant: a provider, a model and tools, run by the engine's own loop. */

import type { AgentParticipant, ParticipantLease, RuntimeReference } from '../types.js';
import { leasedObjects } from './agent-options.js';
import { type ConstructionChange, disposeQuietly, openAgentSession, type Render } from './agent-session.js';
import { claim } from './leases.js';
import { renderSharedIncrement } from './render.js';
import type { AgentOptions } from './types.js';

/** For whom an agent is made. */
export interface AgentContext {
  conversationId: string;
  participantId: string;
  /** Whether it takes over the private history of a checkpoint. */
  restoring: boolean;
}

/** What {@link agentParticipant} takes. */
export interface AgentParticipantOptions {
  id: string;
  description?: string;
  runtime: RuntimeReference;
  /** Called once for each session. The options object, its provider and its tools belong to that session. */
  createAgent(context: AgentContext): AgentOptions | Promise<AgentOptions>;
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
  const { id, description, runtime, render = renderSharedIncrement } = options;
  return {
    kind: 'agent',
    id,
    ...(description === undefined ? {} : { description }),
    runtime,
    factory: {
      checkpointVersions: ['agent/1'],
      modelCalls: 'metered',
      async openSession({ conversationId, participantId, checkpoint }): Promise<ParticipantLease> {
        const made = await options.createAgent({ conversationId, participantId, restoring: checkpoint !== undefined });
        const free = claim(await objectsOf(made));
        return openAgentSession({
          options: made,
          checkpoint,
          sessionId: JSON.stringify([conversationId, participantId]),
          render,
          free,
          onChange: (changed) => {
            try {
              options.onEvent?.({ type: 'construction-changed', conversationId, participantId, changed });
            } catch {
              // An observer changes nothing.
            }
          },
        });
      },
    },
  };
}

/** What a session over these options holds; options that are none are disposed of. */
async function objectsOf(options: AgentOptions): Promise<readonly object[]> {
  try {
    return leasedObjects(options);
  } catch (error) {
    await disposeQuietly(options);
    throw error;
  }
}
