// Agents that do not stop before their signal fires.
import { agent, deferred } from './conversations.mjs';

/** Rejects with the reason of a signal once it fires. */
export const until = (signal) =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });

/** An agent whose first attempts wait for the signal; later ones say `words`. */
export function stubborn(id, stops, words = `${id} at last`, session = {}, factory = {}) {
  const started = Array.from({ length: stops }, deferred);
  const attempts = [];
  const made = agent(
    id,
    {
      async runTurn(turn, { signal }) {
        attempts.push(turn);
        const index = attempts.length - 1;
        if (index >= stops) return { kind: 'speak', content: words };
        started[index].resolve();
        return until(signal);
      },
      ...session,
    },
    factory,
  );
  return Object.assign(made, { started, attempts });
}
