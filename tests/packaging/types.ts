// Compiled, never run: a consumer's use of the public types.
import {
  createReplayProvider,
  createReplayProviderFromSource,
  decodeSessionLog,
  init,
  ReplayError,
  recordProvider,
  version,
  type ChatProvider,
  type ReplayProvider,
} from 'agent-roundtable';
import { createReplayProviderFromNodeLogFile, nodePayloadSource } from 'agent-roundtable/node';

const ready: Promise<void> = init();
const text: string = version();
// @ts-expect-error: the version is a string, and no `any` hides it
const wrong: number = version();

// Replay: a provider like any other, from a log, a source or a file.
const externalPayloadSource = nodePayloadSource('.');
const provider: ReplayProvider = createReplayProvider({ entries: decodeSessionLog(''), externalPayloadSource });
const chat: ChatProvider = recordProvider(provider, {
  sessionId: 's',
  write: (line: string) => console.log(line),
});
const loaded: Promise<ReplayProvider> = createReplayProviderFromSource({ readText: () => '', externalPayloadSource });
const fromFile: Promise<ReplayProvider> = createReplayProviderFromNodeLogFile('log.jsonl', { match: 'strict' });
// @ts-expect-error R38: a bare path is no source
const bare = createReplayProviderFromSource('log.jsonl');
// @ts-expect-error: promises are for createReplayProviderFromSource
const waiting = createReplayProvider({ entries: [], externalPayloadSource: { readBytes: async () => undefined } });
const code: 'LOG_EXHAUSTED' | 'REQUEST_MISMATCH' | 'LOG_NOT_FOUND' | 'LOG_NOT_EXHAUSTED' = new ReplayError(
  'LOG_EXHAUSTED',
  '',
).code;

export { bare, chat, code, fromFile, loaded, waiting };
export { ready, text, wrong };
