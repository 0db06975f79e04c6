/** Conversations: what `createRoundtable` gives. */

import {
  reconcileRequest,
  resumeRequest,
  safeInteger,
  submitInputRequest,
  withdrawRequest,
} from './conversation/calls.js';
import { checked } from './conversation/engine-handle.js';
import { isInside } from './conversation/inside.js';
import { readRecord } from './conversation/loading.js';
import { type PlainOption, plain, type ReadOptions, readOptions } from './conversation/options.js';
import { withPast } from './conversation/past-events.js';
import { Ports } from './conversation/ports.js';
import { messageOf } from './conversation/thrown.js';
import { ReleaseError } from './errors.js';
import type {
  ConversationRequest,
  ConversationSnapshot,
  ExternalParticipant,
  LoadOptions,
  Roundtable,
  RoundtableEvent,
  RoundtableOptions,
  RunResult,
} from './types.js';
import { members, readSignal } from './values.js';

/**
 * A new conversation. Nothing is stored and nothing is called before the first call that writes.
 * @throws RoundtableError `invalid-config` naming the option
 */
export function createRoundtable(options: RoundtableOptions): Roundtable {
  return conversationOf(readOptions(options));
}

/**
 * A stored conversation, to go on with. It is bound to what the registry gives today and to nothing less:
 * the same runtimes, selector and price policy in the same versions. Nothing is written, and no claim is
 * taken, before the first call that works.
 * @throws RoundtableError `not-found`; `invalid-record` naming the entry that does not fold; `invalid-config`
 *   naming the option or the reference that differs; `recovery-required` listing, in `turns`, those that no
 *   process saw settle, or naming a participant that has taken part and left no checkpoint; the store's own
 *   code, or `unavailable`
 */
export async function loadRoundtable(options: LoadOptions): Promise<Roundtable> {
  return conversationOf(await readRecord(options));
}

function conversationOf(options: ReadOptions): Roundtable {
  const conversation = new Conversation(new Ports(options));
  // Defined only where the symbol exists; without it there is no `await using` either.
  if (typeof Symbol.asyncDispose === 'symbol') {
    Object.defineProperty(conversation, Symbol.asyncDispose, { value: () => conversation.dispose() });
  }
  return conversation as unknown as Roundtable;
}

/** The definition of a person or remote system that takes part. */
export function externalParticipant(definition: { id: string; description?: string }): ExternalParticipant {
  const { id, description } = definition;
  return description === undefined ? { kind: 'external', id } : { kind: 'external', id, description };
}

/** What the engine replies, by the kind of call. */
interface Replies {
  ran: { revision: number; outcome: DistributiveOmit<RunResult, 'revision'>; requests: ConversationRequest[] };
  submitted: { revision: number; messageId: string };
  resumed: { revision: number; requestId: string; responseId: string };
  withdrawn: { revision: number };
  reconciled: { revision: number };
  disposed: { failures: { message: string; value?: number }[]; releaseWithinMs?: number };
}

type DistributiveOmit<T, Key extends PropertyKey> = T extends unknown ? Omit<T, Key> : never;

class Conversation implements Omit<Roundtable, typeof Symbol.asyncDispose> {
  readonly #ports: Ports;
  readonly #signals = new Map<number, AbortSignal>();
  #disposal: Promise<void> | undefined;

  constructor(ports: Ports) {
    this.#ports = ports;
    ports.cancelReason = () => {
      for (const signal of this.#signals.values()) if (signal.aborted) return signal.reason as unknown;
      return undefined;
    };
  }

  async run(options?: Parameters<Roundtable['run']>[0]): Promise<RunResult> {
    const { signal, limits } = checked(() => readRunOptions(options));
    let call = -1;
    const abort = (): void => this.#ports.engine.use((handle) => handle.abortRun(call));
    try {
      const reply = await this.#ports.engine.call((handle, number) => {
        call = number;
        if (signal !== undefined) this.#signals.set(number, signal);
        signal?.addEventListener('abort', abort);
        handle.run(number, limits, signal?.aborted ?? false);
      });
      const { revision, outcome, requests } = (JSON.parse(reply) as Pick<Replies, 'ran'>).ran;
      return outcome.status === 'waiting' ? { revision, status: 'waiting', requests } : { revision, ...outcome };
    } finally {
      this.#signals.delete(call);
      signal?.removeEventListener('abort', abort);
    }
  }

  async submitInput(input: Parameters<Roundtable['submitInput']>[0]): Promise<Replies['submitted']> {
    return (await this.#call<'submitted'>(() => submitInputRequest(input))).submitted;
  }

  async resume(input: Parameters<Roundtable['resume']>[0]): Promise<Replies['resumed']> {
    return (await this.#call<'resumed'>(() => resumeRequest(input))).resumed;
  }

  async withdraw(input: Parameters<Roundtable['withdraw']>[0]): Promise<Replies['withdrawn']> {
    return (await this.#call<'withdrawn'>(() => withdrawRequest(input))).withdrawn;
  }

  async reconcile(input: Parameters<Roundtable['reconcile']>[0]): Promise<Replies['reconciled']> {
    return (await this.#call<'reconciled'>(() => reconcileRequest(input))).reconciled;
  }

  snapshot(): ConversationSnapshot {
    const { engine, mirror } = this.#ports;
    return engine.read((handle) =>
      mirror.snapshot(
        handle.revision(),
        () => JSON.parse(handle.state()),
        () => handle.usage(),
      ),
    );
  }

  events(options?: Parameters<Roundtable['events']>[0]): AsyncIterableIterator<RoundtableEvent> {
    const { signal, after } = checked(() => readEventOptions(options));
    const until = this.#ports.engine.read((handle) => handle.revision());
    const end = (): void => stream.end();
    const stream = this.#ports.observers.stream(() => {
      signal?.removeEventListener('abort', end);
      this.#ports.observed();
    });
    this.#ports.observed();
    if (signal?.aborted === true) end();
    else signal?.addEventListener('abort', end);
    return after === undefined ? stream : withPast(this.#ports.pastEvents(after, until), stream, after);
  }

  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    if (!isInside(this.#ports)) return this.#disposal;
    // The caller is awaited by what is being disposed. A failed release is told to whoever waits for it.
    this.#disposal.catch(() => {});
    return Promise.resolve();
  }

  async #dispose(): Promise<void> {
    const reply = await this.#ports.engine.call((handle, call) => handle.call(call, '{"dispose":{"inside":false}}'));
    this.#ports.close();
    this.#ports.engine.free();
    const { failures, releaseWithinMs } = (JSON.parse(reply) as Pick<Replies, 'disposed'>).disposed;
    const values = failures.map((failure) => this.#ports.thrown.take(failure.value));
    const messages = failures.map((failure) => failure.message);
    const failed = await this.#ports.releaseSelector(releaseWithinMs);
    if (failed !== undefined) {
      values.push(failed.error);
      messages.push(messageOf(failed.error));
    }
    if (values.length > 0) throw new ReleaseError(values, messages);
  }

  async #call<Kind extends keyof Replies>(check: () => string): Promise<Pick<Replies, Kind>> {
    const request = checked(check);
    const reply = await this.#ports.engine.call((handle, call) => handle.call(call, request));
    return JSON.parse(reply) as Pick<Replies, Kind>;
  }
}

function readEventOptions(options: unknown): { signal: AbortSignal | undefined; after: number | undefined } {
  if (options === undefined) return { signal: undefined, after: undefined };
  const given = members(options, 'options');
  const after = given.has('afterRevision') ? safeInteger(given.get('afterRevision'), 'afterRevision') : undefined;
  return { signal: readSignal(given.get('signal'), 'signal'), after };
}

function readRunOptions(options: unknown): { signal: AbortSignal | undefined; limits: PlainOption | undefined } {
  if (options === undefined) return { signal: undefined, limits: undefined };
  const given = members(options, 'options');
  return { signal: readSignal(given.get('signal'), 'signal'), limits: plain(given.get('limits'), 'limits', 'id') };
}
