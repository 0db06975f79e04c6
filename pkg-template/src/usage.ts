/** Sums over a ledger. */

import type { Money, TokenCounts, UsageRecord } from './types.js';

/** What a slice of a ledger comes to. */
export interface UsageSummary {
  totalCalls: number;
  /** Admitted and not reported. */
  reservedCalls: number;
  settledCalls: number;
  /** Reported with provenance `unknown`. */
  unknownCalls: number;
  /** Reported tokens; what was not reported counts as 0. */
  tokens: Required<TokenCounts>;
  /** One sum for each currency, in the currencies' order. */
  cost: Money[];
}

/** Reduces any slice of a ledger. Amounts are exact, and currencies never mix. */
export function summarizeUsage(records: readonly UsageRecord[]): UsageSummary {
  const summary: UsageSummary = {
    totalCalls: records.length,
    reservedCalls: 0,
    settledCalls: 0,
    unknownCalls: 0,
    tokens: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
    cost: [],
  };
  const amounts = new Map<string, bigint>();
  for (const record of records) {
    if (record.status === 'reserved') {
      summary.reservedCalls += 1;
      continue;
    }
    summary.settledCalls += 1;
    if (record.provenance === 'unknown') summary.unknownCalls += 1;
    for (const kind of Object.keys(summary.tokens) as (keyof TokenCounts)[]) {
      summary.tokens[kind] += record.tokens?.[kind] ?? 0;
    }
    const cost = record.price?.cost;
    if (cost) amounts.set(cost.currency, (amounts.get(cost.currency) ?? 0n) + BigInt(cost.minorUnits));
  }
  const currencies = [...amounts.keys()].sort();
  summary.cost = currencies.map((currency) => ({ currency, minorUnits: String(amounts.get(currency)) }));
  return summary;
}
