/** The published transcript as text. */

import { checked } from '../conversation/engine-handle.js';
import type { ConversationSnapshot } from '../types.js';
import { BadValue, describe, elements, unboundedJsonText } from '../values.js';
import { ask } from './ask.js';

/**
 * The transcript of a snapshot: for people as Markdown, in which every line that was said is quoted, so
 * that no content makes a header; or for programs as JSON Lines, one for the conversation, one for each
 * message and one for each turn, told apart by `type`. The same snapshot gives the same text, every line
 * of it ended by LF.
 * @throws RoundtableError `invalid-config` naming what the snapshot lacks
 */
export function exportTranscript(snapshot: ConversationSnapshot, format: 'markdown' | 'jsonl'): string {
  const text = checked(() => {
    if (format !== 'markdown' && format !== 'jsonl') throw new BadValue('format', "must be 'markdown' or 'jsonl'");
    return snapshotText(snapshot);
  });
  return ask((engine) => engine.exportTranscript(text, format === 'markdown'));
}

function snapshotText(snapshot: unknown): string {
  if (typeof snapshot !== 'object' || snapshot === null) {
    throw new BadValue('snapshot', `must be an object, not ${describe(snapshot)}`);
  }
  const given = snapshot as Record<string, unknown>;
  const members: string[] = [];
  const add = (key: string, text: string): void => void members.push(`"${key}":${text}`);
  for (const key of ['conversationId', 'revision', 'status', 'purpose']) {
    if (given[key] !== undefined) add(key, unboundedJsonText(given[key], `snapshot.${key}`));
  }
  for (const key of ['participants', 'messages', 'turns']) {
    const path = `snapshot.${key}`;
    const list = elements(given[key], path, Number.MAX_SAFE_INTEGER);
    add(key, `[${list.map((element, index) => unboundedJsonText(element, `${path}[${index}]`, 4)).join(',')}]`);
  }
  return `{${members.join(',')}}`;
}
