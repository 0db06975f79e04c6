/** Asks a host's price policy. */

import type { Money, PricePolicy, SettledUsageRecord, UsageRecord } from '../types.js';
import { BadValue, describe, exactly, identifier } from '../values.js';

/** Settled records as a policy sees them. */
type Priced = Parameters<PricePolicy['cost']>[0];

/**
 * The JSON of the amount, or `undefined` for none.
 * @throws what the policy throws, or BadValue for a malformed amount
 */
export function priceJson(cost: PricePolicy['cost'], record: UsageRecord): string | undefined {
  const { revision: _revision, price: _price, ...priced } = record as SettledUsageRecord;
  const amount: unknown = cost(priced satisfies Priced);
  if (amount === null) return undefined;
  if (amount instanceof Promise) {
    amount.catch(() => {});
    throw new BadValue('pricing.cost', 'must give its amount at once, not a promise');
  }
  return JSON.stringify(readMoney(amount));
}

function readMoney(value: unknown): Money {
  const found = exactly(value, 'cost', ['currency', 'minorUnits']);
  const currency = identifier(found.get('currency'), 'cost.currency');
  if (currency.length > 16) throw new BadValue('cost.currency', 'must have 1 to 16 UTF-16 units');
  const minorUnits = found.get('minorUnits');
  if (typeof minorUnits !== 'string' || !/^(0|-?[1-9]\d{0,63})$/.test(minorUnits)) {
    throw new BadValue(
      'cost.minorUnits',
      `must be a decimal integer of at most 64 digits, not ${describe(minorUnits)}`,
    );
  }
  return { currency, minorUnits };
}
