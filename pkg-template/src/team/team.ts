/** Teams: what `createTeam` and `loadTeam` give. The driver is loaded by the first call. */

import { readResponse, revision } from '../conversation/calls.js';
import { checked, EngineHandle } from '../conversation/engine-handle.js';
import { isInside } from '../conversation/inside.js';
import { messageOf } from '../conversation/thrown.js';
import type { Engine } from '../engine.js';
import { ReleaseError } from '../errors.js';
import { ask } from '../inspection/ask.js';
import { BadValue, deepFreeze, describe, exactly, identifier } from '../values.js';
import { compiledText } from './compile.js';
import { TeamEngine } from './engine.js';
import { TeamError, TeamThrown } from './errors.js';
import { readLoadOptions, type ReadTeamOptions, readTeamOptions } from './options.js';
import type { TeamPorts } from './ports.js';
import { readRecord } from './record.js';
import type { LoadTeamOptions, Team, TeamOptions, TeamOutcome, TeamSnapshot } from './types.js';

/**
 * A team. Nothing is stored and nothing is called before the first `run()`; where the store has a record
 * of this run, definition and options must be its own, and the team goes on from there.
 * @throws TeamError `INVALID_TEAM` listing every finding, RoundtableError `invalid-config` naming the option
 */
export function createTeam(options: TeamOptions): Team {
  return team(new LiveTeam(readTeamOptions(options)));
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
  return team(new LiveTeam(readLoadOptions(options, stored), batches));
}

function team(made: LiveTeam): Team {
  // Defined only where the symbol exists; without it there is no `await using` either.
  if (typeof Symbol.asyncDispose === 'symbol') {
    Object.defineProperty(made, Symbol.asyncDispose, { value: () => made.dispose() });
  }
  return made as unknown as Team;
}

class LiveTeam implements Omit<Team, typeof Symbol.asyncDispose> {
  readonly #options: ReadTeamOptions;
  readonly #thrown = new TeamThrown();
  readonly #engine: EngineHandle<TeamEngine, undefined>;
  readonly #signals = new Set<AbortSignal>();
  #ports: TeamPorts | undefined;
  #loading: Promise<TeamPorts> | undefined;
  #snapshot: TeamSnapshot | undefined;
  #disposal: Promise<void> | undefined;

  /** @param batches JSON of a record to go on with. @throws TeamError, RoundtableError */
  constructor(options: ReadTeamOptions, batches?: string) {
    this.#options = options;
    const make = (engine: Engine): TeamEngine => new TeamEngine(new engine.TeamHandle(options.setting, batches));
    this.#engine = new EngineHandle(make, undefined, this.#thrown, () => this.#ports?.close());
  }

  async run(options?: { signal?: AbortSignal }): Promise<TeamOutcome> {
    return await this.#call('"run"', options);
  }

  async resume(input: Parameters<Team['resume']>[0], options?: { signal?: AbortSignal }): Promise<TeamOutcome> {
    return await this.#call(`{"resume":${checked(() => resumeRequest(input))}}`, options);
  }

  snapshot(): TeamSnapshot {
    return this.#engine.read((engine) => {
      if (this.#snapshot?.revision !== engine.revision() || engine.revision() === 0) {
        this.#snapshot = deepFreeze(JSON.parse(engine.snapshot()) as TeamSnapshot);
      }
      return this.#snapshot;
    });
  }

  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    if (this.#ports === undefined || !isInside(this.#ports)) return this.#disposal;
    // The caller is awaited by what is being disposed.
    this.#disposal.catch(() => {});
    return Promise.resolve();
  }

  async #dispose(): Promise<void> {
    if (this.#loading === undefined) return this.#engine.free();
    const ports = await this.#loading;
    await this.#request('"dispose"');
    const failures = await ports.releaseSessions();
    ports.close();
    this.#engine.free();
    if (failures.length > 0) throw new ReleaseError(failures, failures.map(messageOf));
  }

  /** What performs effects. */
  #load(): Promise<TeamPorts> {
    const cancelReason = () => [...this.#signals].find(({ aborted }) => aborted)?.reason as unknown;
    this.#loading ??= import('./ports.js').then(({ TeamPorts }) => {
      this.#ports = new TeamPorts(this.#options, this.#engine, this.#thrown, cancelReason);
      return this.#ports;
    });
    return this.#loading;
  }

  async #call(request: string, options: unknown): Promise<TeamOutcome> {
    const signal = checked(() => readSignal(options));
    await this.#load();
    let call = -1;
    const abort = (): void => this.#engine.use((engine) => engine.input(`{"aborted":{"call":${call}}}`));
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
    return this.#engine.call((engine, call) => {
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
