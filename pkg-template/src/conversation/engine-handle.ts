/** The engine's handle of one conversation, with the promises of the calls it has not answered yet. */

import { currentEngine, type Engine, type EngineLink } from '../engine.js';
import { RoundtableError } from '../errors.js';
import type { RoundtableHandle } from '../generated/bindings.js';
import { BadValue } from '../values.js';
import type { StopReason } from './attempts.js';
import type { EngineError, ThrownValues } from './thrown.js';

/**
 * What the engine calls. A method with a `slot` returns at once and settles that slot of the handle
 * later; none of them throws.
 */
export interface EnginePorts {
  now(): number;
  mono(): number;
  startTimer(timer: number, delayMs: number): void;
  stopTimer(timer: number): void;
  create(slot: number, batch: string): void;
  append(slot: number, batch: string, snapshot: string | undefined): void;
  claim(slot: number, ownerId: string, leaseMs: number): void;
  renew(slot: number, claim: string, leaseMs: number): void;
  release(slot: number, claim: string): void;
  read(slot: number, after: number): void;
  select(
    slot: number,
    attempt: string,
    messages: number,
    turns: number,
    remainingTurns: number,
    restore: string | undefined,
  ): void;
  openSession(slot: number, session: number, participant: number, checkpoint: string | undefined): void;
  runTurn(slot: number, session: number, turn: string, responses: string | undefined): void;
  takeCheckpoint(slot: number, session: number): void;
  releaseSession(slot: number, session: number): void;
  abort(attempt: string, reason: StopReason): void;
  closeAttempt(attempt: string): void;
  price(record: string): string | undefined;
  emit(slot: number, emission: string): boolean;
  reply(call: number, ok: boolean, result: string): void;
  answer(ticket: number, refusal: string | undefined): void;
}

interface Pending {
  resolve(value: string): void;
  reject(error: unknown): void;
}

/** What every handle of the engine has. */
interface Handle {
  ask(): void;
  free(): void;
}

/** Calls into the engine; when the engine is lost, everything pending rejects with `internal`. */
export class EngineHandle<H extends Handle = RoundtableHandle, P = EnginePorts> {
  readonly #link: EngineLink;
  readonly #thrown: ThrownValues;
  #handle: H | undefined;
  readonly #calls = new Map<number, Pending>();
  readonly #tickets = new Map<number, Pending & { readonly signal: () => AbortSignal }>();
  #next = 0;
  /** The engine is about to be given what attempts asked. */
  #asking = false;
  readonly #onLost: () => void;

  /** @throws RoundtableError `invalid-config` */
  constructor(
    make: (engine: Engine, ports: P) => H,
    ports: P,
    thrown: ThrownValues,
    onLost: () => void,
    link = currentEngine(),
  ) {
    this.#link = link;
    this.#thrown = thrown;
    this.#onLost = () => {
      onLost();
      this.#lose();
    };
    this.#handle = fromEngine(link, thrown, () => make(link.engine, ports));
    listeners(this.#link).add(this.#onLost);
  }

  /** Calls the engine, unless its handle is gone; what is pending is rejected where it traps. */
  use(call: (handle: H) => void): void {
    if (this.#handle === undefined) return;
    try {
      call(this.#handle);
    } catch (error) {
      if (!this.#link.lost.aborted) throw error;
    }
  }

  /** Reads from the engine. @throws RoundtableError `internal` or `disposed` when it is gone */
  read<T>(call: (handle: H) => T): T {
    const handle = this.#handle;
    if (handle === undefined) throw this.#gone();
    return fromEngine(this.#link, this.#thrown, () => call(handle));
  }

  /** A call of the host: the JSON of its reply. `started` is told its number. */
  call(start: (handle: H, call: number) => void, started?: (call: number) => void): Promise<string> {
    if (this.#handle === undefined) return Promise.reject(this.#gone());
    return new Promise((resolve, reject) => {
      const call = this.#next++;
      this.#calls.set(call, { resolve, reject });
      started?.(call);
      this.use((handle) => start(handle, call));
    });
  }

  /** An admission or a report on the account of an attempt. */
  ticket(signal: () => AbortSignal, start: (handle: H, ticket: number) => void): Promise<void> {
    if (this.#handle === undefined) return Promise.reject(this.#gone());
    return new Promise((resolve, reject) => {
      const ticket = this.#next++;
      this.#tickets.set(ticket, { resolve: () => resolve(), reject, signal });
      this.use((handle) => start(handle, ticket));
      // What is asked at the same moment is asked as one.
      if (this.#asking) return;
      this.#asking = true;
      queueMicrotask(() => {
        this.#asking = false;
        this.use((handle) => handle.ask());
      });
    });
  }

  /** The engine replied to a call. */
  reply(call: number, ok: boolean, result: string): void {
    const pending = this.#calls.get(call);
    this.#calls.delete(call);
    if (ok) pending?.resolve(result);
    else pending?.reject(this.#thrown.toError(JSON.parse(result) as EngineError));
  }

  /** The engine answered an admission or a report. */
  answer(ticket: number, refusal: string | undefined): void {
    const pending = this.#tickets.get(ticket);
    this.#tickets.delete(ticket);
    if (pending === undefined) return;
    if (refusal === undefined) pending.resolve('');
    else if (refusal === '') pending.reject(pending.signal().reason);
    else pending.reject(this.#thrown.toError(JSON.parse(refusal) as EngineError));
  }

  /** Frees the engine's side; services that ask later are refused. */
  free(): void {
    const handle = this.#handle;
    this.#handle = undefined;
    listeners(this.#link).delete(this.#onLost);
    this.#rejectPending();
    // Not while the engine is calling: its handle is borrowed then.
    queueMicrotask(() => {
      if (!this.#link.lost.aborted) handle?.free();
    });
  }

  #lose(): void {
    this.#handle = undefined;
    this.#rejectPending();
  }

  #rejectPending(): void {
    for (const pending of [this.#calls, this.#tickets]) {
      const waiting = [...pending.values()];
      pending.clear();
      for (const { reject } of waiting) reject(this.#gone());
    }
  }

  #gone(): RoundtableError {
    const { lost } = this.#link;
    return lost.aborted ? lostError(lost) : new RoundtableError('disposed', "the conversation's handle was disposed");
  }
}

/** Makes the engine's handle of a conversation. */
export type MakeHandle = (engine: Engine, ports: EnginePorts) => RoundtableHandle;

/** What a call into the engine gives. @throws what the engine refused, as an error; `internal` when it is lost */
function fromEngine<T>(link: EngineLink, thrown: ThrownValues, call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (typeof error === 'string') throw thrown.toError(JSON.parse(error) as EngineError);
    throw link.lost.aborted ? lostError(link.lost) : error;
  }
}

function lostError(lost: AbortSignal): RoundtableError {
  return new RoundtableError('internal', (lost.reason as Error).message, { cause: lost.reason });
}

/** Whom to tell when an engine is lost. One listener on its signal serves all conversations. */
const lostListeners = new WeakMap<EngineLink, Set<() => void>>();

function listeners(link: EngineLink): Set<() => void> {
  let known = lostListeners.get(link);
  if (known === undefined) {
    const added = new Set<() => void>();
    link.lost.addEventListener('abort', () => {
      for (const listener of added) listener();
    });
    lostListeners.set(link, added);
    known = added;
  }
  return known;
}

/** Runs a check and makes its refusal an error with a code. */
export function checked<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw error instanceof BadValue ? new RoundtableError(error.code, error.message) : error;
  }
}
