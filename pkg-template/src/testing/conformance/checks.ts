/** Assertions that need no test runner. */

/** Fails with what differs. */
export function equal(actual: unknown, expected: unknown, what: string): void {
  const path = difference(actual, expected, '');
  if (path !== undefined) throw new Error(`${what}${path}`);
}

/** Fails with what was to hold. */
export function holds(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}

/** Waits for a rejection with one of these codes, which say that nothing was written. */
export async function refuses(call: Promise<unknown>, code: string | readonly string[], what: string): Promise<void> {
  const codes = typeof code === 'string' ? [code] : code;
  let seen: string;
  try {
    await call;
    seen = 'it was accepted';
  } catch (error) {
    const given = codeOf(error);
    if (given !== undefined && codes.includes(given)) return;
    seen = `it was refused with ${given === undefined ? `no code: ${String(error)}` : given}`;
  }
  throw new Error(`${what}: must be refused with ${codes.join(' or ')}; ${seen}`);
}

/** The code of a rejection. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Of calls at the same time, those that succeeded; the others must be refused with one of the codes. */
export async function winners<T>(calls: Iterable<Promise<T>>, codes: readonly string[], what: string): Promise<T[]> {
  const won: T[] = [];
  for (const result of await Promise.allSettled(calls)) {
    if (result.status === 'fulfilled') won.push(result.value);
    else await refuses(Promise.reject(result.reason), codes, what);
  }
  return won;
}

function difference(actual: unknown, expected: unknown, path: string): string | undefined {
  if (Object.is(actual, expected)) return undefined;
  if (!isObject(actual) || !isObject(expected) || Array.isArray(actual) !== Array.isArray(expected)) {
    return `${path}: is ${show(actual)}, must be ${show(expected)}`;
  }
  const [have, want] = [Object.keys(actual).sort(), Object.keys(expected).sort()];
  if (have.length !== want.length || have.some((key, i) => key !== want[i])) {
    return `${path}: has ${show(Array.isArray(actual) ? actual.length : have)}, must have ${show(Array.isArray(expected) ? expected.length : want)}`;
  }
  for (const key of want) {
    const found = difference(actual[key], expected[key], `${path}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function show(value: unknown): string {
  const text = typeof value === 'string' || isObject(value) ? JSON.stringify(value) : String(value);
  return text.length > 200 ? `${text.slice(0, 200)}… (${text.length} characters)` : text;
}
