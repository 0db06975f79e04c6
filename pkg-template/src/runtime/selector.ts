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
import { checkCallbacks, named, object } from './agent-options.js';
import { DecidingAgent, type Question } from './deciding-agent.js';
import { SelectorDecisionError } from './errors.js';
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
 * @throws `invalid-config` for `reference`, `maxParallel` and `messageWindow`
 */
export function agentSelector(options: AgentSelectorOptions): AgentSelector {
  checkCallbacks(options, 'createAgent', []);
  const { reference, maxParallel, messageWindow } = options;
  // The engine checks what is in it.
  named(() => object(reference, 'reference'));
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

class ModelSelector {
  readonly #agent: DecidingAgent;
  readonly #maxParallel: number;
  readonly #window: number | undefined;

  constructor(createAgent: AgentSelectorOptions['createAgent'], maxParallel: number, window: number | undefined) {
    this.#agent = new DecidingAgent('the selector', createAgent);
    this.#maxParallel = maxParallel;
    this.#window = window;
  }

  async select(context: SelectionContext, options: SelectorOptions): Promise<Selection> {
    this.#agent.refuseOverlap();
    if (context.participants.length === 0)
      throw new SelectorDecisionError('no-candidates', 'nobody takes part in the conversation');
    const end = await this.#agent.decide(() => this.#question(context), options);
    // A question with these rules ends in no other way.
    if (end.kind !== 'decide') throw new RoundtableError('internal', `a decision ended as ${end.kind}`);
    return end.selection;
  }

  release(): Promise<void> {
    return this.#agent.release();
  }

  #question(context: SelectionContext): Question {
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
    const participantIds = participants.map(({ id }) => id);
    return { prompt, tool, rules: { decision: { participantIds, maxParallel: this.#maxParallel } } };
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
