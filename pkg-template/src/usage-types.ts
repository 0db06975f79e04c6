/** The shapes of the ledger: one record for each model call. */

import type { JsonValue } from './types.js';

/** Token counts: safe integers from 0. */
export interface TokenCounts {
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  reasoning?: number;
}

/** What a participant or selector reports of a model call. */
export interface UsageReport {
  callId: string;
  outcome: 'completed' | 'failed' | 'cancelled' | 'cache-hit';
  provenance: 'reported' | 'partial' | 'estimated' | 'unknown';
  tokens?: TokenCounts;
  /** The provider's own report, opaque to the engine. */
  raw?: JsonValue;
  /** Whether a later report may not replace this one. */
  final: boolean;
  /** With a cache hit, which had no admission. */
  providerId?: string;
  /** With a cache hit, which had no admission. */
  modelId?: string;
}

interface UsageIdentity {
  readonly callId: string;
  readonly providerId: string;
  readonly modelId: string;
  readonly conversationId: string;
  readonly runId: string;
  readonly principal: { readonly kind: 'participant' | 'selector'; readonly id: string };
  /** `null` where the selector called. */
  readonly turnId: string | null;
  readonly groupId: string | null;
  readonly attemptId: string;
  /** The revision of its last change. */
  readonly revision: number;
  readonly price: { readonly version: string; readonly cost: Money | null } | null;
}

/** A call that was admitted and not yet reported. */
export type ReservedUsageRecord = UsageIdentity & { readonly status: 'reserved' };

/** A call that was reported. */
export type SettledUsageRecord = UsageIdentity & {
  readonly status: 'settled';
  readonly outcome: UsageReport['outcome'];
  readonly provenance: UsageReport['provenance'];
  readonly tokens?: Readonly<TokenCounts>;
  readonly raw?: JsonValue;
  readonly final: boolean;
};

/** One line of the ledger. */
export type UsageRecord = ReservedUsageRecord | SettledUsageRecord;

/** An amount in a currency's minor units, a decimal integer of any size up to 64 digits. */
export interface Money {
  readonly currency: string;
  readonly minorUnits: string;
}

/** What calls cost. Asked once per settlement, before it is journaled; never again on load. */
export interface PricePolicy {
  version: string;
  /** A throw or a malformed amount counts as `null` and goes to `onEventError`. */
  cost(record: Omit<SettledUsageRecord, 'revision' | 'price'>): Money | null;
}
