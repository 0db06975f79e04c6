// What a turn costs the store, and that it costs the same after a thousand turns.
import { agent, conversation, CountingStore, hostSelector, speak } from '../lib/conversation.mjs';

const IDS = ['ada', 'ben', 'cy'];
const TURNS = 1_000;

/** @returns rows of results */
export default async function writes() {
  const plain = await written({}, { selector: hostSelector(IDS) });
  const builtIn = await written({}, {});
  const checkpointed = await written(
    { session: { checkpoint }, factory: { checkpointVersions: ['1'] } },
    { selector: hostSelector(IDS) },
  );
  const metered = (calls) => {
    const sessions = { runTurn: callingModels(calls), factory: { modelCalls: 'metered' } };
    return written(sessions, { selector: hostSelector(IDS) });
  };
  const [one, three] = [await metered(1), await metered(3)];
  return {
    rows: [
      { what: 'written per turn of 500 B', value: plain.bytes, unit: 'B', most: 2_000 },
      { what: 'the same, last 100 turns / first 100', value: plain.late / plain.early, unit: '×', most: 1.01 },
      { what: 'appends per turn, selector', value: plain.appends, unit: '', most: 3 },
      { what: 'appends per turn, built-in policy', value: builtIn.appends, unit: '', most: 3 },
      { what: 'appends per turn with checkpoint, selector', value: checkpointed.appends, unit: '', most: 4 },
      { what: 'appends per turn with one model call, selector', value: one.appends, unit: '', most: 4 },
      { what: 'appends per turn with three model calls, selector', value: three.appends, unit: '', most: 6 },
    ],
  };
}

async function written(sessions, options) {
  const store = new CountingStore();
  const marks = [];
  const onEvent = ({ type }) => {
    if (type === 'published') marks.push(store.batches.length);
  };
  const participants = IDS.map((id) => agent(id, sessions));
  const table = conversation(participants, TURNS, { ...options, store, onEvent });
  const result = await table.run();
  if (result.status !== 'limited') throw new Error(JSON.stringify(result));
  await table.dispose();
  const bytes = (from, to) => store.batches.slice(marks[from], marks[to]).reduce((sum, batch) => sum + batch, 0);
  const [first, last] = [0, TURNS - 1];
  return {
    bytes: bytes(first, last) / (last - first),
    early: bytes(first, 100) / 100,
    late: bytes(last - 100, last) / 100,
    appends: (marks[last] - marks[first]) / (last - first),
  };
}

async function checkpoint() {
  return { version: '1', data: null };
}

/** A turn that calls a model so many times, one call after the other. */
function callingModels(calls) {
  return async ({ attemptId }, { services }) => {
    for (let call = 0; call < calls; call++) {
      const callId = `${attemptId}-${call}`;
      await services.admitModelCall({ callId, providerId: 'bench', modelId: 'bench' });
      const tokens = { input: 100, output: 100 };
      await services.recordUsage({ callId, outcome: 'completed', provenance: 'reported', tokens, final: true });
    }
    return speak();
  };
}
