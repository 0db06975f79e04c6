/** What is public of a conversation, kept on this side so that nobody pays for a crossing to read it. */

import type {
  CompletedTurn,
  ConversationSnapshot,
  RoundtableEvent,
  SelectionContext,
  SharedMessage,
} from '../types.js';
import { deepFreeze } from '../values.js';
import { listView } from './list-view.js';

/**
 * What became durable with one batch. Events come whole, or as `kinds` that lack what they share;
 * without observers there are `messages` alone.
 */
interface Emission {
  readonly revision: number;
  readonly runId?: string | null;
  readonly at?: string;
  readonly events?: readonly RoundtableEvent[];
  readonly kinds?: readonly object[];
  readonly messages?: readonly SharedMessage[];
  readonly completed: readonly CompletedTurn[];
}

/** The engine's part of a snapshot. */
export interface EngineState {
  readonly revision: number;
  readonly status: ConversationSnapshot['status'];
  readonly requests: ConversationSnapshot['requests'];
}

/** The published transcript, append-only; messages are frozen and shared by all who see them. */
export class Mirror {
  readonly #messages: SharedMessage[] = [];
  readonly #turns: CompletedTurn[] = [];
  readonly #identity: Pick<ConversationSnapshot, 'conversationId' | 'purpose' | 'participants'>;
  #snapshot: ConversationSnapshot | undefined;
  /** The latest run, once there is one. */
  runId: string | undefined;

  constructor(conversationId: string, purpose: string | undefined, participants: SelectionContext['participants']) {
    this.#identity = { conversationId, ...(purpose === undefined ? {} : { purpose }), participants };
  }

  /** Takes in an emission and gives its events, frozen. */
  apply(text: string): readonly RoundtableEvent[] {
    const emission = JSON.parse(text) as Emission;
    const events = emission.events ?? this.#completeEvents(emission);
    for (const event of events) {
      deepFreeze(event);
      if (event.type === 'published') this.#publish(event.messages);
    }
    if (emission.messages !== undefined) this.#publish(emission.messages);
    for (const turn of emission.completed) this.#turns.push(Object.freeze(turn));
    this.runId = events.at(-1)?.runId ?? emission.runId ?? this.runId;
    return events;
  }

  #completeEvents({ kinds = [], revision, runId, at }: Emission): readonly RoundtableEvent[] {
    const { conversationId } = this.#identity;
    const shared = runId ? { conversationId, runId, at, revision } : { conversationId, at, revision };
    for (const kind of kinds) Object.assign(kind, shared);
    return kinds as readonly RoundtableEvent[];
  }

  /** Messages by their positions: new objects, so that nothing a host does to them is seen elsewhere. */
  messages(positions: readonly number[]): SharedMessage[] {
    const found: SharedMessage[] = [];
    for (const position of positions) {
      const message = this.#messages[position];
      if (message !== undefined) found.push({ ...message });
    }
    return found;
  }

  /** What a selector sees; a list is copied when it is read through. */
  selectionContext(messages: number, turns: number, remainingTurns: number): SelectionContext {
    const [allMessages, allTurns] = [this.#messages, this.#turns];
    let shownMessages: SharedMessage[] | undefined;
    let shownTurns: CompletedTurn[] | undefined;
    return {
      participants: this.#identity.participants,
      get messages() {
        shownMessages ??= listView(allMessages, messages);
        return shownMessages;
      },
      get turns() {
        shownTurns ??= listView(allTurns, turns);
        return shownTurns;
      },
      remainingTurns,
    };
  }

  /** The snapshot at the engine's present revision, made again only when that changed. */
  snapshot(revision: number, state: () => EngineState, usage: () => string): ConversationSnapshot {
    if (this.#snapshot?.revision === revision) return this.#snapshot;
    const { status, requests } = state();
    const { conversationId, purpose, participants } = this.#identity;
    const snapshot = {
      conversationId,
      revision,
      status,
      ...(purpose === undefined ? {} : { purpose }),
      participants,
      messages: Object.freeze(this.#messages.slice()),
      turns: Object.freeze(this.#turns.slice()),
      requests: deepFreeze(requests),
    };
    const records = usage();
    const frozen = (): unknown => deepFreeze(JSON.parse(records) as unknown);
    // A long ledger is read when somebody looks at it.
    if (records === '[]') Object.assign(snapshot, { usage: frozen() });
    else defineLazily(snapshot, 'usage', frozen);
    this.#snapshot = Object.freeze(snapshot) as ConversationSnapshot;
    return this.#snapshot;
  }

  #publish(messages: readonly SharedMessage[]): void {
    for (const message of messages) this.#messages.push(Object.freeze(message));
  }
}

/** Adds a member that is made when first looked at, and stays. */
function defineLazily<T>(target: object, key: string, make: () => T): void {
  let made: { readonly value: T } | undefined;
  const get = (): T => {
    made ??= { value: make() };
    return made.value;
  };
  Object.defineProperty(target, key, { get, enumerable: true });
}
