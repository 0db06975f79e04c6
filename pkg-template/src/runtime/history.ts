/** The messages a model is shown: frozen, in order, those of an unfinished turn taken back when it fails. */

import { deepFreeze } from '../values.js';
import type { ChatMessage } from './types.js';

export class History {
  readonly #messages: ChatMessage[];
  #settled: number;

  /** @param restored coded messages, as the engine gives them */
  constructor(systemMessage: string | undefined, restored: readonly unknown[]) {
    this.#messages = restored.map(messageFrom);
    if (systemMessage !== undefined) {
      this.#messages.unshift(
        deepFreeze<ChatMessage>({
          id: 'system',
          role: 'system',
          content: systemMessage,
          timestamp: new Date(),
          state: 'complete',
        }),
      );
    }
    this.#settled = this.#messages.length;
  }

  /** Adds coded messages of the turn that is running. */
  extend(coded: readonly unknown[]): void {
    this.#messages.push(...coded.map(messageFrom));
  }

  /** What a model is shown now; later messages do not join this list. */
  view(): readonly ChatMessage[] {
    return Object.freeze(this.#messages.slice());
  }

  /** Makes the turn's messages part of the history for good. */
  settle(): void {
    this.#settled = this.#messages.length;
  }

  /** Takes the turn's messages back. */
  revert(): void {
    this.#messages.length = this.#settled;
  }
}

/** A message in the form the engine codes it in, with its dates made real and everything frozen. */
export function messageFrom(coded: unknown): ChatMessage {
  return deepFreeze(revive(coded)) as ChatMessage;
}

/** Undoes the engine's coding of dates, and of data that looks like it, in a value made by `JSON.parse`. */
function revive(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = revive(value[index]);
    return value;
  }
  const members = value as Record<string, unknown>;
  if (Object.keys(members).length === 1) {
    const { $date, $escaped } = members as { $date?: string; $escaped?: Record<string, unknown> };
    if ($date !== undefined) return new Date($date);
    if ($escaped !== undefined) return reviveMembers($escaped);
  }
  return reviveMembers(members);
}

function reviveMembers(members: Record<string, unknown>): unknown {
  for (const key of Object.keys(members)) {
    const value = revive(members[key]);
    // Assigning to `__proto__` would set the prototype of an object that has it as a plain member.
    if (value !== members[key]) Object.defineProperty(members, key, { value, enumerable: true });
  }
  return members;
}
