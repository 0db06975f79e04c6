/** From what a participant has not read yet to the text of its runtime's next input. */

import { currentEngine } from '../engine.js';
import type { ParticipantTurn } from '../types.js';

/**
 * Renders a turn's increment: the purpose on the first turn, then each message under its author (in a team,
 * its room and its author), every
 * line of content quoted, so that nothing a peer wrote can be read as a header.
 */
export function renderSharedIncrement(context: { turn: ParticipantTurn; firstTurn: boolean }): string {
  const { turn, firstTurn } = context;
  const { messages } = turn.context;
  const pairs = messages.flatMap((message) => [message.participantId, message.content]);
  const rooms = messages.some(({ roomId }) => roomId !== undefined) ? messages.map((m) => m.roomId ?? '') : undefined;
  return currentEngine().engine.renderIncrement(turn.purpose, pairs, firstTurn, rooms);
}
