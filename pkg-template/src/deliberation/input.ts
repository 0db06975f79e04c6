/** What callers hand in, as text for the engine: it checks everything and names what is wrong. */

import { BadValue, isWellFormed, jsonText, toWellFormed } from '../values.js';

/** Text beyond this is too long for every field; what is cut off makes no difference. */
const LONGEST = 100_000;
/** Fields that hold ids, in which a lone surrogate is refused and never replaced. */
const IDS: readonly string[] = ['caller', 'to', 'participants', 'idempotencyKey'];

/**
 * The JSON of a command: of `fields`, those that `input` has. What JSON has no place for is null, which no
 * field takes. Other members of the input, such as a sender, are not looked at.
 */
export function commandText(fixed: Record<string, unknown>, input: unknown, fields: readonly string[]): string {
  const parts = Object.entries(fixed).map(([name, value]) => member(name, value));
  for (const name of fields) {
    const value = fieldOf(input, name);
    if (value !== undefined) parts.push(member(name, value));
  }
  return `{${parts.join(',')}}`;
}

function member(name: string, value: unknown): string {
  return `${JSON.stringify(name)}:${fieldText(value, IDS.includes(name))}`;
}

function fieldText(value: unknown, isId: boolean): string {
  if (typeof value === 'string') {
    if (isId && !isWellFormed(value)) return 'null';
    return JSON.stringify(toWellFormed(value.slice(0, LONGEST)));
  }
  try {
    if (isId && Array.isArray(value)) return `[${Array.from(value, (one) => fieldText(one, isId)).join(',')}]`;
    return jsonText(value, 'input');
  } catch (error) {
    if (error instanceof BadValue) return 'null';
    throw error;
  }
}

function fieldOf(input: unknown, name: string): unknown {
  if (typeof input !== 'object' || input === null) return undefined;
  const property = Object.getOwnPropertyDescriptor(input, name);
  return property !== undefined && 'value' in property ? property.value : undefined;
}
