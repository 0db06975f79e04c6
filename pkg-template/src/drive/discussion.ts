/** The conversation behind a session: agents have turns in it, and what people say in the session comes in. */

import type { Deliberation, ThreadEntry } from '../deliberation/types.js';
import { RoundtableError } from '../errors.js';
import { createRoundtable, externalParticipant, loadRoundtable } from '../roundtable.js';
import type {
  AgentParticipant,
  CompletedTurn,
  LoadOptions,
  ParticipantDefinition,
  ParticipantFactory,
  Roundtable,
  RuntimeReference,
  Selection,
  SharedMessage,
  TurnSelector,
} from '../types.js';
import { decisionOf, type Facilitator } from './facilitator.js';
import { invalid, type Settings } from './options.js';
import { ASIDE, seated } from './seat.js';

const SELECTOR = Object.freeze({ id: 'agent-roundtable/discussion', version: '1' });

/** Who is next, from the turns so far. */
export type Next = (turns: readonly CompletedTurn[]) => Selection;

/** Opens the conversation of a session: goes on with the stored one, or begins it. */
export async function openDiscussion(
  settings: Settings,
  session: Deliberation,
  facilitator: Facilitator | undefined,
  next: Next,
): Promise<Discussion> {
  const { agents, conversationId, store } = settings;
  const selector: TurnSelector = {
    reference: SELECTOR,
    modelCalls: 'none',
    select: ({ turns }) => next(turns),
  };
  const deciding = facilitator?.participant();
  const shown = (message: SharedMessage): SharedMessage | undefined => shownTo(message, facilitator?.id);
  const groups = new Map<string, ParticipantFactory>();
  const factoryOf = ({ runtime }: AgentParticipant): ParticipantFactory => {
    const key = JSON.stringify([runtime.id, runtime.version]);
    const factory =
      groups.get(key) ??
      seated(
        agents.filter((one) => isSame(one.runtime, runtime)),
        shown,
      );
    groups.set(key, factory);
    return factory;
  };
  const seats = agents.map((agent) => ({ ...agent, factory: factoryOf(agent) }));
  const driven = deciding === undefined ? seats : [...seats, deciding];
  const common = pick(settings, ['pricing', 'onEvent', 'onEventError', 'clock']);
  const load: LoadOptions = {
    ...common,
    conversationId,
    store,
    registry: {
      resolveParticipant: (reference) => {
        const found = driven.find(({ runtime }) => runtime.id === reference.id);
        if (found === undefined) throw new Error(`no agent has the runtime ${JSON.stringify(reference.id)}`);
        return { reference: found.runtime, factory: found.factory };
      },
      resolveSelector: () => ({ reference: SELECTOR, create: () => selector }),
    },
  };
  const table =
    (await loaded(load, settings.unsettled === 'retry')) ??
    createRoundtable({
      ...common,
      ...pick(settings, ['recovery', 'leaseMs', 'seed']),
      conversationId,
      store,
      purpose: `${session.topic}\n\n${session.goal}`,
      participants: seatsOf(session, driven, settings),
      selector,
      limits: { ...settings.limits, maxTurnsPerRun: 1 },
    });
  const ids = new Set(driven.map(({ id }) => id));
  return new Discussion(table, ids);
}

/** The stored conversation, or `undefined`. */
async function loaded(options: LoadOptions, retries: boolean): Promise<Roundtable | undefined> {
  try {
    return await loadRoundtable(options);
  } catch (error) {
    if (!(error instanceof RoundtableError)) throw error;
    if (error.code === 'not-found') return undefined;
    if (!retries || error.code !== 'recovery-required' || error.turns === undefined) throw error;
    const table = await loadRoundtable({ ...options, unsettled: 'reconcile' });
    for (const { turnId } of error.turns) {
      const expectedRevision = table.snapshot().revision;
      await table.reconcile({ turnId, expectedRevision, by: 'driveDeliberation', decision: { kind: 'retry' } });
    }
    return table;
  }
}

/** Everybody who may ever speak. @throws DeliberationError where an agent is no such member */
function seatsOf(
  session: Deliberation,
  driven: readonly AgentParticipant[],
  { agents, facilitator }: Settings,
): ParticipantDefinition[] {
  agents.forEach(({ id }, index) => {
    if (!session.participants.includes(id)) throw invalid(`agents[${index}].id`, 'is no participant of the session');
  });
  if (facilitator !== undefined && facilitator.id !== session.facilitator)
    throw invalid('facilitator.id', 'is not the facilitator of the session');
  const people = [session.facilitator, ...session.participants].filter((id) => driven.every((one) => one.id !== id));
  return [...driven, ...[...people, ASIDE].map((id) => externalParticipant({ id }))];
}

/** What agents are shown: of a decision what it says, and what came aside under the name it was said in. */
function shownTo(message: SharedMessage, facilitator: string | undefined): SharedMessage | undefined {
  if (message.participantId === ASIDE) {
    const { from, message: content } = JSON.parse(message.content) as ThreadEntry;
    return { ...message, participantId: from, content };
  }
  if (message.participantId !== facilitator) return message;
  const { message: content } = decisionOf(message);
  return content === undefined ? undefined : { ...message, content };
}

function isSame(one: RuntimeReference, other: RuntimeReference): boolean {
  return one.id === other.id && one.version === other.version;
}

function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Partial<Pick<T, K>> {
  const found: Partial<Pick<T, K>> = {};
  for (const key of keys) if (from[key] !== undefined) found[key] = from[key];
  return found;
}

export class Discussion {
  readonly table: Roundtable;
  readonly #driven: ReadonlySet<string>;
  /** How many messages of each outsider the conversation had when it was opened: their first entries. */
  readonly #known = new Map<string, number>();
  /** How many entries of the thread have come in. */
  #heard = 0;
  #told = 0;

  constructor(table: Roundtable, driven: ReadonlySet<string>) {
    this.table = table;
    this.#driven = driven;
    for (const { participantId } of table.snapshot().messages) {
      if (!driven.has(participantId)) this.#known.set(participantId, (this.#known.get(participantId) ?? 0) + 1);
    }
  }

  /** The next message of an agent that is not in the thread yet, as far as is known; `done` says that it is now. */
  untold(): { message: SharedMessage; done: () => void } | undefined {
    const { messages } = this.table.snapshot();
    for (; this.#told < messages.length; this.#told++) {
      const message = messages[this.#told];
      if (message === undefined || !this.#driven.has(message.participantId)) continue;
      const done = (): void => {
        this.#told++;
      };
      return { message, done };
    }
    return undefined;
  }

  /**
   * Takes in what others said; `own` are the entries that agents' messages became. A turn under way keeps the view
   * that it began with, so that some of it may have to wait; where none can be (`isBetween`), that is an error.
   */
  async hear(thread: readonly ThreadEntry[], own: ReadonlySet<string>, isBetween: boolean): Promise<void> {
    for (; this.#heard < thread.length; this.#heard++) {
      const entry = thread[this.#heard];
      if (entry === undefined || own.has(entry.id)) continue;
      const isAside = this.#driven.has(entry.from);
      const participantId = isAside ? ASIDE : entry.from;
      const known = this.#known.get(participantId) ?? 0;
      if (known > 0) {
        this.#known.set(participantId, known - 1);
        continue;
      }
      try {
        await this.#submit(participantId, entry, isAside);
      } catch (error) {
        if (!isBetween && error instanceof RoundtableError && error.code === 'conflict') return;
        throw error;
      }
    }
  }

  async #submit(participantId: string, { id, from, message }: ThreadEntry, isAside: boolean): Promise<void> {
    const content = isAside ? JSON.stringify({ from, message }) : message;
    const { revision } = this.table.snapshot();
    await this.table.submitInput({ participantId, inputId: id, expectedRevision: revision, content });
  }
}
