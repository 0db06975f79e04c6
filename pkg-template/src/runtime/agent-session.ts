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
} from '../types.js';
import { describe } from '../values.js';
import { readAgent, type Agent } from './agent-options.js';
import { AgentTurn } from './agent-turn.js';
import { ExecutionError, RuntimeParticipantError } from './errors.js';
import { History } from './history.js';
import type { AgentOptions } from './types.js';

/** From a turn to the text of its runtime's input. */
export type Render = (context: { turn: ParticipantTurn; firstTurn: boolean }) => string;

/** An option of an agent that may change between a checkpoint and its restoration. */
export type ConstructionChange = 'systemMessage' | 'tools';

/** What opening a session takes, its objects being claimed. */
export interface SessionSetting {
  readonly options: AgentOptions;
  readonly checkpoint: ParticipantCheckpoint | undefined;
  readonly sessionId: string;
  readonly render: Render;
  /** Frees the claimed objects. */
  readonly free: () => void;
  /** Told what differs from the agent that wrote the checkpoint. */
  readonly onChange: (changed: readonly ConstructionChange[]) => void;
}

/**
 * Opens a session. Where that fails, the options are disposed of and their objects are free again.
 * @throws `invalid-config`, `checkpoint-invalid`
 */
export async function openAgentSession(setting: SessionSetting): Promise<ParticipantLease> {
  try {
    const agent = readAgent(setting.options);
    const handle = openHandle(agent, setting.checkpoint);
    const restored = JSON.parse(handle.restored()) as { history: unknown[]; changed: ConstructionChange[] };
    if (restored.changed.length > 0) setting.onChange(restored.changed);
    const session = new AgentSession(setting, agent, handle, new History(agent.systemMessage, restored.history));
    return { session, release: () => session.release() };
  } catch (error) {
    await disposeQuietly(setting.options);
    setting.free();
    throw error;
  }
}

function openHandle(agent: Agent, checkpoint: ParticipantCheckpoint | undefined): AgentHandle {
  const { engine } = currentEngine();
  const stored = checkpoint === undefined ? undefined : JSON.stringify(checkpoint);
  try {
    return new engine.AgentHandle(agent.json, stored);
  } catch (error) {
    // The engine throws the text of what is wrong; anything else is a fault of its own.
    if (typeof error !== 'string') throw error;
    const at = error.indexOf(' ');
    const message = error.slice(at + 1);
    if (error.slice(0, at) === 'config') throw new RoundtableError('invalid-config', message);
    throw new RuntimeParticipantError('checkpoint-invalid', message);
  }
}

/** Disposes of options that a session was refused for; that error is the one to tell. */
export async function disposeQuietly(options: AgentOptions): Promise<void> {
  await dispose(options).catch(() => undefined);
}

async function dispose(options: AgentOptions): Promise<void> {
  await options.dispose?.();
}

class AgentSession implements ParticipantSession {
  readonly #setting: SessionSetting;
  readonly #agent: Agent;
  readonly #handle: AgentHandle;
  readonly #history: History;
  /** Turns that run, and calls of turns that are over: what still uses the handle. */
  #using = 0;
  #released: Promise<void> | undefined;

  constructor(setting: SessionSetting, agent: Agent, handle: AgentHandle, history: History) {
    this.#setting = setting;
    this.#agent = agent;
    this.#handle = handle;
    this.#history = history;
  }

  async runTurn(turn: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome> {
    this.#refuseReleased();
    const { sessionId, render } = this.#setting;
    const input: unknown = render({ turn, firstTurn: this.#handle.firstTurn() });
    if (typeof input !== 'string') {
      throw new ExecutionError('EXECUTION_INPUT_INVALID', `render must return a string, not ${describe(input)}`);
    }
    const done = this.#use();
    const running = new AgentTurn({
      agent: this.#agent,
      handle: this.#handle,
      history: this.#history,
      turn,
      input,
      options,
      sessionId,
      use: () => this.#use(),
    });
    return running.run().finally(done);
  }

  async checkpoint(): Promise<ParticipantCheckpoint> {
    this.#refuseReleased();
    return JSON.parse(this.#handle.takeCheckpoint()) as ParticipantCheckpoint;
  }

  /** Idempotent: later calls give the first one's promise. */
  release(): Promise<void> {
    this.#released ??= this.#close();
    return this.#released;
  }

  async #close(): Promise<void> {
    try {
      await dispose(this.#setting.options);
    } finally {
      this.#setting.free();
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
    if (this.#released !== undefined && this.#using === 0) this.#handle.free();
  }

  #refuseReleased(): void {
    if (this.#released !== undefined) throw new RoundtableError('disposed', 'the session was released');
  }
}
