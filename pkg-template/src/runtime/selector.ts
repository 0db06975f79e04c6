/** A model as a selector. The engine renders what it is shown and reads what it decides. */

import { currentEngine } from '../engine.js';
import { RoundtableError } from '../errors.js';
import type {
  RuntimeReference,
  Selection,
  SelectionContext,
  SelectorOptions,
  SelectorRegistration,
  SharedMessage,
  TurnSelector,
} from '../types.js';
import { codedText } from '../values.js';
import { type Agent, leasedObjects, named, readAgent } from './agent-options.js';
import { disposeOf, disposeQuietly, nowhere, openHandle } from './agent-session.js';
import { AgentTurn } from './agent-turn.js';
import { RuntimeParticipantError, SelectorDecisionError } from './errors.js';
import { History } from './history.js';
import { claim } from './leases.js';
import { unlessStopped } from './stop.js';
import type { AgentOptions, ToolSchema } from './types.js';

/** The most members of a group. */
const MAX_GROUP = 256;
/** How many of the last turns a model is shown. */
const SHOWN_TURNS = 10;

/** What {@link agentSelector} takes. */
export interface AgentSelectorOptions {
  /** Under which reference a load finds the selector again. */
  reference: RuntimeReference;
  /** Called before the first decision, and again after it failed or a release. The agent has no tools. */
  createAgent(): AgentOptions | Promise<AgentOptions>;
  /** The most agents that one decision lets speak at the same time; default and most 256. */
  maxParallel?: number;
  /** Shows the model this many of the last messages, and says how many it leaves out; default all. */
  messageWindow?: number;
}

/** A selector that asks a model. */
export interface AgentSelector extends TurnSelector {
  readonly reference: RuntimeReference;
  readonly modelCalls: 'metered';
  /** For a registry: creates a selector of its own each time. */
  readonly registration: SelectorRegistration;
  /** Disposes of the agent; a later decision makes another. A conversation calls it when it is disposed. */
  release(): Promise<void>;
}

/**
 * A selector that lets a model decide, by one call of one tool. It keeps nothing between decisions: each
 * is made from what the selection context shows. Every other reply is a `SelectorDecisionError`; nothing
 * is tried again. The agent's options and provider are held while a decision is being made.
 * @throws `invalid-config` for `maxParallel` and `messageWindow`
 */
export function agentSelector(options: AgentSelectorOptions): AgentSelector {
  const { reference, maxParallel, messageWindow } = options;
  const selector = new ModelSelector(
    () => options.createAgent(),
    bound(maxParallel, 'maxParallel', MAX_GROUP) ?? MAX_GROUP,
    bound(messageWindow, 'messageWindow', Number.MAX_SAFE_INTEGER),
  );
  return {
    reference,
    modelCalls: 'metered',
    select: (context, given) => selector.select(context, given),
    release: () => selector.release(),
    registration: { reference, create: () => agentSelector(options) },
  };
}

function bound(value: number | undefined, name: string, most: number): number | undefined {
  if (value === undefined || (Number.isSafeInteger(value) && value >= 1 && value <= most)) return value;
  throw new RoundtableError('invalid-config', `${name} must be an integer from 1 to ${most}`);
}

/** An agent from its making to its end. It is read when its objects are first claimed. */
interface Made {
  readonly options: AgentOptions;
  readonly objects: readonly object[];
  agent?: Agent;
}

class ModelSelector {
  readonly #createAgent: AgentSelectorOptions['createAgent'];
  readonly #maxParallel: number;
  readonly #window: number | undefined;
  #making: Promise<Made> | undefined;
  #made: Made | undefined;
  #deciding: Promise<Selection> | undefined;

  constructor(createAgent: AgentSelectorOptions['createAgent'], maxParallel: number, window: number | undefined) {
    this.#createAgent = createAgent;
    this.#maxParallel = maxParallel;
    this.#window = window;
  }

  async select(context: SelectionContext, options: SelectorOptions): Promise<Selection> {
    if (this.#deciding !== undefined)
      throw new RuntimeParticipantError('resource-reused', 'the selector is making another decision');
    // From here on another call is refused, also one that `createAgent` makes.
    const deciding = Promise.resolve().then(() => this.#decide(context, options));
    this.#deciding = deciding;
    try {
      return await deciding;
    } finally {
      this.#deciding = undefined;
    }
  }

  async release(): Promise<void> {
    await this.#deciding?.catch(() => undefined);
    const [making, made] = [this.#making, this.#made];
    // One that is still being made is disposed of when it is there; nobody waits for it.
    if (made === undefined) void making?.then(({ options }) => disposeQuietly(options)).catch(() => undefined);
    const free = claim(made?.objects ?? []);
    this.#forget();
    if (made !== undefined) await disposeOf(made.options).finally(free);
  }

  async #decide(context: SelectionContext, options: SelectorOptions): Promise<Selection> {
    const { signal } = options;
    if (context.participants.length === 0)
      throw new SelectorDecisionError('no-candidates', 'nobody takes part in the conversation');
    const made = await unlessStopped(this.#agent(), signal);
    if (made === undefined || signal.aborted) throw signal.reason;
    const free = claim(made.objects);
    try {
      const agent = await this.#read(made);
      const selection = await this.#ask(agent, context, options);
      if (signal.aborted) throw signal.reason;
      return selection;
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
      const hosted = provider.hostedTools?.() ?? [];
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

  async #ask(agent: Agent, context: SelectionContext, options: SelectorOptions): Promise<Selection> {
    const { signal, services, attemptId = randomId() } = options;
    const { prompt, tool, participantIds } = this.#render(context);
    const history = new History(agent.systemMessage, []);
    const timestamp = { $date: new Date().toISOString() };
    history.extend([{ id: `${attemptId}:prompt`, role: 'user', content: prompt, timestamp, state: 'complete' }]);
    const decision = JSON.stringify({ participantIds, maxParallel: this.#maxParallel });
    const handle = openHandle(`${agent.json.slice(0, -1)},"decision":${decision}}`);
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
      journal: nowhere,
      use,
    });
    const end = await turn.run().finally(done);
    // A turn with decision rules ends in no other way.
    if (end.kind !== 'decide') throw new RoundtableError('internal', `a decision ended as ${end.kind}`);
    return end.selection;
  }

  #render(context: SelectionContext): { prompt: string; tool: ToolSchema; participantIds: string[] } {
    const { participants, messages, turns, remainingTurns } = context;
    const blocks = blocksOf(last(messages, this.#window ?? messages.length));
    const shown = {
      participants: participants.map(({ id, kind, description }) => ({ id, kind, description })),
      shown: blocks.length,
      leftOut: messages.length - blocks.length,
      turns: last(turns, SHOWN_TURNS).map(({ participantId, outcome }) => ({ participantId, outcome })),
      remainingTurns,
      maxParallel: this.#maxParallel,
    };
    const text = decisionPrompt(named(() => codedText(shown, 'context')));
    const { opening, closing, tool } = JSON.parse(text) as { opening: string; closing: string; tool: ToolSchema };
    const prompt = [opening, ...blocks, closing].join('\n\n');
    return { prompt, tool, participantIds: participants.map(({ id }) => id) };
  }
}

/** @throws `invalid-config` for a context that is none */
function decisionPrompt(context: string): string {
  try {
    return currentEngine().engine.decisionPrompt(context);
  } catch (error) {
    // The engine throws the text of what is wrong.
    if (typeof error !== 'string') throw error;
    throw new RoundtableError('invalid-config', `context: ${error}`);
  }
}

/** The last elements of a list, by their places: a list of the conversation's is not copied for them. */
function last<T>(list: readonly T[], count: number): T[] {
  const found: T[] = [];
  for (let index = Math.max(0, list.length - count); index < list.length; index++) found.push(list[index] as T);
  return found;
}

/** Published messages never change, so that each is rendered once and kept as long as the message is. */
const rendered = new WeakMap<SharedMessage, string>();

/** Messages as participants are shown them, those that are new by one call of the engine. */
function blocksOf(messages: readonly SharedMessage[]): string[] {
  const missing = messages.filter((message) => !rendered.has(message));
  const pairs = missing.flatMap(({ participantId, content }) => [participantId, content]);
  const text = missing.length === 0 ? '' : currentEngine().engine.renderIncrement(undefined, pairs, false);
  // No block has a blank line of its own: every line of content begins with `> `.
  const fresh = new Map(text.split('\n\n').map((block, index) => [missing[index], block]));
  for (const [message, block] of fresh)
    if (message !== undefined && Object.isFrozen(message)) rendered.set(message, block);
  return messages.map((message) => rendered.get(message) ?? fresh.get(message) ?? '');
}

/** For calls from outside a conversation. */
function randomId(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].join('-');
}
