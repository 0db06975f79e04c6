/** The built-in selector. */

import type { Selection, SelectionContext, TurnSelector } from './types.js';

/** Recognises the built-in selector of another copy of this package in the same process. */
const BRAND = Symbol.for('agent-roundtable/roundRobin');

/** The reference under which journals name it. */
const REFERENCE = Object.freeze({ id: 'roundtable/round-robin', version: '1' });

/**
 * Goes round the participants in declared order for ever, external ones included; never finishes and
 * calls no model. Given as a conversation's selector it runs inside the engine; wrapped by a selector
 * of the host's, `select` names the participant after the one whose turn was last.
 */
export function roundRobin(): TurnSelector {
  const selector: TurnSelector = { reference: REFERENCE, modelCalls: 'none', select: next };
  Object.defineProperty(selector, BRAND, { value: true });
  return selector;
}

/** Whether a selector is the built-in one, as {@link roundRobin} made it. */
export function isRoundRobin(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, BRAND);
}

function next({ participants, turns }: SelectionContext): Selection {
  const last = turns.at(-1)?.participantId;
  const at = participants.findIndex((participant) => participant.id === last) + 1;
  const participantId = participants[at % participants.length]?.id ?? '';
  return { kind: 'speak', participantId };
}
