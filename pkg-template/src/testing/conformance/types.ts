/** What the conformance suite asks for. */

import type { ConversationStore } from '../../store-types.js';

/** A store on data of its own, made for one rule. */
export interface StoreUnderTest {
  readonly store: ConversationStore;
  /**
   * Another handle on the same data, as another process or tab has one. `clockSkewMs`: how far the clock
   * of its host is ahead; a store that asks its server for the time ignores it. Where it is absent the
   * same handle stands for another.
   */
  another?(options: { clockSkewMs: number }): ConversationStore | Promise<ConversationStore>;
  /** Lets time pass for the store. Default: waits. */
  elapse?(ms: number): void | Promise<void>;
  /** Takes everything down when the rule was tried. */
  dispose?(): void | Promise<void>;
}

/** Called once for each rule. */
export type MakeStore = () => ConversationStore | StoreUnderTest | Promise<ConversationStore | StoreUnderTest>;

export interface ConformanceOptions {
  /** The function of a test runner: `test` of `node:test`, Vitest, Deno or any other of this form. */
  test(title: string, run: () => Promise<void>): unknown;
  /** How many batches the long conversation has. Default 10,000. */
  batches?: number;
}

/** One rule of the storage port. */
export interface Rule {
  readonly title: string;
  run(context: RuleContext): Promise<void>;
}

/** What a rule works with. */
export interface RuleContext {
  readonly store: ConversationStore;
  readonly batches: number;
  another(clockSkewMs?: number): Promise<ConversationStore>;
  elapse(ms: number): Promise<void>;
}
