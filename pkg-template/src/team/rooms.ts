/** Rooms of a stored team as text. */

import { currentEngine } from '../engine.js';
import { ask } from '../inspection/ask.js';
import type { ConversationStore } from '../store-types.js';
import { TeamThrown } from './errors.js';
import { readRecord } from './record.js';

/** One room's messages. */
export interface TeamRoomText {
  roomId: string;
  /** A file name without an ending: a digest of store, run and room, in which nothing of an id is left. */
  name: string;
  /** One line for each message: `sender [messageId] @mention: text`, everything unprintable escaped. */
  text: string;
  /** The same as JSON Lines. */
  jsonl: string;
}

/** The rooms of a team at a revision. */
export interface TeamRooms {
  revision: number;
  /** The name of a file that lists the rooms, without an ending. */
  index: string;
  /** In declared order. */
  rooms: TeamRoomText[];
}

/**
 * Renders a stored team's rooms; reads only. The same record gives the same bytes.
 * @throws TeamError `STORED_GRAPH_MISMATCH` for what is no team's record, `INVALID_EVENT`; RoundtableError `not-found`
 */
export async function renderTeamRooms(options: { store: ConversationStore; runId: string }): Promise<TeamRooms> {
  const { store, runId } = options;
  const batches = await readRecord(store, runId);
  const rendered = ask(
    (engine) => engine.renderTeamRooms(batches, store.identity ?? ''),
    currentEngine(),
    new TeamThrown(),
  );
  return JSON.parse(rendered) as TeamRooms;
}
