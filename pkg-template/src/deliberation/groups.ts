/** Groups in memory: what backs sessions where a host gives no groups of its own. */

import { DeliberationError } from './errors.js';
import type { BackingGroup, GroupPort } from './types.js';

/** Groups that a test can look into. They are invite-only, and locked: who is in them follows from the session. */
export interface InProcessGroups extends GroupPort {
  /** The group, or `undefined`. */
  get(groupId: string): BackingGroup | undefined;
  /** The ids of all groups. */
  ids(): string[];
  /** @throws DeliberationError `forbidden`, always: the roster is the session's */
  edit(groupId: string, by: string): Promise<never>;
}

/** Keeps groups as long as the object lives. */
export function inProcessGroups(): InProcessGroups {
  const groups = new Map<string, BackingGroup>();
  return {
    put: async (group) => {
      groups.set(group.id, Object.freeze({ ...group, members: Object.freeze([...group.members]) }));
    },
    delete: async (groupId, by) => {
      const group = groups.get(groupId);
      if (group !== undefined && group.owner !== by)
        throw new DeliberationError('forbidden', 'only its owner deletes a group');
      groups.delete(groupId);
    },
    get: (groupId) => groups.get(groupId),
    ids: () => [...groups.keys()],
    edit: async () => {
      throw new DeliberationError('forbidden', 'the members of this group are those of its session');
    },
  };
}
