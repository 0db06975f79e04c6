// Lets a test trap the engine where it wants: import this before the package.

const { Instance } = WebAssembly;
const armed = new Set();
let instances = 0;

class WatchedInstance extends Instance {
  constructor(...args) {
    super(...args);
    instances += 1;
  }

  get exports() {
    const entries = Object.entries(super.exports).map(([name, value]) => [
      name,
      typeof value === 'function' ? faulty(name, value) : value,
    ]);
    return Object.fromEntries(entries);
  }
}
WebAssembly.Instance = WatchedInstance;

function faulty(name, call) {
  return (...args) => {
    if (armed.delete(name)) throw new WebAssembly.RuntimeError('unreachable');
    return call(...args);
  };
}

/** The next call of this wasm export traps, as a panic in it would. */
export function trapNextCall(name) {
  armed.add(name);
}

/** How many instances of the engine were made so far. */
export function instanceCount() {
  return instances;
}
