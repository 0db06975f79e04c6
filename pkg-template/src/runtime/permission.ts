/** The permission gate of a session: its rules, and the host's own decision where they say to ask. */

import { currentEngine } from '../engine.js';
import { RoundtableError } from '../errors.js';
import { BadValue, describe, isInstance, jsonText } from '../values.js';
import type { Permissions, SessionOptions } from './types.js';
import type { PermitCall } from './wire.js';

type Verdict = NonNullable<Permissions['default']>;

/** Says of a call whether it runs. */
export type Gate = (call: PermitCall) => Promise<Verdict>;

/**
 * The gate of a session's options. Rules that are no function are read once, now.
 * @throws `invalid-config`
 */
export function readGate(options: SessionOptions): Gate {
  const { permissions = {}, decide } = options;
  if (decide !== undefined && typeof decide !== 'function')
    throw new BadValue('decide', `must be a function, not ${describe(decide)}`);
  const rules = typeof permissions === 'function' ? permissions : constant(permissions);
  return async (call) => {
    const said = verdictOf(ruleText(await rules()), call.toolName);
    if (said !== 'ask' || decide === undefined) return said;
    const decided: unknown = await decide.call(options, call);
    if (decided === 'allow' || decided === 'ask' || decided === 'deny') return decided;
    throw new RoundtableError(
      'invalid-config',
      `decide must return 'allow', 'ask' or 'deny', not ${describe(decided)}`,
    );
  };
}

function constant(permissions: Permissions): () => Permissions {
  const kept = ruleText(permissions);
  verdictOf(kept, '');
  const copy = JSON.parse(kept) as Permissions;
  return () => copy;
}

function ruleText(permissions: unknown): string {
  try {
    return jsonText(permissions, 'permissions');
  } catch (error) {
    throw isInstance(error, BadValue) ? new RoundtableError('invalid-config', error.message) : error;
  }
}

function verdictOf(rules: string, toolName: string): Verdict {
  try {
    return currentEngine().engine.permissionFor(rules, toolName) as Verdict;
  } catch (error) {
    throw typeof error === 'string' ? new RoundtableError('invalid-config', error) : error;
  }
}
