/**
 * Values at the door. What a host hands in is read once, member by member, and leaves here as text or
 * as primitives, so that nothing it does to its objects later matters.
 */

/** How deep arrays and objects may nest. */
export const MAX_DEPTH = 100;
/** The longest JSON value, in UTF-16 units of its text. */
export const MAX_JSON = 4 * 1024 * 1024;
/** The longest id, in UTF-16 units. */
export const MAX_ID = 512;
/** The longest purpose, description or reason, in UTF-16 units. */
export const MAX_TEXT = 8192;
/** The longest content of a message, in UTF-16 units. */
export const MAX_CONTENT = 1024 * 1024;

/** A value that is not what it must be. The message begins with its path and never shows the value itself. */
export class BadValue extends Error {
  constructor(
    path: string,
    problem: string,
    /** How a call is refused for it. */
    readonly code: 'invalid-config' | 'conflict' = 'invalid-config',
  ) {
    super(`${path} ${problem}`);
  }
}

/** `instanceof` for what host code threw: a proxy may refuse even that question. */
export function isInstance<T>(value: unknown, kind: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof kind;
  } catch {
    return false;
  }
}

/** What kind of value this is, for messages. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'number') return Number.isFinite(value) ? 'a number' : String(value);
  if (typeof value !== 'object') return typeof value === 'bigint' ? 'a BigInt' : `a ${typeof value}`;
  if (Array.isArray(value)) return 'an array';
  return isPlain(value) ? 'an object' : `a ${Object.prototype.toString.call(value).slice(8, -1)} instance`;
}

/** Whether an object is plain: no prototype, or the `Object.prototype` of any realm. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return !(Symbol.toStringTag in value);
  return isRoot(prototype as object) && !(Symbol.toStringTag in value);
}

// The prototype of plain objects of another realm has none itself, and is no null-prototype object of a host.
function isRoot(prototype: object): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf');
}

/** The members of a plain object, read once. A member whose value is `undefined` is absent. */
export function members(value: unknown, path: string): Map<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !isPlain(value)) {
    throw new BadValue(path, `must be a plain object, not ${describe(value)}`);
  }
  const found = new Map<string, unknown>();
  for (const key of Reflect.ownKeys(value)) {
    const property = Object.getOwnPropertyDescriptor(value, key);
    if (property === undefined || !property.enumerable) continue;
    if (typeof key === 'symbol') throw new BadValue(path, 'has a symbol as key');
    if (!('value' in property)) throw new BadValue(memberPath(path, key), 'is an accessor');
    if (property.value !== undefined) found.set(key, property.value);
  }
  return found;
}

/** The members of a plain object that has every one of `required`, and none but these and `optional`. */
export function exactly(
  value: unknown,
  path: string,
  required: readonly string[],
  optional: readonly string[] = [],
): Map<string, unknown> {
  const found = members(value, path);
  only(found, path, required, optional);
  return found;
}

/** Checks that `found` has every one of `required`, and none but these and `optional`. */
export function only(
  found: ReadonlyMap<string, unknown>,
  path: string,
  required: readonly string[],
  optional: readonly string[] = [],
): void {
  for (const key of required) if (!found.has(key)) throw new BadValue(memberPath(path, key), 'is missing');
  if (found.size > required.length) {
    for (const key of found.keys()) {
      if (!required.includes(key) && !optional.includes(key)) {
        throw new BadValue(memberPath(path, key), 'is not a known member');
      }
    }
  }
}

/** The elements of an array without holes, read once. */
export function elements(value: unknown, path: string, max: number): unknown[] {
  if (!Array.isArray(value)) throw new BadValue(path, `must be an array, not ${describe(value)}`);
  if (value.length > max) throw new BadValue(path, `has ${value.length} elements, more than ${max}`);
  const found: unknown[] = [];
  for (let index = 0; index < value.length; index++) {
    const property = Object.getOwnPropertyDescriptor(value, index);
    if (property === undefined) throw new BadValue(`${path}[${index}]`, 'is a hole');
    if (!('value' in property)) throw new BadValue(`${path}[${index}]`, 'is an accessor');
    found.push(property.value);
  }
  return found;
}

/** An id: 1 to 512 UTF-16 units of well-formed text. */
export function identifier(value: unknown, path: string): string {
  if (typeof value !== 'string') throw new BadValue(path, `must be a string, not ${describe(value)}`);
  if (value.length === 0 || value.length > MAX_ID) throw new BadValue(path, `must have 1 to ${MAX_ID} UTF-16 units`);
  if (!isWellFormed(value)) throw new BadValue(path, 'holds a lone surrogate');
  return value;
}

/** Text of at most `max` UTF-16 units; lone surrogates become U+FFFD. */
export function text(value: unknown, path: string, max: number): string {
  if (typeof value !== 'string') throw new BadValue(path, `must be a string, not ${describe(value)}`);
  if (value.length > max) throw new BadValue(path, `has ${value.length} UTF-16 units, more than ${max}`);
  return toWellFormed(value);
}

/** A function of a host object, to be called on it. */
export function isFunction(value: unknown): value is (...args: never[]) => unknown {
  return typeof value === 'function';
}

/**
 * The JSON text of a private value: plain, except that dates are `{"$date": ISO-8601}` and a one-key
 * object that looks like a tag is wrapped as `{"$escaped": object}`; the engine reads and writes it so.
 * @param around as for {@link unboundedJsonText}
 */
export function codedText(value: unknown, path: string, around = 0): string {
  return write(value, path, { above: [], depth: MAX_DEPTH + around, coded: true });
}

/**
 * The JSON text of a plain value of any length; refuses whatever JSON has no place for, with the path of it.
 * @param around how many levels the engine has put around values that may each be nested as deep as a value may
 */
export function unboundedJsonText(value: unknown, path: string, around = 0): string {
  return write(value, path, { above: [], depth: MAX_DEPTH + around, coded: false });
}

/** The JSON text of a plain value; refuses whatever JSON has no place for, with the path of it. */
export function jsonText(value: unknown, path: string): string {
  if (ENCLOSING.has(value as object)) return unboundedJsonText(value, path, MAX_AROUND);
  const written = unboundedJsonText(value, path);
  if (written.length > MAX_JSON) throw new BadValue(path, `is longer than ${MAX_JSON} UTF-16 units as JSON`);
  return written;
}

/** Values that the engine made around values of a host. */
const ENCLOSING = new WeakSet<object>();
/** How many levels such a value may have of its own. */
const MAX_AROUND = 8;

/**
 * Marks a value that the engine made around values of a host. What bounds it is the journal: it may be deeper than a
 * host's value, and longer.
 */
export function enclosing<T extends object>(value: T): T {
  ENCLOSING.add(value);
  return value;
}

interface Writing {
  /** The arrays and objects that are being written. */
  readonly above: object[];
  /** How many there may be. */
  readonly depth: number;
  readonly coded: boolean;
}

function write(value: unknown, path: string, writing: Writing): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(toWellFormed(value));
    case 'number':
      if (!Number.isFinite(value)) throw new BadValue(path, `is ${value}, which JSON has no number for`);
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      break;
    default:
      throw new BadValue(path, `must be JSON, not ${describe(value)}`);
  }
  if (value === null) return 'null';
  if (writing.coded && isDate(value)) return writeDate(value, path);
  const { above } = writing;
  if (above.includes(value)) throw new BadValue(path, 'contains itself');
  refuseDeeper(path, writing);
  above.push(value);
  const written = Array.isArray(value) ? writeArray(value, path, writing) : writeObject(value, path, writing);
  above.pop();
  return written;
}

function refuseDeeper(path: string, { above, depth }: Writing): void {
  if (above.length >= depth) throw new BadValue(path, `is nested deeper than ${depth}`);
}

function writeArray(value: unknown[], path: string, writing: Writing): string {
  if (!isPlainArray(value)) throw new BadValue(path, 'must be a plain array');
  const items = elements(value, path, MAX_JSON);
  if (Object.keys(value).length > items.length) throw new BadValue(path, 'is an array with further members');
  return `[${items.map((item, index) => write(item, `${path}[${index}]`, writing)).join(',')}]`;
}

function isPlainArray(value: unknown[]): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // `Array.prototype` of any realm is itself an array, directly above that realm's `Object.prototype`.
  return (
    prototype === Array.prototype || (Array.isArray(prototype) && isRoot(Object.getPrototypeOf(prototype) as object))
  );
}

function writeObject(value: object, path: string, writing: Writing): string {
  const found = members(value, path);
  const isTagged = writing.coded && found.size === 1 && (found.has('$date') || found.has('$escaped'));
  if (isTagged) {
    refuseDeeper(path, writing);
    writing.above.push(value); // the wrapping is a level of its own
  }
  const parts: string[] = [];
  for (const [key, member] of found) {
    const at = memberPath(path, key);
    if (!isWellFormed(key)) throw new BadValue(at, 'has a key with a lone surrogate');
    parts.push(`${JSON.stringify(key)}:${write(member, at, writing)}`);
  }
  const written = `{${parts.join(',')}}`;
  if (!isTagged) return written;
  writing.above.pop();
  return `{"$escaped":${written}}`;
}

function isDate(value: object): value is Date {
  if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) return false; // the usual, without a throw
  try {
    Date.prototype.getTime.call(value); // throws for whatever is no date of any realm
    return true;
  } catch {
    return false;
  }
}

function writeDate(value: Date, path: string): string {
  const time = Date.prototype.getTime.call(value);
  if (Number.isNaN(time)) throw new BadValue(path, 'is an invalid date');
  return `{"$date":"${new Date(time).toISOString()}"}`;
}

function memberPath(path: string, key: string): string {
  return /^[A-Za-z_$][\w$]{0,63}$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key.slice(0, 64))}]`;
}

// In every supported host; newer than the library this is compiled against.
interface WellFormed {
  isWellFormed(): boolean;
  toWellFormed(): string;
}

/** Whether a text has no lone surrogate. */
export function isWellFormed(value: string): boolean {
  return (value as unknown as WellFormed).isWellFormed();
}

/** The text with U+FFFD in place of each lone surrogate. */
export function toWellFormed(value: string): string {
  return (value as unknown as WellFormed).toWellFormed();
}

/** Undoes the coding of {@link codedText} in a value made by `JSON.parse`. */
export function revive(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = revive(value[index]);
    return value;
  }
  const members = value as Record<string, unknown>;
  if (Object.keys(members).length === 1) {
    const { $date, $escaped } = members as { $date?: string; $escaped?: Record<string, unknown> };
    if ($date !== undefined) return new Date($date);
    if ($escaped !== undefined) return reviveMembers($escaped);
  }
  return reviveMembers(members);
}

function reviveMembers(members: Record<string, unknown>): unknown {
  for (const key of Object.keys(members)) {
    const value = revive(members[key]);
    // Assigning to `__proto__` would set the prototype of an object that has it as a plain member.
    if (value !== members[key]) Object.defineProperty(members, key, { value, enumerable: true });
  }
  return members;
}

/** Freezes a value made by `JSON.parse`, with everything in it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) deepFreeze(member);
  }
  return value;
}

/** An optional signal: any object that behaves like one, since polyfills and other realms have their own. */
export function readSignal(value: unknown, path: string): AbortSignal | undefined {
  if (value === undefined) return undefined;
  const signal = value as Partial<AbortSignal> | null;
  if (typeof signal?.addEventListener === 'function' && typeof signal.aborted === 'boolean')
    return signal as AbortSignal;
  throw new BadValue(path, `must be an AbortSignal, not ${describe(value)}`);
}
