/** Attempts under way: their signals, their streamed text, and what they may ask of the conversation. */

import { RoundtableError } from '../errors.js';
import type { ParticipantExecutionOptions, TurnServices } from '../types.js';
import { BadValue, describe, toWellFormed } from '../values.js';

/** Why an attempt is signalled. */
export type StopReason = 'cancelled' | 'time' | 'model-calls' | 'group-failed' | 'interrupted';

/** Tells observers of streamed text; calls back when they have it. */
export type TellDelta = (attempt: Attempt, text: string, done: () => void) => void;

/** Whose turn an attempt is. */
export interface AttemptTurn {
  readonly groupId: string;
  readonly turnId: string;
  readonly participantId: string;
}

/** One attempt of a member or the selector. */
export class Attempt {
  readonly id: string;
  turn: AttemptTurn | undefined;
  /** How many deltas were told. */
  deltas = 0;
  /** The first half of a surrogate pair whose second half may come with the next delta. */
  #half = '';
  #streaming = true;
  #controller: AbortController | undefined;
  #aborted = false;
  #reason: unknown;
  /** What to call when the signal fires. */
  readonly #waiting: (() => void)[] = [];

  constructor(id: string) {
    this.id = id;
  }

  /** Made when somebody looks at it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The signal's reason, once it fired. */
  get stopped(): { readonly reason: unknown } | undefined {
    return this.#aborted ? { reason: this.#reason } : undefined;
  }

  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    for (const release of this.#waiting.splice(0)) release();
    this.#controller?.abort(reason);
  }

  /** What the attempt is given beside its turn. */
  options(tell: TellDelta, services: TurnServices): ParticipantExecutionOptions {
    const attempt = this;
    return {
      get signal() {
        return attempt.signal;
      },
      onDelta: (text) => attempt.#delta(text, tell),
      services,
    };
  }

  /** No text is taken after this; a half that is left over becomes U+FFFD. */
  endStream(tell: TellDelta): void {
    if (!this.#streaming) return;
    this.#streaming = false;
    if (this.#half !== '') tell(this, '\uFFFD', () => {});
  }

  #delta(text: unknown, tell: TellDelta): Promise<void> {
    if (typeof text !== 'string') {
      const problem = new BadValue('onDelta: text', `must be a string, not ${describe(text)}`);
      return Promise.reject(new RoundtableError('invalid-config', problem.message));
    }
    const whole = this.#half + text;
    const cut = isHighSurrogate(whole.charCodeAt(whole.length - 1)) ? whole.length - 1 : whole.length;
    if (!this.#streaming || (cut === 0 && whole === '')) return Promise.resolve();
    this.#half = whole.slice(cut);
    const told = toWellFormed(whole.slice(0, cut));
    if (told === '') return Promise.resolve();
    return new Promise((resolve) => {
      if (this.#aborted) resolve();
      else this.#waiting.push(resolve);
      tell(this, told, () => {
        const at = this.#waiting.indexOf(resolve);
        if (at >= 0) this.#waiting.splice(at, 1);
        resolve();
      });
    });
  }
}

/** The attempts of one conversation. */
export class Attempts {
  readonly #open = new Map<string, Attempt>();

  /** The attempt with this id; an abort may be heard of before the attempt itself. */
  get(id: string): Attempt {
    let attempt = this.#open.get(id);
    if (attempt === undefined) {
      attempt = new Attempt(id);
      this.#open.set(id, attempt);
    }
    return attempt;
  }

  close(id: string): Attempt | undefined {
    const attempt = this.#open.get(id);
    this.#open.delete(id);
    return attempt;
  }
}

/** What a signal's reason is. */
export function abortReason(reason: StopReason, cancelled: unknown): unknown {
  switch (reason) {
    case 'cancelled':
      return cancelled ?? new DOMException('the conversation was disposed', 'AbortError');
    case 'time':
      return new DOMException('the run reached its time limit', 'TimeoutError');
    case 'model-calls':
      return new DOMException('a model call was refused', 'AbortError');
    case 'group-failed':
      return new DOMException('another member of the group failed', 'AbortError');
    case 'interrupted':
      return new DOMException('the conversation could not be stored', 'AbortError');
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
