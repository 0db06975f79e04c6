/**
 * Host values on their way to the decoder: JSON text, and marks for everything in them that is no JSON, so
 * that the decoder can name it with its path. Each member is read once.
 */

import { isPlain, isWellFormed, MAX_DEPTH, toWellFormed } from '../values.js';

/** JSON text in which `null` stands for what is no JSON, and three numbers for each such place. */
export interface Live {
  json: string;
  marks: Float64Array;
}

/** How many holes of one array are marked; a sparse array can be longer than memory. */
const MAX_HOLES = 1000;

/** The kinds of things that are no JSON, numbered as in `replay::wire` of the crate. */
const DATE = 0;
const CYCLE = 1;
const HOLE = 2;
const INSTANCE = 3;
const FUNCTION = 4;
const SYMBOL = 5;
const BIGINT = 6;
const NON_FINITE = 7;
const UNDEFINED = 8;
const TOO_DEEP = 9;
const LONE_SURROGATE = 10;

/** Writes a value down, `maxDepth` arrays and objects of it. */
export function live(value: unknown, maxDepth = MAX_DEPTH): Live {
  const writer = new Writer(maxDepth);
  const json = writer.write(value);
  return { json, marks: Float64Array.from(writer.marks) };
}

class Writer {
  readonly marks: number[] = [];
  readonly #above: object[] = [];
  readonly #maxDepth: number;
  #position = 0;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  write(value: unknown): string {
    switch (typeof value) {
      case 'string':
        return isWellFormed(value) ? this.#plain(JSON.stringify(value)) : this.#mark(LONE_SURROGATE);
      case 'number':
        return Number.isFinite(value) ? this.#plain(String(value)) : this.#mark(NON_FINITE);
      case 'boolean':
        return this.#plain(value ? 'true' : 'false');
      case 'undefined':
        return this.#mark(UNDEFINED);
      case 'function':
        return this.#mark(FUNCTION);
      case 'symbol':
        return this.#mark(SYMBOL);
      case 'bigint':
        return this.#mark(BIGINT);
      default:
        return value === null ? this.#plain('null') : this.#object(value as object);
    }
  }

  #object(value: object): string {
    if (this.#above.includes(value)) return this.#mark(CYCLE);
    const array = Array.isArray(value);
    if (!array && !isPlain(value)) {
      const ms = dateMs(value);
      return ms === undefined ? this.#mark(INSTANCE) : this.#mark(DATE, ms);
    }
    if (this.#above.length >= this.#maxDepth) return this.#mark(TOO_DEEP);
    this.#above.push(value);
    this.#position += 1;
    const text = array ? `[${this.#elements(value as unknown[]).join(',')}]` : `{${this.#members(value).join(',')}}`;
    this.#above.pop();
    return text;
  }

  #elements(array: unknown[]): string[] {
    const parts: string[] = [];
    let holes = 0;
    for (let index = 0; index < array.length && holes < MAX_HOLES; index += 1) {
      if (Object.hasOwn(array, index)) {
        parts.push(this.write(array[index]));
      } else {
        holes += 1;
        parts.push(this.#mark(HOLE));
      }
    }
    return parts;
  }

  #members(object: object): string[] {
    const parts: string[] = [];
    for (const key of Object.keys(object)) {
      const property = Object.getOwnPropertyDescriptor(object, key);
      if (property === undefined || ('value' in property && property.value === undefined)) continue;
      const name = JSON.stringify(isWellFormed(key) ? key : toWellFormed(key));
      let text: string;
      if (!isWellFormed(key)) text = this.#mark(LONE_SURROGATE);
      else text = 'value' in property ? this.write(property.value) : this.#mark(INSTANCE);
      parts.push(`${name}:${text}`);
    }
    return parts;
  }

  #plain(text: string): string {
    this.#position += 1;
    return text;
  }

  #mark(kind: number, ms = 0): string {
    this.marks.push(this.#position, kind, ms);
    this.#position += 1;
    return 'null';
  }
}

/** The instant of a date of any realm. */
function dateMs(value: object): number | undefined {
  try {
    return Date.prototype.getTime.call(value);
  } catch {
    return undefined;
  }
}

/** Writes a list of entries down: each may be as deep as a line. */
export function liveEntries(entries: unknown): Live {
  return live(entries, MAX_DEPTH + 1);
}
