/**
 * Calls host code on behalf of a conversation, and tells whether the code now running was called by
 * one: directly, or, where the host has asynchronous context (Node, Deno, Bun, workerd), across
 * awaits. A conversation that is disposed by its own callback must not wait for that callback.
 */

/** One call of host code, until it settles. */
interface Frame {
  readonly conversation: object;
  readonly outer: Frame | undefined;
  active: boolean;
}

interface Context {
  run<T>(frame: Frame, call: () => T): T;
  getStore(): Frame | undefined;
}

let current: Frame | undefined;
let context: Context | null | undefined;

/**
 * Calls host code; exactly one of `done` and `failed` is called, at once where nothing is to be
 * awaited. Whatever it throws or returns, also an odd thenable, ends in one of the two.
 */
export function callHost<T>(
  conversation: object,
  call: () => T | PromiseLike<T>,
  done: (value: T) => void,
  failed: (error: unknown) => void,
): void {
  const frame: Frame = { conversation, outer: outerFrame(conversation), active: true };
  let result: T | PromiseLike<T>;
  let later: boolean;
  try {
    result = enter(frame, call);
    later = isThenable(result);
  } catch (error) {
    frame.active = false;
    failed(error);
    return;
  }
  if (!later) {
    frame.active = false;
    done(result as T);
    return;
  }
  Promise.resolve(result).then(
    (value) => {
      frame.active = false;
      done(value);
    },
    (error: unknown) => {
      frame.active = false;
      failed(error);
    },
  );
}

/** Turns what a check throws into a failure. */
export function guarded<T>(accept: (value: T) => void, failed: (error: unknown) => void): (value: T) => void {
  return (value) => {
    try {
      accept(value);
    } catch (error) {
      failed(error);
    }
  };
}

/**
 * Calls host code several times, one call after the other: `work` makes each call through the function
 * it is given, which gives what the call returned and throws what it threw.
 */
export function callHostInTurn(conversation: object, work: (call: <T>(hostCode: () => T) => T) => Promise<void>): void {
  const frame: Frame = { conversation, outer: outerFrame(conversation), active: true };
  const call = <T>(hostCode: () => T): T => {
    const before = current;
    current = frame;
    try {
      return hostCode();
    } finally {
      current = before;
    }
  };
  const asynchronous = asynchronousContext();
  const worked = asynchronous === null ? work(call) : asynchronous.run(frame, () => work(call));
  const done = (): void => {
    frame.active = false;
  };
  worked.then(done, done);
}

/** Calls host code that must answer at once. @throws what it throws */
export function callHostNow<T>(conversation: object, call: () => T): T {
  const frame: Frame = { conversation, outer: outerFrame(conversation), active: true };
  try {
    return enter(frame, call);
  } finally {
    frame.active = false;
  }
}

/** Whether the caller was called by this conversation, in a call that has not settled. */
export function isInside(conversation: object): boolean {
  return holds(current, conversation) || holds(asynchronousContext()?.getStore(), conversation);
}

function holds(frame: Frame | undefined, conversation: object): boolean {
  for (let at = frame; at !== undefined; at = at.outer) {
    if (at.active && at.conversation === conversation) return true;
  }
  return false;
}

function enter<T>(frame: Frame, call: () => T): T {
  const before = current;
  current = frame;
  try {
    const asynchronous = asynchronousContext();
    return asynchronous === null ? call() : asynchronous.run(frame, call);
  } finally {
    current = before;
  }
}

// Settled frames, and those of the same conversation, add nothing: without them the chain stays as
// short as calls are really nested.
function outerFrame(conversation: object): Frame | undefined {
  let outer = current ?? asynchronousContext()?.getStore();
  while (outer !== undefined && (!outer.active || outer.conversation === conversation)) outer = outer.outer;
  return outer;
}

/** Whether something is to be awaited. @throws what its `then` throws when it is read */
export function isThenable(value: unknown): boolean {
  return (
    value instanceof Promise ||
    (((typeof value === 'object' && value !== null) || typeof value === 'function') &&
      typeof (value as { then?: unknown }).then === 'function')
  );
}

// Looked up at the first call, because some hosts forbid work while modules are loading.
function asynchronousContext(): Context | null {
  if (context === undefined) {
    const host = globalThis as {
      process?: { getBuiltinModule?(name: string): { AsyncLocalStorage: new () => Context } };
    };
    try {
      const hooks = host.process?.getBuiltinModule?.('node:async_hooks');
      context = hooks === undefined ? null : new hooks.AsyncLocalStorage();
    } catch {
      context = null;
    }
  }
  return context;
}
