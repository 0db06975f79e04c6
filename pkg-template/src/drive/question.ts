/** What a facilitator is asked after a round, and how its answer is read. */

import { commandText } from '../deliberation/input.js';
import type { Deliberation } from '../deliberation/types.js';
import { currentEngine } from '../engine.js';
import { SelectorDecisionError } from '../runtime/errors.js';
import type { ToolSchema } from '../runtime/types.js';
import type { JsonValue, SharedMessage } from '../types.js';
import { newest } from './seat.js';

export const TOOL = 'facilitate';

export type Action = 'go_on' | 'extend' | 'resolve' | 'close';

/** A decision in order: its action, and the fields that go with it. */
export interface Decision {
  readonly action: Action;
  readonly message?: string;
  readonly minutes?: number;
  readonly outcome?: string;
  readonly decision?: 'approved' | 'rejected' | 'deferred';
  readonly note?: string;
  readonly reason?: string;
}

/** Which command an action is, and which fields it has; those with a `?` may be left out. */
const ACTIONS: Record<Action, { kind: string; fields: readonly (keyof Decision)[]; says: string }> = {
  go_on: { kind: 'speak', fields: ['message'], says: 'go_on: let them discuss another round' },
  extend: {
    kind: 'extend',
    fields: ['minutes', 'message'],
    says: 'extend: move the deadline by so many minutes, once, and let them discuss another round',
  },
  resolve: {
    kind: 'resolve',
    fields: ['outcome', 'decision', 'note'],
    says: 'resolve: end the deliberation with its outcome',
  },
  close: { kind: 'close', fields: ['reason'], says: 'close: end it without an outcome' },
};

const FIELDS: Record<Exclude<keyof Decision, 'action'>, JsonValue> = {
  message: { type: 'string', description: 'what you say to everybody, 1 to 10000 characters; may be left out' },
  minutes: { type: 'integer', minimum: 1, maximum: 10080 },
  outcome: { type: 'string', description: 'what was agreed, 1 to 2000 characters' },
  decision: { enum: ['approved', 'rejected', 'deferred'] },
  note: { type: 'string', description: 'about the decision, 1 to 2000 characters; may be left out' },
  reason: { type: 'string', description: 'why there is no outcome: one line, 1 to 2000 characters' },
};

/** What a facilitator knows beside the session. */
export interface Standing {
  /** The actions that are open to it; at least one. */
  readonly offered: readonly Action[];
  readonly roundsLeft: number;
  /** Why its last decision could not be carried out. */
  readonly refused: string | undefined;
}

/** The prompt and the one tool. What members wrote stands in lines that begin with `> `, or in one line of JSON. */
export function question(session: Deliberation, standing: Standing): { prompt: string; tool: ToolSchema } {
  const { offered, roundsLeft, refused } = standing;
  const { topic, goal, facilitator, participants, positions = [], quorum, expiresAt, thread } = session;
  const said: SharedMessage[] = thread.map(({ id, from, message }) => {
    return { id, participantId: from, content: message, revision: 0, turnId: id, groupId: id };
  });
  const pairs = newest(said).flatMap(({ participantId, content }) => [participantId, content]);
  const discussion = currentEngine().engine.renderIncrement(`${topic}\n\n${goal}`, pairs, true);
  const facts = { facilitator, participants, positions, quorum, deadline: expiresAt, roundsLeft, refused };
  const prompt = [
    'You facilitate this deliberation. What its members said follows; every line that they wrote begins with "> ".',
    discussion,
    `How it stands, as JSON: ${oneLine(facts)}`,
    `Decide now, by one call of ${TOOL}:\n${offered.map((action) => `- ${ACTIONS[action].says}`).join('\n')}`,
  ].join('\n\n');
  return { prompt, tool: toolOf(offered) };
}

function toolOf(offered: readonly Action[]): ToolSchema {
  const fields = [...new Set(offered.flatMap((action) => ACTIONS[action].fields))];
  const properties: { [key: string]: JsonValue } = { action: { enum: [...offered] } };
  for (const field of fields) if (field !== 'action') properties[field] = FIELDS[field];
  const needs = offered.map((action) => `${action} takes ${ACTIONS[action].fields.join(', ')}`).join('; ');
  return {
    name: TOOL,
    description: `Decides how the deliberation goes on. ${needs}.`,
    parameters: { type: 'object', properties, required: ['action'] },
  };
}

/** @throws SelectorDecisionError `invalid-decision`, naming the field */
export function readDecision(
  caller: string,
  given: { [key: string]: JsonValue },
  offered: readonly Action[],
): Decision {
  const action = offered.find((one) => one === given['action']);
  if (action === undefined)
    throw new SelectorDecisionError('invalid-decision', `action must be one of ${offered.join(', ')}`);
  const { kind, fields } = ACTIONS[action];
  const has = (field: string): boolean => given[field] !== undefined && given[field] !== null;
  const present = fields.filter(has);
  if (action !== 'go_on')
    check(
      kind,
      caller,
      given,
      fields.filter((field) => field !== 'message' && has(field)),
    );
  if (present.includes('message')) check('speak', caller, given, ['message']);
  return { action, ...Object.fromEntries(present.map((field) => [field, given[field]])) };
}

/** By the rules of the command that it will be. */
function check(kind: string, caller: string, given: { [key: string]: JsonValue }, fields: readonly string[]): void {
  const command = commandText({ kind, caller }, given, fields);
  const { error } = JSON.parse(currentEngine().engine.checkDeliberationCommand(command)) as { error?: Refused };
  if (error === undefined) return;
  throw new SelectorDecisionError('invalid-decision', `${error.field ?? ''} ${error.message}`.trim());
}

interface Refused {
  readonly message: string;
  readonly field?: string;
}

/** JSON without the characters that some readers take for a line's end. */
function oneLine(value: unknown): string {
  const escaped = (found: string): string => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replace(/[\u0085\u2028\u2029]/g, escaped);
}
