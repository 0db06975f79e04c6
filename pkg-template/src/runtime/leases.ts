/** Who holds which provider, tool or options object. An object belongs to one open session at a time. */

import { RuntimeParticipantError } from './errors.js';

/** The objects of all open sessions of this module. */
const held = new WeakSet<object>();

/**
 * The name of a session, which one session has at a time in each store. Of a conversation's sessions it is the one
 * whose turn runs: between turns any handle on the record may act, and the record's claim decides which. One whose
 * turn has just parked gives its name up in any case, so that the wait may be taken over from its checkpoint.
 */
export class SessionName {
  static readonly #holders = new Map<string, SessionName>();
  readonly #name: string;
  readonly #key: string;
  readonly #hasRecord: boolean;
  #released = false;

  constructor(name: string, place: string) {
    this.#name = name;
    this.#key = JSON.stringify([place, name]);
    this.#hasRecord = place !== '';
  }

  /** Does nothing for a session that was released. @throws `resource-reused` where another open session has it */
  take(): void {
    if (this.#released) return;
    const holder = SessionName.#holders.get(this.#key);
    if (holder !== undefined && holder !== this)
      throw new RuntimeParticipantError('resource-reused', `the session ${this.#name} is open already`);
    SessionName.#holders.set(this.#key, this);
  }

  /** The session is open and runs no turn yet, or a turn of it is over, or parked. */
  rest(isParked = false): void {
    if (isParked || this.#hasRecord) this.giveUp();
  }

  giveUp(): void {
    if (SessionName.#holders.get(this.#key) === this) SessionName.#holders.delete(this.#key);
  }

  release(): void {
    this.#released = true;
    this.giveUp();
  }
}

/** What a participant's session in a conversation is called. */
export function sessionIdOf(conversationId: string, participantId: string): string {
  return JSON.stringify([conversationId, participantId]);
}

/**
 * Claims all of these objects, or nothing. The same object twice in one claim is fine.
 * @returns frees them, and the session's name where it has one; call it once
 * @throws `resource-reused`, naming the first object that is held
 */
export function claim(objects: readonly object[], session?: SessionName): () => void {
  const taken = objects.find((object) => held.has(object));
  if (taken !== undefined) {
    throw new RuntimeParticipantError('resource-reused', `${nameOf(taken)} belongs to another open session`);
  }
  for (const object of objects) held.add(object);
  return () => {
    for (const object of objects) held.delete(object);
    session?.release();
  };
}

/** What an object calls itself, or its class, or neither; the object's own trouble with its names is ignored. */
function nameOf(object: object): string {
  const names: (() => unknown)[] = [
    () => (object as { getName?: () => unknown }).getName?.(),
    () => (object as { name?: unknown }).name,
    () => (object.constructor === Object ? undefined : object.constructor?.name),
  ];
  for (const read of names) {
    try {
      const name = read();
      if (typeof name === 'string' && name !== '') return name;
    } catch {
      // It has others.
    }
  }
  return 'an object';
}
