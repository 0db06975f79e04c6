/**
 * The agent that facilitates, as a participant of the conversation: what it says there is its decision, as JSON.
 * So a decision is durable before it is carried out, and its model calls are in the ledger.
 */

import type { Deliberation } from '../deliberation/types.js';
import { RoundtableError } from '../errors.js';
import { DecidingAgent, type Question } from '../runtime/deciding-agent.js';
import { SelectorDecisionError } from '../runtime/errors.js';
import type {
  AgentParticipant,
  ParticipantExecutionOptions,
  ParticipantFactory,
  ParticipantLease,
  ParticipantOutcome,
  ParticipantSession,
  ParticipantTurn,
  SharedMessage,
} from '../types.js';
import type { Settings } from './options.js';
import { type Decision, question, readDecision, type Standing, TOOL } from './question.js';

const REFERENCE = Object.freeze({ id: 'agent-roundtable/facilitator', version: '1' });
const CHECKPOINT = 'facilitator/1';

/** The session as it is now, and how it stands; `undefined` where nothing is to be decided any more. */
export type Ask = () => Promise<{ session: Deliberation; standing: Standing } | undefined>;

export class Facilitator {
  readonly id: string;
  /** Why the last reply was no decision, until it is asked for. */
  #fault: SelectorDecisionError | undefined;
  readonly #agent: DecidingAgent;
  readonly #reference;
  readonly #ask: Ask;

  constructor({ id, runtime, createAgent }: NonNullable<Settings['facilitator']>, ask: Ask) {
    this.id = id;
    this.#agent = new DecidingAgent('the facilitator', createAgent);
    this.#reference = runtime ?? REFERENCE;
    this.#ask = ask;
  }

  participant(): AgentParticipant {
    const session: ParticipantSession = {
      runTurn: (turn, options) => this.#decide(turn, options),
      checkpoint: async () => ({ version: CHECKPOINT, data: null }),
    };
    const openSession = async (): Promise<ParticipantLease> => ({ session, release: async () => undefined });
    const factory: ParticipantFactory = { modelCalls: 'metered', checkpointVersions: [CHECKPOINT], openSession };
    return { kind: 'agent', id: this.id, runtime: this.#reference, factory };
  }

  async #decide({ attemptId }: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome> {
    const asked = await this.#ask();
    if (asked === undefined) return { kind: 'yield' };
    const { session, standing } = asked;
    const ask = (): Question => ({ ...question(session, standing), rules: { call: TOOL } });
    try {
      const end = await this.#agent.decide(ask, { signal: options.signal, services: options.services, attemptId });
      // A question with these rules ends in no other way.
      if (end.kind !== 'call') throw new RoundtableError('internal', `a decision ended as ${end.kind}`);
      return { kind: 'speak', content: JSON.stringify(readDecision(this.id, end.arguments, standing.offered)) };
    } catch (error) {
      if (!(error instanceof SelectorDecisionError)) throw error;
      // The conversation is not over for it: the next call asks again.
      this.#fault = error;
      return { kind: 'yield' };
    }
  }

  takeFault(): SelectorDecisionError | undefined {
    const fault = this.#fault;
    this.#fault = undefined;
    return fault;
  }

  release(): Promise<void> {
    return this.#agent.release();
  }
}

/** The decision that a message of the facilitator is. */
export function decisionOf({ content }: SharedMessage): Decision {
  return JSON.parse(content) as Decision;
}
