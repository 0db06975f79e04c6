/** Session logs: decoding, loading, and what is read off them. */

import type { ChatMessage } from '../runtime/types.js';
import type { SessionLogHandle } from '../generated/bindings.js';
import { deepFreeze } from '../values.js';
import { decodedLog, loadAtOnce, loadLog, remember, startText } from './load.js';
import type { DecodeOptions, PayloadLimits, SessionLogSource } from './sources.js';

/** One entry of a session log. Its messages have dates for timestamps; everything else is as it was recorded. */
export interface SessionLogEntry {
  readonly schemaVersion: 1;
  readonly timestamp: string;
  readonly sessionId: string;
  readonly event: string;
  readonly [key: string]: unknown;
}

/**
 * Decodes the text of a session log.
 * @throws SessionLogDecodeError where a line is no JSON or an entry is not valid; nothing is skipped
 * @throws SessionLogPayloadResolutionError where a reference cannot be resolved
 */
export function decodeSessionLog(text: string, options: DecodeOptions = {}): readonly SessionLogEntry[] {
  return entriesOf(loadAtOnce(startText(text, options, options.externalPayloadSource), options.externalPayloadSource));
}

/**
 * Loads a session log whose payloads may have to be awaited.
 * @throws what {@link decodeSessionLog} throws, and what the source throws
 */
export async function loadSessionLog(
  source: SessionLogSource,
  options: PayloadLimits = {},
): Promise<readonly SessionLogEntry[]> {
  return entriesOf(await loadLog(source, options));
}

/** What a log lacks of what belongs to its requests. */
export interface CompletenessIssue {
  code:
    | 'PROVIDER_NATIVE_RAW_PAYLOAD_MISSING'
    | 'PROVIDER_RESPONSE_RAW_MISSING'
    | 'PROVIDER_RESPONSE_NORMALIZED_MISSING'
    | 'TOOL_RESULT_MISSING'
    | 'PAYLOAD_REFERENCE_INVALID'
    | 'UNRESOLVED_REPLAY_PAYLOAD';
  message: string;
  eventIndex?: number;
  executionId?: string;
  round?: number;
  toolCallId?: string;
}

/**
 * Checks that every request has its native payload, raw response, normalized response, and every tool
 * request its result.
 * @throws SessionLogDecodeError where the entries do not decode
 */
export function validateSessionLog(entries: readonly unknown[]): { ok: boolean; issues: CompletenessIssue[] } {
  const issues = JSON.parse(decodedLog(entries).completeness()) as CompletenessIssue[];
  return { ok: issues.length === 0, issues };
}

/** A message as an entry of a history. */
export interface HistoryEntry {
  id: string;
  timestamp: Date;
  category: 'chat';
  type: ChatMessage['role'];
  data: ChatMessage;
}

/** A conversation as its log records it. */
export interface RebuiltHistory {
  /** The session of the first entry. */
  sessionId?: string;
  /** The directory of the last `session_init`. */
  cwd?: string;
  /** The timestamp of the first entry. */
  createdAt?: string;
  /** The timestamp of the last entry. */
  updatedAt?: string;
  messages: ChatMessage[];
  history: HistoryEntry[];
  backgroundTaskEvents: object[];
  backgroundJobGroupEvents: object[];
  memoryEvents: object[];
}

/**
 * Rebuilds the history of a conversation from its log.
 * @throws SessionLogDecodeError where the entries do not decode
 */
export function rebuildHistory(entries: readonly unknown[]): RebuiltHistory {
  const told = JSON.parse(decodedLog(entries).history()) as Omit<RebuiltHistory, 'history'>;
  for (const message of told.messages) reviveMessage(message);
  const history = told.messages.map((message): HistoryEntry => {
    const { id, timestamp, role } = message;
    return { id, timestamp, category: 'chat', type: role, data: { ...message } };
  });
  return { ...told, history };
}

/** Makes the timestamp of a message that left the engine a date. */
export function reviveMessage(message: { timestamp: unknown }): ChatMessage {
  message.timestamp = new Date(message.timestamp as string);
  return message as ChatMessage;
}

/** A list of the log's entries, each made when it is first looked at. */
function entriesOf(log: SessionLogHandle): readonly SessionLogEntry[] {
  const entries: SessionLogEntry[] = [];
  for (let index = 0; index < log.length; index += 1) {
    let entry: SessionLogEntry | undefined;
    Object.defineProperty(entries, index, {
      enumerable: true,
      get: () => {
        entry ??= entryAt(log, index);
        return entry;
      },
    });
  }
  remember(entries, log);
  return Object.freeze(entries);
}

/** Members under which entries hold messages, and the one event whose members are its own. */
const MESSAGES = ['message', 'response', 'messages', 'history'];
const FREE_FORM = 'server_tool';

function entryAt(log: SessionLogHandle, index: number): SessionLogEntry {
  const entry = JSON.parse(log.entry(index) ?? 'null') as { event: string; [key: string]: unknown };
  if (entry.event !== FREE_FORM) {
    for (const key of MESSAGES) {
      const held = entry[key];
      for (const message of Array.isArray(held) ? held : [held]) {
        if (typeof message === 'object' && message !== null) reviveMessage(message);
      }
    }
  }
  // What the list shows must stay what the log holds.
  return deepFreeze(entry) as unknown as SessionLogEntry;
}
