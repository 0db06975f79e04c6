// How fast the demo shows things, and how long the engine took.

/** Pauses that make recorded text readable while it comes, and how long they took: that is not the engine's time. */
export class Pace {
  #ms;
  #open = 0;
  #since = 0;
  /** Milliseconds during which at least one pause was on. */
  paused = 0;

  /** @param {number} ms before each piece of text; 0 for none */
  constructor(ms) {
    this.#ms = ms;
  }

  /** The same provider, slower. */
  slow(provider) {
    if (this.#ms === 0) return provider;
    const pause = () => this.#pause();
    return {
      name: provider.name,
      chat: (messages, options) => provider.chat(messages, options),
      async *chatStream(messages, options) {
        for await (const message of provider.chatStream(messages, options)) {
          await pause();
          yield message;
        }
      },
    };
  }

  async #pause() {
    if (this.#open === 0) this.#since = performance.now();
    this.#open += 1;
    await new Promise((resolve) => setTimeout(resolve, this.#ms));
    this.#open -= 1;
    if (this.#open === 0) this.paused += performance.now() - this.#since;
  }
}

/** The time that some calls took together. */
export class Stopwatch {
  ms = 0;

  /**
   * @template T
   * @param {Promise<T>} promise of a call that was just made
   */
  async during(promise) {
    const start = performance.now();
    try {
      return await promise;
    } finally {
      this.ms += performance.now() - start;
    }
  }
}
