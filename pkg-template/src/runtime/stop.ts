/** Waiting for host code that may never return. */

import { RoundtableError } from '../errors.js';
import { BadValue } from '../values.js';
import { named } from './agent-options.js';

/** How long a turn that was stopped waits for its tools where the host says nothing, in milliseconds. */
const SETTLE_TIMEOUT_MS = 2_000;
/** The longest that a timer can wait. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Reads the option of that name. @throws `invalid-config` */
export function settleTimeoutOf({ settleTimeoutMs = SETTLE_TIMEOUT_MS }: { settleTimeoutMs?: number }): number {
  return named(() => {
    if (Number.isSafeInteger(settleTimeoutMs) && settleTimeoutMs >= 0 && settleTimeoutMs <= MAX_TIMEOUT_MS)
      return settleTimeoutMs;
    throw new BadValue('settleTimeoutMs', `must be an integer from 0 to ${MAX_TIMEOUT_MS}`);
  });
}

/** The value, or nothing where it is not there in time or the signal fires first. */
export async function unlessLate<T>(work: Promise<T>, timeoutMs: number, signal: AbortSignal): Promise<T | undefined> {
  const late = new AbortController();
  const give = (): void => late.abort();
  const timer = setTimeout(give, timeoutMs);
  signal.addEventListener('abort', give, { once: true });
  if (signal.aborted) give();
  try {
    return await unlessStopped(work, late.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', give);
  }
}

/** Waits for a turn, whose session is released; `leave` ends one that is not over in time. */
export async function untilOver(
  over: Promise<unknown>,
  timeoutMs: number,
  leave: (reason: RoundtableError) => void,
): Promise<void> {
  const timer = setTimeout(() => leave(new RoundtableError('disposed', 'the session was released')), timeoutMs);
  await over;
  clearTimeout(timer);
  // Whoever runs the turn hears of it first.
  await new Promise<void>((resolve) => setTimeout(resolve, 0));
}

/** The value, or nothing where the signal fired and a macrotask later the value is still not there. */
export function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onStop = (): void => {
      timer = setTimeout(() => resolve(undefined), 0);
    };
    const done = (): void => {
      signal.removeEventListener('abort', onStop);
      clearTimeout(timer);
    };
    if (signal.aborted) onStop();
    else signal.addEventListener('abort', onStop, { once: true });
    work.then(resolve, reject).finally(done);
  });
}

/** The value; throws the signal's reason where that fires first. */
export async function unlessAborted<T extends object>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const value = await unlessStopped(work, signal);
  if (value === undefined) throw signal.reason;
  return value;
}
