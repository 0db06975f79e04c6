/** Teams: what `createTeam` and `loadTeam` give. */

import { readResponse, revision } from '../conversation/calls.js';
import { checked } from '../conversation/engine-handle.js';
import { isInside } from '../conversation/inside.js';
import { messageOf } from '../conversation/thrown.js';
import { ReleaseError } from '../errors.js';
import { ask } from '../inspection/ask.js';
import { BadValue, deepFreeze, describe, exactly, identifier } from '../values.js';
import { compiledText } from './compile.js';
import { TeamError, TeamThrown } from './errors.js';
import { readLoadOptions, readTeamOptions } from './options.js';
import { TeamPorts } from './ports.js';
import { readRecord } from './record.js';
import type { LoadTeamOptions, Team, TeamOptions, TeamOutcome, TeamSnapshot } from './types.js';

/**
 * A team. Nothing is stored and nothing is called before the first `run()`; where the store has a record
 * of this run, definition and options must be its own, and the team goes on from there.
 * @throws TeamError `INVALID_TEAM` listing every finding, RoundtableError `invalid-config` naming the option
 */
export function createTeam(options: TeamOptions): Team {
  return team(new TeamPorts(readTeamOptions(options)));
}

/**
 * A stored team, under the definition and the options of its record.
 * @throws TeamError `STORED_GRAPH_MISMATCH`, `INVALID_EVENT`; RoundtableError `not-found`, `invalid-config`
 */
export async function loadTeam(options: LoadTeamOptions): Promise<Team> {
  const batches = await readRecord(options.store, options.runId);
  const read = ask((engine) => engine.teamMembers(batches), undefined, new TeamThrown());
  const [, definition] = JSON.parse(read) as [string[], unknown];
  const stored = compiledText(definition);
  if (options.definition !== undefined && compiledText(options.definition) !== stored) {
    const message = 'the record is of another definition';
    throw new TeamError('STORED_GRAPH_MISMATCH', message, [{ code: 'STORED_GRAPH_MISMATCH', path: '', message }]);
  }
  return team(new TeamPorts(readLoadOptions(options, stored), batches));
}

function team(ports: TeamPorts): Team {
  const made = new TeamRun(ports);
  // Defined only where the symbol exists; without it there is no `await using` either.
  if (typeof Symbol.asyncDispose === 'symbol') {
    Object.defineProperty(made, Symbol.asyncDispose, { value: () => made.dispose() });
  }
  return made as unknown as Team;
}

class TeamRun implements Omit<Team, typeof Symbol.asyncDispose> {
  readonly #ports: TeamPorts;
  readonly #signals = new Set<AbortSignal>();
  #snapshot: TeamSnapshot | undefined;
  #disposal: Promise<void> | undefined;

  constructor(ports: TeamPorts) {
    this.#ports = ports;
    ports.cancelReason = () => [...this.#signals].find(({ aborted }) => aborted)?.reason as unknown;
  }

  async run(options?: { signal?: AbortSignal }): Promise<TeamOutcome> {
    return await this.#call('"run"', options);
  }

  async resume(input: Parameters<Team['resume']>[0], options?: { signal?: AbortSignal }): Promise<TeamOutcome> {
    return await this.#call(`{"resume":${checked(() => resumeRequest(input))}}`, options);
  }

  snapshot(): TeamSnapshot {
    return this.#ports.engine.read((engine) => {
      if (this.#snapshot?.revision !== engine.revision() || engine.revision() === 0) {
        this.#snapshot = deepFreeze(JSON.parse(engine.snapshot()) as TeamSnapshot);
      }
      return this.#snapshot;
    });
  }

  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    if (!isInside(this.#ports)) return this.#disposal;
    // The caller is awaited by what is being disposed.
    this.#disposal.catch(() => {});
    return Promise.resolve();
  }

  async #dispose(): Promise<void> {
    await this.#request('"dispose"');
    const failures = await this.#ports.releaseSessions();
    this.#ports.close();
    this.#ports.engine.free();
    if (failures.length > 0) throw new ReleaseError(failures, failures.map(messageOf));
  }

  async #call(request: string, options: unknown): Promise<TeamOutcome> {
    const signal = checked(() => readSignal(options));
    let call = -1;
    const abort = (): void => this.#ports.engine.use((engine) => engine.input(`{"aborted":{"call":${call}}}`));
    try {
      const reply = await this.#request(request, (number) => {
        call = number;
        if (signal === undefined) return;
        this.#signals.add(signal);
        signal.addEventListener('abort', abort);
        if (signal.aborted) queueMicrotask(abort);
      });
      return JSON.parse(reply) as TeamOutcome;
    } finally {
      if (signal !== undefined) this.#signals.delete(signal);
      signal?.removeEventListener('abort', abort);
    }
  }

  #request(request: string, started?: (call: number) => void): Promise<string> {
    return this.#ports.engine.call((engine, call) => {
      engine.input(`{"called":{"call":${call},"request":${request}}}`);
    }, started);
  }
}

function readSignal(options: unknown): AbortSignal | undefined {
  if (options === undefined) return undefined;
  const signal = exactly(options, 'options', [], ['signal']).get('signal');
  if (signal === undefined || signal instanceof AbortSignal) return signal as AbortSignal | undefined;
  throw new BadValue('signal', `must be an AbortSignal, not ${describe(signal)}`);
}

function resumeRequest(input: unknown): string {
  const optional = ['position', 'requestId', 'responseId', 'response', 'expectedRevision', 'by'];
  const given = exactly(input, 'input', [], optional);
  if (!given.has('position') && !given.has('requestId')) throw new BadValue('input', 'needs a position or a requestId');
  const parts = ['requestId', 'responseId', 'by']
    .filter((key) => given.has(key))
    .map((key) => `"${key}":${JSON.stringify(identifier(given.get(key), key))}`);
  if (given.has('position')) {
    const position = given.get('position');
    if (typeof position !== 'string') throw new BadValue('position', `must be a string, not ${describe(position)}`);
    parts.push(`"position":${JSON.stringify(position)}`);
  }
  if (given.has('response')) parts.push(`"response":${readResponse(given.get('response'))}`);
  if (given.has('expectedRevision')) parts.push(`"expectedRevision":${revision(given.get('expectedRevision'))}`);
  return `{${parts.join(',')}}`;
}
