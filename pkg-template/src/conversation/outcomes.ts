/** What participants and selectors return, checked member by member and written as text. */

import {
  BadValue,
  describe,
  elements,
  exactly,
  identifier,
  jsonText,
  MAX_CONTENT,
  MAX_TEXT,
  members,
  only,
  text,
} from '../values.js';

/** How many members a group may have. */
const MAX_GROUP = 256;
/** How many requests one turn may make. */
const MAX_REQUESTS = 64;

/** A checked outcome: the words of a speaker, or the JSON of another kind. */
export type CheckedOutcome = { readonly content: string } | { readonly json: string };

/** @throws BadValue naming the member that is wrong */
export function checkOutcome(value: unknown): CheckedOutcome {
  const found = members(value, 'outcome');
  const kind = found.get('kind');
  switch (kind) {
    case 'speak': {
      only(found, 'outcome', ['kind', 'content']);
      return { content: text(found.get('content'), 'outcome.content', MAX_CONTENT) };
    }
    case 'yield':
      only(found, 'outcome', ['kind']);
      return { json: '{"kind":"yield"}' };
    case 'failed': {
      only(found, 'outcome', ['kind', 'message']);
      return { json: JSON.stringify({ kind, message: text(found.get('message'), 'outcome.message', MAX_TEXT) }) };
    }
    case 'wait': {
      only(found, 'outcome', ['kind', 'requests']);
      const requests = elements(found.get('requests'), 'outcome.requests', MAX_REQUESTS);
      const written = requests.map((request, index) => checkRequest(request, `outcome.requests[${index}]`));
      return { json: `{"kind":"wait","requests":[${written.join(',')}]}` };
    }
    default:
      throw unknownKind('outcome', kind);
  }
}

/** @throws BadValue naming the member that is wrong */
export function checkSelection(value: unknown): string {
  const found = members(value, 'selection');
  const kind = found.get('kind');
  switch (kind) {
    case 'speak': {
      only(found, 'selection', ['kind', 'participantId']);
      return JSON.stringify({
        kind,
        participantId: identifier(found.get('participantId'), 'selection.participantId'),
      });
    }
    case 'parallel': {
      only(found, 'selection', ['kind', 'participantIds']);
      const ids = elements(found.get('participantIds'), 'selection.participantIds', MAX_GROUP);
      const checked = ids.map((id, index) => identifier(id, `selection.participantIds[${index}]`));
      return JSON.stringify({ kind, participantIds: checked });
    }
    case 'wait': {
      only(found, 'selection', ['kind', 'participantId', 'reason']);
      const participantId = identifier(found.get('participantId'), 'selection.participantId');
      return JSON.stringify({ kind, participantId, reason: text(found.get('reason'), 'selection.reason', MAX_TEXT) });
    }
    case 'finish': {
      only(found, 'selection', ['kind', 'reason']);
      return JSON.stringify({ kind, reason: text(found.get('reason'), 'selection.reason', MAX_TEXT) });
    }
    default:
      throw unknownKind('selection', kind);
  }
}

/** @throws BadValue naming the member that is wrong */
export function checkCheckpoint(value: unknown): string {
  const found = exactly(value, 'checkpoint', ['version', 'data'], ['append']);
  const version = JSON.stringify(identifier(found.get('version'), 'checkpoint.version'));
  const head = `{"version":${version},"data":${jsonText(found.get('data'), 'checkpoint.data')}`;
  if (!found.has('append')) return `${head}}`;
  const append = elements(found.get('append'), 'checkpoint.append', Number.MAX_SAFE_INTEGER);
  const written = append.map((item, index) => jsonText(item, `checkpoint.append[${index}]`));
  return `${head},"append":[${written.join(',')}]}`;
}

function checkRequest(value: unknown, path: string): string {
  const found = members(value, path);
  const kind = found.get('kind');
  const own = kind === 'input' ? 'participantId' : 'data';
  if (kind !== 'input' && kind !== 'approval' && kind !== 'reconciliation') throw unknownKind(path, kind);
  only(found, path, ['id', 'reason', 'kind', own]);
  const id = JSON.stringify(identifier(found.get('id'), `${path}.id`));
  const reason = JSON.stringify(text(found.get('reason'), `${path}.reason`, MAX_TEXT));
  const rest =
    own === 'data'
      ? jsonText(found.get('data'), `${path}.data`)
      : JSON.stringify(identifier(found.get('participantId'), `${path}.participantId`));
  return `{"id":${id},"reason":${reason},"kind":"${kind}","${own}":${rest}}`;
}

function unknownKind(path: string, kind: unknown): BadValue {
  const shown = typeof kind === 'string' ? JSON.stringify(kind.slice(0, 64)) : describe(kind);
  return new BadValue(`${path}.kind`, `is ${shown}, which is not a known kind`);
}
