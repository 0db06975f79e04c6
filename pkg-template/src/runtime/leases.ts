/** Who holds which provider, tool or options object. An object belongs to one open session at a time. */

import { RuntimeParticipantError } from './errors.js';

/** The objects of all open sessions of this module. */
const held = new WeakSet<object>();
/** The sessions themselves, by what they are named. */
const heldSessions = new Set<string>();

/**
 * Claims all of these objects, and the session where it is named, or nothing. The same object twice in
 * one claim is fine.
 * @returns frees them; call it once
 * @throws `resource-reused`, naming the first object that is held
 */
export function claim(objects: readonly object[], session?: string): () => void {
  const taken = objects.find((object) => held.has(object));
  if (taken !== undefined) {
    throw new RuntimeParticipantError('resource-reused', `${nameOf(taken)} belongs to another open session`);
  }
  if (session !== undefined && heldSessions.has(session))
    throw new RuntimeParticipantError('resource-reused', `the session ${session} is open already`);
  for (const object of objects) held.add(object);
  if (session !== undefined) heldSessions.add(session);
  return () => {
    for (const object of objects) held.delete(object);
    if (session !== undefined) heldSessions.delete(session);
  };
}

function nameOf(object: object): string {
  const { getName } = object as { getName?: unknown };
  if (typeof getName === 'function') {
    try {
      const name: unknown = getName.call(object);
      if (typeof name === 'string' && name !== '') return name;
    } catch {
      // The object's own trouble; it has other names.
    }
  }
  const { name } = object as { name?: unknown };
  if (typeof name === 'string' && name !== '') return name;
  const made: unknown = object.constructor?.name;
  return typeof made === 'string' && made !== '' && made !== 'Object' ? made : 'an object';
}
