/** What host code threw, as the engine is told, and the values themselves, which stay on this side. */

import { RoundtableError, type RoundtableErrorCode } from '../errors.js';
import type { UnsettledTurn } from '../types.js';
import { MAX_ID, MAX_TEXT, toWellFormed } from '../values.js';

/** How far a chain of causes is followed. */
const MAX_CAUSES = 32;
/** How many thrown values are kept until the engine names one as a cause; the oldest go first. */
const MAX_KEPT = 1024;

/** The codes by which a store says that nothing was written. */
const REFUSALS: readonly unknown[] = ['conflict', 'busy', 'stale-claim', 'not-found'];

/** An error as the engine gives it back: `cause` is the number of a kept value. */
export interface EngineError {
  code: RoundtableErrorCode;
  message: string;
  cause?: number;
  turns?: UnsettledTurn[];
}

/** The thrown values of one conversation. */
export class ThrownValues {
  readonly #kept = new Map<number, unknown>();
  #next = 0;

  /** The JSON of a failed store call. */
  storeFailure(error: unknown): string {
    const code: unknown = property(error, 'code');
    const refusal = REFUSALS.includes(code) ? { code } : {};
    return JSON.stringify({ ...refusal, message: messageOf(error), value: this.#keep(error) });
  }

  /** The JSON of a release that failed. */
  releaseFailure(error: unknown): string {
    return JSON.stringify({ message: messageOf(error), value: this.#keep(error) });
  }

  /** The JSON of a session that did not open. */
  openingFailure(error: unknown): string {
    return JSON.stringify({ ...thrownBy(error, undefined), value: this.#keep(error) });
  }

  /** The kept value of a number, forgotten with this. */
  take(number: number | undefined): unknown {
    if (number === undefined) return undefined;
    const value = this.#kept.get(number);
    this.#kept.delete(number);
    return value;
  }

  /** The error of a refused call. */
  toError(error: EngineError): Error {
    const cause = this.take(error.cause);
    const made = new RoundtableError(error.code, error.message, cause === undefined ? undefined : { cause });
    return error.turns === undefined ? made : Object.assign(made, { turns: error.turns });
  }

  #keep(value: unknown): number {
    const number = this.#next++;
    this.#kept.set(number, value);
    if (this.#kept.size > MAX_KEPT) {
      for (const oldest of this.#kept.keys()) {
        this.#kept.delete(oldest);
        break;
      }
    }
    return number;
  }
}

/** The JSON of what a participant or selector threw, classified against its attempt's fired signal, if it did. */
export function thrownJson(error: unknown, stopped: { readonly reason: unknown } | undefined): string {
  return JSON.stringify(thrownBy(error, stopped));
}

function thrownBy(error: unknown, stopped: { readonly reason: unknown } | undefined): object {
  const chain = causes(error);
  const code = property(error, 'code');
  return {
    message: messageOf(error),
    code: typeof code === 'string' && code.length <= MAX_ID ? toWellFormed(code) : undefined,
    isAbort: (stopped !== undefined && chain.includes(stopped.reason)) || isAbortError(error),
    isRefusedAdmission: chain.some((link) => link instanceof RoundtableError && link.code === 'model-call-limit'),
  };
}

/** A thrown value's message; never throws itself. */
export function messageOf(error: unknown): string {
  let message: unknown;
  if (typeof error === 'object' && error !== null) message = property(error, 'message');
  if (typeof message !== 'string' || message === '') {
    try {
      message = error instanceof Error ? error.name : String(error);
    } catch {
      message = 'an object that has no text';
    }
  }
  return toWellFormed(String(message).slice(0, MAX_TEXT));
}

function isAbortError(error: unknown): boolean {
  const name = property(error, 'name');
  return name === 'AbortError' || name === 'TimeoutError' || property(error, 'code') === 'ABORT_ERR';
}

/** The value, its cause, and so on; bounded, since a chain may lead back to itself. */
function causes(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let link = error; link !== undefined && chain.length < MAX_CAUSES; link = property(link, 'cause')) {
    chain.push(link);
  }
  return chain;
}

// A host's object may have accessors that throw, or be a proxy that refuses everything.
function property(value: unknown, key: string): unknown {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}
