/** `createDeliberations`, small: the rest is loaded by its first use, since most programs have none. */

import { readSettings } from './options.js';
import type { Deliberations, DeliberationsOptions } from './types.js';

const METHODS: readonly (keyof Deliberations)[] = [
  'create',
  'list',
  'get',
  'speak',
  'resolve',
  'takePosition',
  'decline',
  'handOver',
  'extend',
  'close',
  'expireStale',
  'purge',
  'deliverPending',
  'dispose',
];

/**
 * Facilitated discussions with a deadline on a store. Sweeps by itself, see `sweepIntervalMs`; `dispose()`
 * ends that.
 * @throws DeliberationError `invalid`, naming the option
 */
export function createDeliberations(options: DeliberationsOptions): Deliberations {
  const settings = readSettings(options);
  const loaded = import('./live.js').then(({ LiveDeliberations }) => new LiveDeliberations(settings));
  loaded.catch(() => {}); // told to whoever calls
  const call =
    (name: keyof Deliberations) =>
    async (...args: unknown[]) => {
      const live = (await loaded) as unknown as Record<string, (...args: unknown[]) => unknown>;
      return live[name]?.(...args);
    };
  return Object.fromEntries(METHODS.map((name) => [name, call(name)])) as unknown as Deliberations;
}
