/** A function's wait for its host. */

import { describe, jsonText, MAX_TEXT, BadValue, text } from '../values.js';

/** Returned by a member's function to wait; made by the `pause` of its options. */
export class TeamPause {
  readonly reason: string;
  /** JSON. */
  readonly request: string;

  /** @throws BadValue */
  constructor(reason: unknown, request: unknown) {
    this.reason = text(reason, 'pause: reason', MAX_TEXT);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
    if (/^$|[\u0000-\u001f\u007f-\u009f]/.test(this.reason)) {
      throw new BadValue('pause: reason', `must not be empty or hold control characters, it is ${describe(reason)}`);
    }
    this.request = jsonText(request ?? null, 'pause: request');
  }
}
