// Sessions that are parked on a call, and reopened.
import { calling, execution, reply, scripted, turn } from './agent.mjs';
import { noting, open } from './session.mjs';

export const done = { kind: 'speak', content: 'done' };
export const call = (name = 'write') => calling(['t1', name, { path: 'a' }]);

/** A session that is parked on one call of `write`, released, and what it left. */
export async function parked({ journal, replies = [call()], extra = {} } = {}) {
  const lease = await open(
    { provider: scripted(...replies), tools: [noting('write')], ...extra },
    journal ? { journal: () => journal } : {},
  );
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  const checkpoint = await lease.session.checkpoint();
  await lease.release();
  return { requests, checkpoint };
}

/** Reopens it, with another provider and other tools of the same make. */
export async function reopened(
  checkpoint,
  { journal, replies = [reply('done')], write = noting('write'), extra = {}, settleTimeoutMs } = {},
) {
  const provider = scripted(...replies);
  const participant = { checkpoint, settleTimeoutMs, ...(journal ? { journal: () => journal } : {}) };
  const lease = await open({ provider, tools: [write], ...extra }, participant);
  return { lease, provider, write };
}
