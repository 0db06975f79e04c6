/** Waiting for host code that may never return. */

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
