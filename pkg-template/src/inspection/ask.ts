/** Questions to the engine that need no conversation of their own. */

import { type EngineError, ThrownValues } from '../conversation/thrown.js';
import { currentEngine, type Engine, type EngineLink } from '../engine.js';
import { RoundtableError } from '../errors.js';

/** What the engine answers. @throws what it refused, or `internal` when it is lost */
export function ask<T>(
  question: (engine: Engine) => T,
  link: EngineLink = currentEngine(),
  thrown = new ThrownValues(),
): T {
  try {
    return question(link.engine);
  } catch (error) {
    if (typeof error === 'string') throw thrown.toError(JSON.parse(error) as EngineError);
    if (!link.lost.aborted) throw error;
    throw new RoundtableError('internal', (link.lost.reason as Error).message, { cause: error });
  }
}
