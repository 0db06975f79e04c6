/**
 * The wasm instance behind the package. Internal: the public modules import `currentEngine` from here.
 *
 * An entry registers where the compiled module comes from (`provideModule`); the first call of
 * `currentEngine()` instantiates it. When an instance traps (a panic, a stack that ran out) it is cut
 * off: the call that trapped and every later one throw an `EngineLostError` with the panic's text, late
 * callbacks do nothing, and promises of the instance never settle. So whoever awaits one keeps the link
 * it came from and rejects what is pending when `lost` aborts; its `reason` is that same error. The next
 * `currentEngine()` makes a new instance, into which other conversations load from their stores.
 *
 *     const { engine, lost } = currentEngine();
 *     const handle = new engine.RoundtableHandle(...);
 *     lost.addEventListener('abort', () => rejectPending(lost.reason), { once: true });
 */

import { createEngine, type Engine, type EngineModule } from './generated/glue.js';

export type { Engine } from './generated/glue.js';

/** One live instance. */
export interface EngineLink {
  /** The functions and classes of `src/bindings` in the crate. */
  readonly engine: Engine;
  /** Aborts when this instance is lost; its `reason` is an {@link EngineLostError}. */
  readonly lost: AbortSignal;
}

/** The instance trapped. `cause` is what was thrown; `message` holds the panic's text where there was one. */
export class EngineLostError extends Error {
  override readonly name = 'EngineLostError';
}

interface Live extends EngineLink {
  readonly stop: (cause: unknown) => void;
}

let moduleSource: (() => EngineModule) | undefined;
let compiled: EngineModule | undefined;
let live: Live | undefined;

/**
 * Says where the compiled module comes from; called by entries. The first one stays: two entries
 * imported together share one instance.
 */
export function provideModule(source: () => EngineModule): void {
  moduleSource ??= source;
}

/** Whether an entry has provided the module. */
export function hasModule(): boolean {
  return moduleSource !== undefined;
}

/**
 * The live instance, made now if there is none.
 * @throws Error when only `/web` was imported and its `init()` has not finished
 */
export function currentEngine(): EngineLink {
  live ??= instantiate();
  return live;
}

/**
 * Gives up the instance behind `link`, as a trap does by itself. Does nothing when it is already lost.
 */
export function dropEngine(link: EngineLink, cause: unknown): void {
  if (live === link) live.stop(cause);
}

function instantiate(): Live {
  if (moduleSource === undefined) throw new Error("call and await init() of 'agent-roundtable/web' first");
  compiled ??= moduleSource();
  const controller = new AbortController();
  const instance = createEngine(compiled, (cause, panic) => {
    if (live === link) live = undefined;
    const message = panic ?? (cause instanceof Error ? cause.message : String(cause));
    const error = new EngineLostError(`the engine stopped: ${message}`, { cause });
    controller.abort(error);
    return error;
  });
  const link: Live = { engine: instance.engine, lost: controller.signal, stop: (cause) => instance.stop(cause) };
  return link;
}
