// What the models of the demo used and cost, as rows of text.
import { summarizeUsage } from 'agent-roundtable';
import { AGENTS } from './review.mjs';

export const COLUMNS = ['participant', 'model', 'calls', 'tokens in', 'tokens out', 'cost'];

/**
 * One row for each agent and one for all.
 * @param {readonly import('agent-roundtable').UsageRecord[]} records
 * @returns {string[][]}
 */
export function usageRows(records) {
  const rows = AGENTS.map(({ id, model }) =>
    row(
      id,
      model,
      records.filter((record) => record.principal.id === id),
    ),
  );
  return [...rows, row('all', '', records)];
}

function row(name, model, records) {
  const { totalCalls, tokens, cost } = summarizeUsage(records);
  return [name, model, String(totalCalls), String(tokens.input), String(tokens.output), cost.map(money).join(' ')];
}

function money({ currency, minorUnits }) {
  const digits = minorUnits.padStart(3, '0');
  return `${digits.slice(0, -2)}.${digits.slice(-2)} ${currency}`;
}
