/** The milliseconds of processor time that `work` takes, what others left to collect not included. */
export async function timed(work) {
  globalThis.gc?.();
  const before = cpuMs();
  await work();
  return cpuMs() - before;
}

/** The processor time of this process so far, in milliseconds. */
export function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
