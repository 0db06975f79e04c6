// Prices: asked once for each settled call, exact in every currency.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { summarizeUsage } from 'agent-roundtable';
import { journal } from './support/conversations.mjs';
import { call, report, turn, usage } from './support/metering.mjs';

describe('C41 prices', () => {
  const priced = (cost, extra = {}) => {
    const errors = [];
    const pricing = { version: 'p1', cost };
    const onEventError = (error, event) => {
      errors.push([error, event]);
    };
    const act = async (services) => {
      await services.admitModelCall(call('c1'));
      await services.recordUsage(report('c1', { tokens: { input: 3 } }));
      await services.recordUsage(report('c1', { tokens: { input: 3 } }));
    };
    return turn(act, { pricing, onEventError, ...extra }).then(({ roundtable }) => ({ roundtable, errors }));
  };

  test('C41 cost gets the settled record without revision and price, once, before it is journaled', async () => {
    const seen = [];
    const { roundtable, errors } = await priced((record) => {
      seen.push(record);
      return { currency: 'EUR', minorUnits: '12345678901234567890123' };
    });
    assert.equal(seen.length, 1);
    const { revision, price, ...rest } = usage(roundtable)[0];
    assert.deepEqual(seen[0], rest);
    assert.deepEqual(price, { version: 'p1', cost: { currency: 'EUR', minorUnits: '12345678901234567890123' } });
    assert.ok(revision > 0);
    const [, entry] = (await journal(roundtable)).find(([kind]) => kind === 'usage-reported/1');
    assert.deepEqual(entry.price, price);
    assert.deepEqual(errors, []);
  });

  test('C41 null is a price too', async () => {
    const { roundtable, errors } = await priced(() => null);
    assert.deepEqual(usage(roundtable)[0].price, { version: 'p1', cost: null });
    assert.deepEqual(errors, []);
  });

  const BAD = [
    [
      'a throw',
      () => {
        throw new Error('no table');
      },
      /no table/,
    ],
    ['a promise', () => Promise.reject(new Error('later')), /promise/],
    ['undefined', () => undefined, /cost/],
    ['a number', () => 5, /cost/],
    ['minor units as a number', () => ({ currency: 'EUR', minorUnits: 5 }), /minorUnits/],
    ['a fraction', () => ({ currency: 'EUR', minorUnits: '1.5' }), /minorUnits/],
    ['leading zeros', () => ({ currency: 'EUR', minorUnits: '007' }), /minorUnits/],
    ['too many digits', () => ({ currency: 'EUR', minorUnits: '9'.repeat(65) }), /minorUnits/],
    ['no currency', () => ({ currency: '', minorUnits: '5' }), /currency/],
    ['a long currency', () => ({ currency: 'x'.repeat(17), minorUnits: '5' }), /currency/],
    ['further members', () => ({ currency: 'EUR', minorUnits: '5', note: 'x' }), /note/],
  ];
  for (const [name, cost, message] of BAD) {
    test(`C41 ${name} gives null and goes to onEventError`, async () => {
      const { roundtable, errors } = await priced(cost);
      assert.deepEqual(usage(roundtable)[0].price, { version: 'p1', cost: null });
      assert.equal(errors.length, 1);
      assert.match(errors[0][0].message, message);
      assert.equal(errors[0][1].type, 'usage');
      assert.equal(errors[0][1].record.callId, 'c1');
    });
  }
});

describe('summarizeUsage', () => {
  const settledRecord = (currency, minorUnits, extra = {}) => ({
    status: 'settled',
    provenance: 'reported',
    tokens: { input: 1, output: 2 },
    price: { version: '1', cost: minorUnits === null ? null : { currency, minorUnits } },
    ...extra,
  });

  test('C41 sums exactly beyond 2^53 and never mixes currencies', () => {
    const big = '9007199254740993';
    const summary = summarizeUsage([
      settledRecord('EUR', big),
      settledRecord('EUR', big),
      settledRecord('USD', '-7'),
      settledRecord('EUR', null),
      settledRecord('USD', '3', { provenance: 'unknown', tokens: undefined }),
      { status: 'reserved', price: null },
    ]);
    assert.deepEqual(summary, {
      totalCalls: 6,
      reservedCalls: 1,
      settledCalls: 5,
      unknownCalls: 1,
      tokens: { input: 4, output: 8, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
      cost: [
        { currency: 'EUR', minorUnits: '18014398509481986' },
        { currency: 'USD', minorUnits: '-4' },
      ],
    });
    assert.deepEqual(summarizeUsage([]).cost, []);
  });

  test('reduces a snapshot', async () => {
    const { roundtable } = await turn(async (services) => {
      await services.admitModelCall(call('c1'));
      await services.recordUsage(report('c1', { tokens: { input: 3, output: 4 } }));
      await services.admitModelCall(call('c2'));
    });
    const summary = summarizeUsage(usage(roundtable));
    assert.deepEqual([summary.totalCalls, summary.reservedCalls, summary.tokens.output], [2, 1, 4]);
  });
});
