/** Room files of a stored team. Nothing of an id reaches a path, and nothing but its own files is touched. */

import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConversationStore } from '../store-types.js';
import { renderTeamRooms } from './rooms.js';

/** What {@link projectTeamRooms} takes. */
export interface ProjectTeamRoomsOptions {
  store: ConversationStore;
  runId: string;
  /** Made where it is missing. Keep it outside members' workspaces: it shows every room. */
  directory: string;
}

/** What was written. */
export interface ProjectedRooms {
  /** The last revision that was read; the run may have gone on meanwhile. */
  revision: number;
  /** In declared order. */
  files: {
    roomId: string;
    path: string;
    /** The twin in JSON Lines. */
    jsonl: string;
  }[];
  /** Lists run, revision and files; written last. Absent where there are no rooms. */
  index?: string;
}

/**
 * Rebuilds a stored team's room files. Each file is replaced as a whole, the set of them is not. Everything
 * is rendered before anything is written.
 * @throws TypeError for a blank directory; as `renderTeamRooms`; what the file system refuses
 */
export async function projectTeamRooms(options: ProjectTeamRoomsOptions): Promise<ProjectedRooms> {
  const { store, runId, directory } = options;
  if (typeof directory !== 'string' || directory.trim() === '') throw new TypeError('directory must not be blank');
  const { revision, index, rooms } = await renderTeamRooms({ store, runId });
  if (rooms.length === 0) return { revision, files: [] };
  await mkdir(directory, { recursive: true });
  const files: ProjectedRooms['files'] = [];
  for (const { roomId, name, text, jsonl } of rooms) {
    const path = join(directory, `${name}.txt`);
    const twin = join(directory, `${name}.jsonl`);
    await replace(path, text);
    await replace(twin, jsonl);
    files.push({ roomId, path, jsonl: twin });
  }
  const listed = rooms.map(({ roomId, name }) => ({ roomId, text: `${name}.txt`, jsonl: `${name}.jsonl` }));
  const path = join(directory, `${index}.json`);
  await replace(path, `${JSON.stringify({ runId, revision, rooms: listed })}\n`);
  return { revision, files, index: path };
}

/** A symlink at the path is replaced, not followed. */
async function replace(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  // Exclusive: one that is there already belongs to somebody else and stays.
  const file = await open(temporary, 'wx', 0o600);
  try {
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
