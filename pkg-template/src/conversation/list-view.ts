/** The beginning of a list that only grows, as an array of its own that costs nothing until it is read through. */

/**
 * An array with the first `length` elements of `source`. Reading its length and single elements copies
 * nothing; whatever else is done with it is done with a copy, made then, so that no change is seen
 * elsewhere.
 */
export function listView<T>(source: readonly T[], length: number): T[] {
  return new Proxy<T[]>([], new View(source, length));
}

class View<T> implements ProxyHandler<T[]> {
  readonly #source: readonly T[];
  readonly #length: number;
  #copied = false;

  constructor(source: readonly T[], length: number) {
    this.#source = source;
    this.#length = length;
  }

  get(target: T[], key: string | symbol): unknown {
    if (!this.#copied && typeof key === 'string') {
      if (key === 'length') return this.#length;
      const index = Number(key);
      if (String(index) === key) return index < this.#length ? this.#source[index] : undefined;
    }
    const value: unknown = Reflect.get(this.#copy(target), key);
    // Methods work on the copy itself, at the speed of any array.
    return typeof value === 'function' && key !== 'constructor' ? value.bind(target) : value;
  }

  set(target: T[], key: string | symbol, value: unknown): boolean {
    return Reflect.set(this.#copy(target), key, value);
  }

  has(target: T[], key: string | symbol): boolean {
    return Reflect.has(this.#copy(target), key);
  }

  deleteProperty(target: T[], key: string | symbol): boolean {
    return Reflect.deleteProperty(this.#copy(target), key);
  }

  ownKeys(target: T[]): (string | symbol)[] {
    return Reflect.ownKeys(this.#copy(target));
  }

  getOwnPropertyDescriptor(target: T[], key: string | symbol): PropertyDescriptor | undefined {
    return Reflect.getOwnPropertyDescriptor(this.#copy(target), key);
  }

  defineProperty(target: T[], key: string | symbol, property: PropertyDescriptor): boolean {
    return Reflect.defineProperty(this.#copy(target), key, property);
  }

  preventExtensions(target: T[]): boolean {
    return Reflect.preventExtensions(this.#copy(target));
  }

  #copy(target: T[]): T[] {
    if (!this.#copied) {
      this.#copied = true;
      for (let index = 0; index < this.#length; index++) target.push(this.#source[index] as T);
    }
    return target;
  }
}
