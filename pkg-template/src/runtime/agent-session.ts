/** An open session of an agent: its private history, one turn at a time, and what it holds until its release. */

import { currentEngine } from '../engine.js';
import { RoundtableError } from '../errors.js';
import type { AgentHandle } from '../generated/bindings.js';
import type {
  ParticipantCheckpoint,
  ParticipantExecutionOptions,
  ParticipantLease,
  ParticipantOutcome,
  ParticipantSession,
  ParticipantTurn,
  TurnServices,
} from '../types.js';
import { BadValue, enclosing, isInstance, unboundedJsonText } from '../values.js';
import { type Agent, readAgent, type SessionIdentity } from './agent-options.js';
import { AgentTurn, type TurnSetting } from './agent-turn.js';
import { RuntimeParticipantError } from './errors.js';
import { History } from './history.js';
import type { SessionName } from './leases.js';
import { type Render, renderInput } from './render.js';
import { untilOver } from './stop.js';
import type { AgentOptions, ExecutionJournal, SessionOptions } from './types.js';

/** An option of an agent that may change between a checkpoint and its restoration. */
export type ConstructionChange = 'systemMessage' | 'tools';

/** What opening a session takes, its objects being claimed. */
export interface SessionSetting {
  readonly options: SessionOptions;
  readonly checkpoint: ParticipantCheckpoint | undefined;
  /** Whether the checkpoint is a conversation's, which has read it from text itself, and not handed in by a host. */
  readonly isStored: boolean;
  /** Whose session it is, where it has a permission gate. */
  readonly identity?: SessionIdentity;
  readonly render: Render;
  /** How long a turn that was stopped waits for its tools, and a release for its turn. */
  readonly settleTimeoutMs: number;
  /** What the session is called, where no other may be; it is taken when it opens. */
  readonly name?: SessionName;
  /** Frees the claimed objects. */
  readonly free: () => void;
  /** Told what differs from the agent that wrote the checkpoint. */
  readonly onChange: (changed: readonly ConstructionChange[]) => void;
}

/** A session that has just opened. */
export interface OpenedSession {
  readonly setting: SessionSetting;
  readonly agent: Agent;
  readonly handle: AgentHandle;
  readonly history: History;
  /** Of a session behind a permission gate. */
  readonly sessionId: string;
}

/**
 * Opens a session; `make` makes it of its parts. Where that fails, the options are disposed of and their
 * objects are free again.
 * @throws `invalid-config`, `checkpoint-invalid`, `resource-reused` for the name
 */
export async function openAgentSession(
  setting: SessionSetting,
  make: (opened: OpenedSession) => AgentSession,
): Promise<ParticipantLease> {
  try {
    setting.name?.take();
    const agent = readAgent(setting.options, setting.identity);
    const handle = openHandle(agent.json, checkpointText(setting));
    const { history, changed, sessionId } = JSON.parse(handle.restored()) as Restored;
    if (changed.length > 0) setting.onChange(changed);
    const opened = { setting, agent, handle, history: new History(agent.systemMessage, history) };
    const session = make({ ...opened, sessionId: sessionId ?? '' });
    // Its turn may never run, where its handle lost the record while it opened.
    setting.name?.rest();
    return { session, release: () => session.release() };
  } catch (error) {
    await disposeQuietly(setting.options);
    setting.free();
    throw error;
  }
}

interface Restored {
  history: unknown[];
  changed: ConstructionChange[];
  sessionId: string | null;
}

/**
 * Opens an agent of the engine, from the JSON of its checkpoint where it is restored.
 * @throws `invalid-config`, `checkpoint-invalid`
 */
export function openHandle(agentJson: string, checkpoint?: string): AgentHandle {
  const { engine } = currentEngine();
  try {
    return new engine.AgentHandle(agentJson, checkpoint);
  } catch (error) {
    // The engine throws the text of what is wrong; anything else is a fault of its own.
    if (typeof error !== 'string') throw error;
    const at = error.indexOf(' ');
    const message = error.slice(at + 1);
    if (error.slice(0, at) === 'config') throw new RoundtableError('invalid-config', message);
    throw new RuntimeParticipantError('checkpoint-invalid', message);
  }
}

/** How many levels a checkpoint has around the values of its messages, coded. */
const AROUND = 8;

function checkpointText({ checkpoint, isStored }: SessionSetting): string | undefined {
  // Looking at every value of a long history takes longer than opening it.
  if (checkpoint === undefined || isStored) return checkpoint && JSON.stringify(checkpoint);
  try {
    return unboundedJsonText(checkpoint, 'checkpoint', AROUND);
  } catch (error) {
    if (isInstance(error, BadValue)) throw new RuntimeParticipantError('checkpoint-invalid', error.message);
    throw error;
  }
}

/** Disposes of options that a session was refused for; that error is the one to tell. */
export async function disposeQuietly(options: Pick<AgentOptions, 'dispose'>): Promise<void> {
  await disposeOf(options).catch(() => undefined);
}

/** Calls the host's `dispose`, where there is one. */
export async function disposeOf(options: Pick<AgentOptions, 'dispose'>): Promise<void> {
  await options.dispose?.();
}

/** Records that nobody will ask for. */
export const nowhere: ExecutionJournal = { append: async () => undefined };

/** A plain agent's session. */
export class AgentSession implements ParticipantSession {
  protected readonly opened: OpenedSession;
  /** Turns that run, and calls of turns that are over: what still uses the handle. */
  #using = 0;
  #released: Promise<void> | undefined;
  /** The turn that runs, and when it is over. */
  #running: { readonly turn: AgentTurn; readonly over: Promise<unknown> } | undefined;
  /** The release is done but for the handle. */
  #closed = false;

  constructor(opened: OpenedSession) {
    this.opened = opened;
  }

  async runTurn(turn: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome> {
    this.refuseReleased();
    const { setting, handle } = this.opened;
    const input = renderInput(setting.render, turn, handle.firstTurn());
    return this.perform(turn, { input }, options, this.journalOf(options.services));
  }

  /** Where a turn's execution is written down. */
  protected journalOf(_services: TurnServices): ExecutionJournal {
    return nowhere;
  }

  protected async perform(
    turn: ParticipantTurn,
    from: TurnSetting['from'],
    options: ParticipantExecutionOptions,
    journal: ExecutionJournal,
  ): Promise<ParticipantOutcome> {
    this.refuseReleased();
    this.refuseBusy();
    const { agent, handle, history, sessionId, setting } = this.opened;
    const { settleTimeoutMs } = setting;
    const done = this.#use();
    const use = (): (() => void) => this.#use();
    const parts = { agent, handle, history, turn, from, options, sessionId, settleTimeoutMs, journal, use };
    const running = new AgentTurn(parts);
    const ending = running.run().finally(done);
    this.#running = { turn: running, over: ending.catch(() => undefined) };
    const end = await ending.finally(() => {
      this.#running = undefined;
    });
    if (end.kind === 'decide' || end.kind === 'call')
      throw new RoundtableError('internal', 'a turn of a participant ended in a decision');
    return end;
  }

  async checkpoint(): Promise<ParticipantCheckpoint> {
    this.refuseReleased();
    const checkpoint = JSON.parse(this.opened.handle.takeCheckpoint()) as ParticipantCheckpoint;
    for (const message of checkpoint.append ?? []) enclosing(message as object);
    return checkpoint;
  }

  /**
   * Waits for the turn that runs; one that was stopped or takes longer than `settleTimeoutMs` is ended first.
   * Idempotent: later calls give the first one's promise.
   */
  release(): Promise<void> {
    this.#released ??= this.#close();
    return this.#released;
  }

  async #close(): Promise<void> {
    const { setting } = this.opened;
    const running = this.#running;
    try {
      if (running !== undefined)
        await untilOver(running.over, running.turn.isStopped ? 0 : setting.settleTimeoutMs, (reason) =>
          running.turn.leave(reason),
        );
      await disposeOf(setting.options);
    } finally {
      setting.free();
      this.#closed = true;
      this.#freeUnused();
    }
  }

  #use(): () => void {
    this.#using++;
    return () => {
      this.#using--;
      this.#freeUnused();
    };
  }

  // A call that never settles keeps its handle; the finaliser takes it then.
  #freeUnused(): void {
    if (this.#closed && this.#using === 0) this.opened.handle.free();
  }

  protected refuseBusy(): void {
    if (this.#running !== undefined) throw new RoundtableError('busy', 'a turn is already running on this session');
  }

  protected get isReleased(): boolean {
    return this.#released !== undefined;
  }

  protected refuseReleased(): void {
    if (this.isReleased) throw new RoundtableError('disposed', 'the session was released');
  }
}
