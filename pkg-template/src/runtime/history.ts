/** The messages a model is shown: frozen, in order, those of an unfinished turn taken back when it fails. */

import { deepFreeze, revive } from '../values.js';
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
