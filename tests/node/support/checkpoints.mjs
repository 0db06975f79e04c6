// Checkpoints of sessions for the tests about them: of a turn that settled, of one that waits, and those refused.
import assert from 'node:assert/strict';
import { calling, execution, reply, scripted, turn } from './agent.mjs';
import { noting, open } from './session.mjs';

const invalid = (says) => (error) => {
  assert.equal(error.code, 'checkpoint-invalid', String(error));
  assert.match(error.message, says);
  return true;
};
/** Options of a session that asks before it writes. */
export const make = (extra = {}) => ({
  provider: scripted(reply('done')),
  tools: [noting('write')],
  systemMessage: 'be brief',
  environment: '/home/ana',
  permissions: { ask: ['write'], default: 'allow' },
  ...extra,
});

/** The checkpoint after one settled turn. */
export async function settled(extra = {}) {
  const provider = scripted(reply('first', { metadata: { seen: new Date(5) } }));
  const lease = await open(make({ provider, ...extra }));
  await lease.session.runTurn(turn('a1'), execution());
  const checkpoint = await lease.session.checkpoint();
  await lease.release();
  return checkpoint;
}

export async function parked(...calls) {
  const lease = await open(make({ provider: scripted(calling(...(calls.length > 0 ? calls : [['t', 'write', {}]]))) }));
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  const checkpoint = await lease.session.checkpoint();
  await lease.release();
  return { requests, checkpoint };
}

/** Opens what is refused; nothing may stay held. */
export async function refused(checkpoint, says, extra = {}, more = {}) {
  await assert.rejects(open(make(extra), { checkpoint, ...more }), invalid(says));
}
