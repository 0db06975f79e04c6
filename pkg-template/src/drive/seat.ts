/** An agent's seat: its factory, with what it hears and says made to fit a session's thread. */

import type {
  AgentParticipant,
  ParticipantFactory,
  ParticipantLease,
  ParticipantOutcome,
  ParticipantSession,
  ParticipantTurn,
  SharedMessage,
} from '../types.js';
import { MAX_CONTENT } from '../values.js';

/** The most Unicode scalar values of a thread entry. */
const MAX_MESSAGE = 10_000;
/** Ends an entry that was cut. */
export const CUT = '\n(cut: this was longer)';
/**
 * Says what an agent is not shown, and brings what was said under a driven agent's id by somebody else. No
 * member has this id: theirs have no space around them.
 */
export const ASIDE = ' aside';

/** From a message of the conversation to what agents are shown of it; `undefined` for nothing. */
export type Shown = (message: SharedMessage) => SharedMessage | undefined;

/** Opens each agent's own sessions under one runtime reference. */
export function seated(agents: readonly AgentParticipant[], shown: Shown): ParticipantFactory {
  const [first] = agents;
  const { supportsContinuation, checkpointVersions, modelCalls } = first?.factory ?? {};
  return {
    ...(supportsContinuation === undefined ? {} : { supportsContinuation }),
    ...(checkpointVersions === undefined ? {} : { checkpointVersions }),
    ...(modelCalls === undefined ? {} : { modelCalls }),
    async openSession(context): Promise<ParticipantLease> {
      const agent = agents.find(({ id }) => id === context.participantId);
      if (agent === undefined) throw new Error(`there is no agent ${JSON.stringify(context.participantId)}`);
      const lease = await agent.factory.openSession(context);
      return { session: wrapped(lease.session, shown), release: () => lease.release() };
    },
  };
}

function wrapped(session: ParticipantSession, shown: Shown): ParticipantSession {
  const heard = (turn: ParticipantTurn): ParticipantTurn => {
    const messages = newest(turn.context.messages.map(shown).filter((message) => message !== undefined));
    return { ...turn, context: { ...turn.context, messages } };
  };
  const made: ParticipantSession = {
    runTurn: async (turn, options) => fitting(await session.runTurn(heard(turn), options)),
  };
  const { resumeTurn, checkpoint } = session;
  if (resumeTurn !== undefined)
    made.resumeTurn = async (turn, ...rest) => fitting(await resumeTurn.call(session, heard(turn), ...rest));
  if (checkpoint !== undefined) made.checkpoint = () => checkpoint.call(session);
  return made;
}

/** Those that a turn's input has room for, the latest ones. A session's whole thread may be longer. */
export function newest(messages: readonly SharedMessage[]): readonly SharedMessage[] {
  let room = MAX_CONTENT;
  let from = messages.length;
  for (const message of [...messages].reverse()) {
    room -= message.content.length;
    if (room < 0) break;
    from -= 1;
  }
  const [first] = messages;
  if (from === 0 || first === undefined) return messages;
  const note = {
    ...first,
    id: `${first.id}/before`,
    participantId: ASIDE,
    content: `${from} earlier messages are left out.`,
  };
  return [note, ...messages.slice(from)];
}

/** Words that an entry cannot be are cut to its length, blank ones are none: conversation and thread say the same. */
function fitting(outcome: ParticipantOutcome): ParticipantOutcome {
  if (outcome.kind !== 'speak' || typeof outcome.content !== 'string') return outcome;
  if (outcome.content.trim() === '') return { kind: 'yield' };
  if (outcome.content.length <= MAX_MESSAGE) return outcome;
  const characters = [...outcome.content];
  if (characters.length <= MAX_MESSAGE) return outcome;
  return { kind: 'speak', content: characters.slice(0, MAX_MESSAGE - CUT.length).join('') + CUT };
}
