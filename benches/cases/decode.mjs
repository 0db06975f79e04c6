// Session logs: from text to a provider that is ready to answer.
import { createReplayProvider, createReplayProviderFromSource, decodeSessionLog } from '../../pkg/dist/index.js';
import { median, randomNumbers } from '../lib/statistics.mjs';

const SEED = 20_270_105;
const SIZE = 48_000_000;
const ROUNDS = 9;

/** @returns rows of results, and the milliseconds they come from */
export default async function decode() {
  const text = corpus();
  const bytes = Buffer.byteLength(text);
  const responses = text.split('"event":"provider_response_normalized"').length - 1;
  const samples = { 'from source': [], 'from entries': [], strict: [] };
  const strict = { match: 'strict', deltas: true };
  for (let round = -1; round < ROUNDS; round++) {
    const times = {
      'from source': await timed(() => createReplayProviderFromSource({ readText: () => text }), responses),
      'from entries': await timed(() => createReplayProvider({ entries: decodeSessionLog(text) }), responses),
      strict: await timed(() => createReplayProviderFromSource({ readText: () => text }, strict), responses),
    };
    if (round >= 0) for (const [name, ms] of Object.entries(times)) samples[name].push(ms);
  }
  const rate = (name) => bytes / 1e6 / (median(samples[name]) / 1000);
  return {
    rows: [
      { what: `corpus of ${text.split('\n').length.toLocaleString('en')} lines`, value: bytes / 1e6, unit: 'MB' },
      { what: 'text to ready provider', value: rate('from source'), unit: 'MB/s', least: 100 },
      { what: 'text to entries to ready provider', value: rate('from entries'), unit: 'MB/s', least: 100 },
      { what: 'text to ready provider that compares requests', value: rate('strict'), unit: 'MB/s', least: 100 },
    ],
    samples,
  };
}

async function timed(make, responses) {
  globalThis.gc?.();
  const before = process.cpuUsage();
  const provider = await make();
  const { user, system } = process.cpuUsage(before);
  if (provider.recordedResponseCount !== responses) throw new Error('the provider is not complete');
  return (user + system) / 1000;
}

/** A log of rounds: a request with a transcript, its raw and its normalized response, a tool call and its result. */
function corpus() {
  const next = randomNumbers(SEED);
  const lines = [];
  for (let size = 0, round = 0; size < SIZE; round++) {
    for (const line of recordedRound(round, next)) {
      const text = JSON.stringify(line);
      lines.push(text);
      size += text.length + 1;
    }
  }
  return lines.join('\n');
}

function recordedRound(round, next) {
  const timestamp = new Date(1_767_225_600_000 + round * 1_000).toISOString();
  const envelope = { schemaVersion: 1, timestamp, sessionId: 'bench' };
  const key = { executionId: `execution-${round}`, round: 0 };
  const message = (role, length) => ({
    id: `message-${next().toString(36)}`,
    role,
    content: prose(length, next),
    timestamp,
    state: 'complete',
  });
  const call = { toolName: 'read', toolCallId: `call-${round}` };
  const response = message('assistant', 900 + (next() % 3_000));
  return [
    { ...envelope, event: 'provider_request', ...key, provider: 'p', model: 'm', messages: [message('user', 3_000)] },
    { ...envelope, event: 'provider_response_raw', ...key, response, responseKind: 'message' },
    { ...envelope, event: 'provider_response_normalized', ...key, response, toolCallsCount: 0 },
    { ...envelope, event: 'tool_execution_request', ...key, ...call, parameters: { path: prose(900, next) } },
    { ...envelope, event: 'tool_execution_result', ...key, ...call, success: true, result: prose(2_000, next) },
  ];
}

const WORDS =
  'the agent reads “notes” and writes: a \\ plan\nof\tsteps, naïve but "quoted" — then it waits for people'.split(' ');

function prose(length, next) {
  let text = '';
  while (text.length < length) text += `${WORDS[next() % WORDS.length]} `;
  return text;
}
