// Turns whose model calls are admitted and reported.
import { agent, conversation, decisions, speak } from './conversations.mjs';

export const call = (callId, modelId = 'm') => ({ callId, providerId: 'acme', modelId });
export const report = (callId, extra = {}) => ({
  callId,
  outcome: 'completed',
  provenance: 'reported',
  final: true,
  ...extra,
});
export const cacheHit = (callId) => report(callId, { outcome: 'cache-hit', providerId: 'acme', modelId: 'm' });
export const metered = (id, runTurn) => agent(id, runTurn, { modelCalls: 'metered' });
export const selecting = (...list) => ({ ...decisions(...list), modelCalls: 'none' });
export const spoken = { kind: 'speak', content: 'x' };
export const usage = (roundtable) => roundtable.snapshot().usage;

/** One turn of `a` in which `act` runs with the turn's services; `extra` replaces options. */
export async function turn(act, extra = {}) {
  let thrown;
  const a = metered('a', async (given, options) => {
    try {
      await act(options.services, given, options);
    } catch (error) {
      thrown = error;
    }
    return spoken;
  });
  const roundtable = conversation([a], { selector: selecting(speak('a')), ...extra });
  const result = await roundtable.run();
  if (thrown !== undefined) throw thrown;
  return { roundtable, result };
}
