/** From what a participant has not read yet to the text of its runtime's next input. */

import { currentEngine } from '../engine.js';
import type { ParticipantTurn } from '../types.js';
import { BadValue, describe, toWellFormed } from '../values.js';
import { named } from './agent-options.js';
import { ExecutionError } from './errors.js';

/** Makes the text of a turn's input. */
export type Render = typeof renderSharedIncrement;

/**
 * Renders a turn's increment: the purpose on the first turn, then each message under its author (in a team,
 * its room and its author), every line of content quoted, so that nothing a peer wrote can be read as a header.
 * @throws `invalid-config` for a turn that is none
 */
export function renderSharedIncrement(context: { turn: ParticipantTurn; firstTurn: boolean }): string {
  const { turn, firstTurn } = context;
  named(() => checkTurn(turn));
  const { messages } = turn.context;
  const pairs = messages.flatMap((message) => [message.participantId, message.content]);
  const rooms = messages.some(({ roomId }) => roomId !== undefined) ? messages.map((m) => m.roomId ?? '') : undefined;
  return currentEngine().engine.renderIncrement(turn.purpose, pairs, firstTurn, rooms);
}

/**
 * A turn's input by a host's `render`; halves of surrogate pairs that it cut apart become U+FFFD.
 * @throws `EXECUTION_INPUT_INVALID` where it gives no text
 */
export function renderInput(render: Render, turn: ParticipantTurn, firstTurn: boolean): string {
  const input: unknown = render({ turn, firstTurn });
  if (typeof input === 'string') return toWellFormed(input);
  throw new ExecutionError('EXECUTION_INPUT_INVALID', `render must return a string, not ${describe(input)}`);
}

// The engine's own binding takes the types for granted.
function checkTurn({ purpose, context }: ParticipantTurn): void {
  string(purpose ?? '', 'turn.purpose');
  for (const [index, { participantId, content, roomId }] of context.messages.entries()) {
    string(participantId, `turn.context.messages[${index}].participantId`);
    string(content, `turn.context.messages[${index}].content`);
    string(roomId ?? '', `turn.context.messages[${index}].roomId`);
  }
}

function string(value: unknown, path: string): void {
  if (typeof value !== 'string') throw new BadValue(path, `must be a string, not ${describe(value)}`);
}
