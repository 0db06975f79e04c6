/** A participant that does what a test wrote down. */

import type {
  AgentParticipant,
  JsonValue,
  ParticipantCheckpoint,
  ParticipantExecutionOptions,
  ParticipantFactory,
  ParticipantOutcome,
  ParticipantResponse,
  ParticipantTurn,
} from '../types.js';

/** What a step sees. */
export interface ScriptMoment extends ParticipantExecutionOptions {
  readonly turn: ParticipantTurn;
  /** Absent for a new turn, present for one that continues after its wait. */
  readonly responses: readonly ParticipantResponse[] | undefined;
}

/** One turn, or one continuation of it: words, an outcome, an error to throw, or code that gives one of them. */
export type ScriptStep =
  | string
  | ParticipantOutcome
  | Error
  | ((moment: ScriptMoment) => string | ParticipantOutcome | Promise<string | ParticipantOutcome>);

/** What {@link scriptedParticipant} takes beside its steps. */
export interface ParticipantScript {
  id: string;
  description?: string;
  /** In order, for all sessions together; when they are used up the participant yields. */
  steps: readonly ScriptStep[];
  /** Streamed before the words of a step that is a string: the words in pieces of so many UTF-16 units. */
  deltas?: number;
  /** With it sessions make checkpoints of this version, counting their turns, and can continue after a wait. */
  checkpointVersion?: string;
  modelCalls?: ParticipantFactory['modelCalls'];
  /** Told what happens, in order. */
  onCall?(call: { kind: 'open' | 'run' | 'resume' | 'checkpoint' | 'release'; checkpoint?: JsonValue }): void;
}

/** An agent participant whose turns are written down beforehand. */
export function scriptedParticipant(script: ParticipantScript): AgentParticipant {
  const { id, description, checkpointVersion, modelCalls } = script;
  const steps = [...script.steps];
  const factory: ParticipantFactory = {
    ...(modelCalls === undefined ? {} : { modelCalls }),
    ...(checkpointVersion === undefined ? {} : { supportsContinuation: true, checkpointVersions: [checkpointVersion] }),
    async openSession({ checkpoint }) {
      script.onCall?.({ kind: 'open', ...(checkpoint === undefined ? {} : { checkpoint: checkpoint.data }) });
      let turns = typeof checkpoint?.data === 'number' ? checkpoint.data : 0;
      const runTurn = async (turn: ParticipantTurn, options: ParticipantExecutionOptions) => {
        script.onCall?.({ kind: 'run' });
        turns += 1;
        return take({ ...options, turn, responses: undefined });
      };
      const release = async (): Promise<void> => script.onCall?.({ kind: 'release' });
      if (checkpointVersion === undefined) return { session: { runTurn }, release };
      const session = {
        runTurn,
        async resumeTurn(
          turn: ParticipantTurn,
          responses: readonly ParticipantResponse[],
          options: ParticipantExecutionOptions,
        ) {
          script.onCall?.({ kind: 'resume' });
          return take({ ...options, turn, responses });
        },
        async checkpoint(): Promise<ParticipantCheckpoint> {
          script.onCall?.({ kind: 'checkpoint' });
          return { version: checkpointVersion, data: turns };
        },
      };
      return { session, release };
    },
  };
  const take = async (moment: ScriptMoment): Promise<ParticipantOutcome> => {
    const step = steps.shift() ?? { kind: 'yield' };
    if (step instanceof Error) throw step;
    const result = typeof step === 'function' ? await step(moment) : step;
    if (typeof result !== 'string') return result;
    if (script.deltas !== undefined) {
      for (let at = 0; at < result.length; at += script.deltas) {
        await moment.onDelta(result.slice(at, at + script.deltas));
      }
    }
    return { kind: 'speak', content: result };
  };
  const runtime = { id: 'agent-roundtable/scripted', version: '1' };
  return { kind: 'agent', id, ...(description === undefined ? {} : { description }), runtime, factory };
}
