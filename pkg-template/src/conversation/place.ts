/**
 * Which store a conversation is in, for what the process keeps about it: conversations of the same id in two stores
 * have nothing to do with each other. It goes beside the context that a session is opened with, which is a host's
 * to read.
 */

const places = new WeakMap<object, string>();
const names = new WeakMap<object, string>();
let named = 0;

/** What tells a store apart: what it was placed in, else what one that is durable says itself, else the object that it is. */
export function placeOf(store: object): string {
  const { durability, identity } = store as { readonly durability?: unknown; readonly identity?: unknown };
  const isNamed = !names.has(store) && durability === 'durable' && typeof identity === 'string';
  return isNamed ? `identity ${identity}` : nameOf(store);
}

/** Says that a store is a part of something, such as a schema of the database that a pool is connected to. */
export function placeStore(store: object, within: object, part: string): void {
  names.set(store, `${part} of ${nameOf(within)}`);
}

function nameOf(object: object): string {
  const name = names.get(object) ?? `object ${named++}`;
  names.set(object, name);
  return name;
}

/** Says where the conversation of a session's context is. */
export function placedIn<T extends object>(context: T, place: string): T {
  places.set(context, place);
  return context;
}

/** Where it is; empty where a context is not a conversation's. */
export function placeOfContext(context: object): string {
  return places.get(context) ?? '';
}
