/** The sessions of one conversation, each opened by its participant's factory and given back to it. */

import type {
  ParticipantExecutionOptions,
  ParticipantOutcome,
  ParticipantResponse,
  ParticipantSession,
  ParticipantTurn,
} from '../types.js';
import { BadValue, describe, isFunction } from '../values.js';
import { callHost } from './inside.js';
import type { AgentPorts } from './options.js';

type Done<T> = (value: T) => void;
type Failed = (error: unknown) => void;

/** What an opened session can do. */
export interface SessionTraits {
  readonly canResume: boolean;
  readonly canCheckpoint: boolean;
}

/** A session's functions as they were when it was opened. */
interface Session {
  readonly runTurn: ParticipantSession['runTurn'];
  readonly resumeTurn: ParticipantSession['resumeTurn'] | undefined;
  readonly checkpoint: ParticipantSession['checkpoint'] | undefined;
  readonly release: () => unknown;
}

const ignore = (): void => {};

/** Sessions by the numbers the engine gives them. */
export class Sessions {
  readonly #conversation: object;
  readonly #open = new Map<number, Session>();
  #isClosed = false;

  constructor(conversation: object) {
    this.#conversation = conversation;
  }

  open(
    number: number,
    agent: AgentPorts,
    context: Parameters<AgentPorts['openSession']>[0],
    done: Done<SessionTraits>,
    failed: Failed,
  ): void {
    const opened = (lease: unknown): void => {
      try {
        const session = readLease(lease);
        if (this.#isClosed) {
          callHost(this.#conversation, session.release, ignore, ignore);
          return;
        }
        this.#open.set(number, session);
        done({ canResume: session.resumeTurn !== undefined, canCheckpoint: session.checkpoint !== undefined });
      } catch (error) {
        failed(error);
      }
    };
    callHost<unknown>(this.#conversation, () => agent.openSession(context), opened, failed);
  }

  /** `responses` is absent for a new turn and present for one that continues. */
  run(
    number: number,
    turn: ParticipantTurn,
    responses: readonly ParticipantResponse[] | undefined,
    options: ParticipantExecutionOptions,
    done: Done<ParticipantOutcome>,
    failed: Failed,
  ): void {
    const call = (): Promise<ParticipantOutcome> => {
      const session = this.#get(number);
      if (responses === undefined) return session.runTurn(turn, options);
      if (session.resumeTurn === undefined) throw new BadValue('session.resumeTurn', 'is missing');
      return session.resumeTurn(turn, responses, options);
    };
    callHost(this.#conversation, call, done, failed);
  }

  checkpoint(number: number, done: Done<unknown>, failed: Failed): void {
    const call = (): unknown => {
      const session = this.#get(number);
      if (session.checkpoint === undefined) throw new BadValue('session.checkpoint', 'is missing');
      return session.checkpoint();
    };
    callHost(this.#conversation, call, done, failed);
  }

  release(number: number, done: () => void, failed: Failed): void {
    const session = this.#open.get(number);
    this.#open.delete(number);
    if (session === undefined) done();
    else callHost(this.#conversation, session.release, done, failed);
  }

  /** Nobody asks for a session any more: one that opens yet is released at once. */
  close(): void {
    this.#isClosed = true;
  }

  #get(number: number): Session {
    const session = this.#open.get(number);
    if (session === undefined) throw new BadValue('session', 'is not open');
    return session;
  }
}

function readLease(lease: unknown): Session {
  const { session, release } = object(lease, 'lease');
  if (!isFunction(release)) throw new BadValue('lease.release', `must be a function, not ${describe(release)}`);
  const host = object(session, 'lease.session');
  const { runTurn, resumeTurn, checkpoint } = host;
  if (!isFunction(runTurn)) throw new BadValue('session.runTurn', `must be a function, not ${describe(runTurn)}`);
  return {
    runTurn: runTurn.bind(host) as Session['runTurn'],
    resumeTurn: optional(resumeTurn, host, 'session.resumeTurn') as Session['resumeTurn'],
    checkpoint: optional(checkpoint, host, 'session.checkpoint') as Session['checkpoint'],
    release: release.bind(lease) as Session['release'],
  };
}

function object(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null)
    throw new BadValue(path, `must be an object, not ${describe(value)}`);
  return value as Record<string, unknown>;
}

function optional(value: unknown, host: object, path: string): unknown {
  if (value === undefined) return undefined;
  if (!isFunction(value)) throw new BadValue(path, `must be a function, not ${describe(value)}`);
  return value.bind(host);
}
