/** A model that makes one decision by one call of one tool. The engine reads its reply. */

import { RoundtableError } from '../errors.js';
import type { SelectorOptions } from '../types.js';
import { elements } from '../values.js';
import { type Agent, leasedObjects, named, readAgent } from './agent-options.js';
import { disposeOf, disposeQuietly, nowhere, openHandle } from './agent-session.js';
import { AgentTurn } from './agent-turn.js';
import { RuntimeParticipantError, SelectorDecisionError } from './errors.js';
import { History } from './history.js';
import { claim } from './leases.js';
import { unlessStopped } from './stop.js';
import type { AgentOptions, ToolSchema } from './types.js';

/** An agent from its making to its end. It is read when its objects are first claimed. */
interface Made {
  readonly options: AgentOptions;
  readonly objects: readonly object[];
  agent?: Agent;
}

/** What an agent is asked to decide. */
export interface Question {
  readonly prompt: string;
  /** The only tool that it is offered. */
  readonly tool: ToolSchema;
  /** What its reply must be, for the engine: on who speaks next, or `call`, the name of a tool of the host's. */
  readonly rules: { readonly decision: { participantIds: readonly string[]; maxParallel: number } } | { call: string };
}

type Decided = Awaited<ReturnType<AgentTurn['run']>>;

/**
 * An agent that decides by one call of one tool, one decision at a time. It keeps nothing in between. Its
 * options and provider are held while a decision is being made.
 */
export class DecidingAgent {
  readonly #name: string;
  readonly #createAgent: () => AgentOptions | Promise<AgentOptions>;
  #making: Promise<Made> | undefined;
  #made: Made | undefined;
  #deciding: Promise<Decided> | undefined;

  /** @param name what errors call it */
  constructor(name: string, createAgent: () => AgentOptions | Promise<AgentOptions>) {
    this.#name = name;
    this.#createAgent = createAgent;
  }

  /** @throws `resource-reused` while a decision is being made */
  refuseOverlap(): void {
    if (this.#deciding !== undefined)
      throw new RuntimeParticipantError('resource-reused', `${this.#name} is making another decision`);
  }

  /** @throws SelectorDecisionError where the reply is no decision; nothing is tried again */
  async decide(question: () => Question, options: SelectorOptions): Promise<Decided> {
    this.refuseOverlap();
    // From here on another call is refused, also one that `createAgent` makes.
    const deciding = Promise.resolve().then(() => this.#decide(question, options));
    this.#deciding = deciding;
    try {
      return await deciding;
    } finally {
      this.#deciding = undefined;
    }
  }

  /** Disposes of the agent; a later decision makes another. */
  async release(): Promise<void> {
    await this.#deciding?.catch(() => undefined);
    const [making, made] = [this.#making, this.#made];
    // One that is still being made is disposed of when it is there; nobody waits for it.
    if (made === undefined) void making?.then(({ options }) => disposeQuietly(options)).catch(() => undefined);
    const free = claim(made?.objects ?? []);
    this.#forget();
    if (made !== undefined) await disposeOf(made.options).finally(free);
  }

  async #decide(question: () => Question, options: SelectorOptions): Promise<Decided> {
    const { signal } = options;
    const made = await unlessStopped(this.#agent(), signal);
    if (made === undefined || signal.aborted) throw signal.reason;
    const free = claim(made.objects);
    try {
      const agent = await this.#read(made);
      const decided = await this.#ask(agent, question(), options);
      if (signal.aborted) throw signal.reason;
      return decided;
    } finally {
      free();
    }
  }

  /** The agent, made now if there is none. One that could not be made is not kept. */
  #agent(): Promise<Made> {
    if (this.#making !== undefined) return this.#making;
    const making = this.#make();
    this.#making = making;
    const settled = (made?: Made): void => {
      if (this.#making !== making) return;
      this.#made = made;
      if (made === undefined) this.#making = undefined;
    };
    making.then(settled, () => settled());
    return making;
  }

  #forget(): void {
    this.#making = undefined;
    this.#made = undefined;
  }

  async #make(): Promise<Made> {
    const options = await this.#createAgent();
    return this.#orDispose(options, () => ({ options, objects: leasedObjects(options) }));
  }

  /** Reads an agent whose objects are claimed. One that cannot decide is not kept. */
  async #read(made: Made): Promise<Agent> {
    if (made.agent !== undefined) return made.agent;
    return this.#orDispose(made.options, () => {
      const agent = readAgent(made.options);
      const { provider, tools } = agent;
      const hosted = named(() => elements(provider.hostedTools?.() ?? [], 'provider.hostedTools()', Infinity));
      if (tools.length > 0 || hosted.length > 0)
        throw new SelectorDecisionError('invalid-decision', 'the agent has a tool beside the one to decide with');
      if (provider.supportsTools?.() === false)
        throw new RoundtableError('invalid-config', 'provider supports no tools, so that it cannot decide');
      made.agent = agent;
      return agent;
    });
  }

  async #orDispose<T>(options: AgentOptions, read: () => T): Promise<T> {
    try {
      return read();
    } catch (error) {
      this.#forget();
      await disposeQuietly(options);
      throw error;
    }
  }

  async #ask(agent: Agent, question: Question, options: SelectorOptions): Promise<Decided> {
    const { signal, services, attemptId = randomId() } = options;
    const { prompt, tool, rules } = question;
    const history = new History(agent.systemMessage, []);
    const timestamp = { $date: new Date().toISOString() };
    history.extend([{ id: `${attemptId}:prompt`, role: 'user', content: prompt, timestamp, state: 'complete' }]);
    const handle = openHandle(`${agent.json.slice(0, -1)},${JSON.stringify(rules).slice(1)}`);
    let using = 0;
    const use = (): (() => void) => {
      using++;
      return () => {
        if (--using === 0) handle.free();
      };
    };
    const done = use();
    const turn = new AgentTurn({
      agent: { ...agent, toolSchemas: [tool] },
      handle,
      history,
      turn: { turnId: attemptId, attemptId },
      from: { input: '' },
      options: { signal, services, onDelta: async () => undefined },
      sessionId: attemptId,
      settleTimeoutMs: 0,
      journal: nowhere,
      use,
    });
    return turn.run().finally(done);
  }
}

/** For calls from outside a conversation. */
function randomId(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].join('-');
}
