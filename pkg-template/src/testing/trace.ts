/** Recorded inputs of the engine, replayed. */

import { currentEngine } from '../engine.js';
import { RoundtableError, type RoundtableErrorCode } from '../errors.js';

/**
 * Replays a trace of inputs with their times, one JSON value a line, and gives the SHA-256 (hexadecimal)
 * over all effects that follow. The same trace gives the same hash on every host, which is what this is
 * for; the simulator in the repository records such traces.
 * @throws RoundtableError `invalid-config`, naming the line that is not one
 */
export function replayTrace(text: string): string {
  const { engine } = currentEngine();
  try {
    return engine.replayTrace(text);
  } catch (error) {
    if (typeof error !== 'string') throw error;
    const { code, message } = JSON.parse(error) as { code: RoundtableErrorCode; message: string };
    throw new RoundtableError(code, message);
  }
}
