/** Loading: a stored conversation read, folded by the engine, and bound to what the registry gives today. */

import { currentEngine, type EngineLink } from '../engine.js';
import type { LoadedRecord } from '../generated/bindings.js';
import { RoundtableError } from '../errors.js';
import { ask } from '../inspection/ask.js';
import { fromStore, readPage, StoredJournal } from '../inspection/stored-journal.js';
import type { ConversationStore, StoredRecord } from '../store-types.js';
import type { LoadOptions, ParticipantCheckpoint, RuntimeReference, TurnSelector } from '../types.js';
import { BadValue, identifier } from '../values.js';
import { readClock } from './clock.js';
import { checked } from './engine-handle.js';
import type { ObserverOptions } from './observers.js';
import {
  type AgentPorts,
  callback,
  type Loaded,
  method,
  object,
  type PlainOption,
  plain,
  type ReadOptions,
  readParticipant,
  readPricing,
  readSelector,
  readStore,
} from './options.js';
import { checkCheckpoint } from './outcomes.js';
import { messageOf } from './thrown.js';

/** What the engine says of a record. */
interface Description {
  readonly purpose?: string;
  readonly participants: readonly { id: string; description?: string; agent?: { runtime: RuntimeReference } }[];
  readonly selector?: { readonly reference?: RuntimeReference; readonly checkpoint?: ParticipantCheckpoint };
  readonly recovery: string;
  readonly forkedFrom?: Loaded['forkedFrom'];
}

interface Migration {
  readonly participant: number;
  readonly from: RuntimeReference;
  readonly to: RuntimeReference;
  readonly checkpoint?: ParticipantCheckpoint;
}

type Plain = { [key: string]: PlainOption };
/** A function of the registry, called with the path of what it is asked for. */
type Resolve = (path: string, argument: unknown) => Promise<unknown>;

/** Everything a conversation goes on with. @throws RoundtableError as `loadRoundtable` does */
export async function readRecord(options: LoadOptions): Promise<ReadOptions> {
  const given = checked(() => readGiven(options));
  const { conversationId, store, today } = given;
  const found = await fromStore(conversationId, () => given.load(conversationId));
  if (found === undefined || found === null) {
    throw new RoundtableError('not-found', `the store has no conversation ${JSON.stringify(conversationId)}`);
  }
  if (found.kind !== 'roundtable' || found.schemaVersion !== 1) {
    throw new RoundtableError('invalid-record', 'the record is no roundtable of schema version 1');
  }
  const { revision, lines } = await fromStore(conversationId, async () => readPage(found));
  const link = currentEngine();
  const record = await folded(given.readable, conversationId, found.snapshot, revision, lines, link);
  const described = JSON.parse(ask(() => record.describe(), link)) as Description;

  const agents: (AgentPorts | undefined)[] = [];
  const participants: PlainOption[] = [];
  for (const participant of described.participants) {
    const { data, agent } = await resolveParticipant(given.resolveParticipant, participant);
    participants.push(data);
    agents.push(agent);
  }
  const registration = await resolveSelector(given.resolveSelector, described.selector);
  Object.assign(today, { participants, migrates: given.migrate !== undefined }, registration?.data);
  const migrations = JSON.parse(ask(() => record.bind(today), link)) as Migration[];

  const migrated: string[] = [];
  for (const migration of migrations) migrated.push(await migrate(given.migrate, migration, described));
  const { checkpoint } = described.selector ?? {};
  const created = await registration?.create(checkpoint);
  const { purpose, recovery } = described;
  return {
    config: { conversationId, participants, recovery, ...(purpose === undefined ? {} : { purpose }) },
    agents,
    selector: created?.ports,
    store,
    cost: given.cost,
    clock: given.clock,
    onEvent: given.onEvent,
    onEventError: given.onEventError,
    loaded: {
      link,
      forkedFrom: described.forkedFrom,
      make: (engine, ports) => {
        const opened = `{"migrated":[${migrated.join(',')}],"modelCalls":${JSON.stringify(created?.modelCalls ?? null)}}`;
        return engine.RoundtableHandle.load(record, opened, ports);
      },
      createSelector: registration && (async (saved) => (await registration.create(saved.checkpoint)).ports),
    },
  };
}

/**
 * The record, folded by the engine. A snapshot that it cannot read is passed over: the journal says the same.
 */
async function folded(
  store: ConversationStore,
  conversationId: string,
  snapshot: StoredRecord['snapshot'],
  revision: number,
  lines: string,
  link: EngineLink,
): Promise<LoadedRecord> {
  const quick = ask((engine) => {
    const reader = new engine.JournalReader(conversationId);
    if (snapshot !== undefined && !reader.restore(snapshot.revision, snapshot.state)) return reader.free();
    reader.add(lines);
    return reader;
  }, link);
  const reader = quick ?? (await StoredJournal.upTo(store, conversationId, revision)).release();
  return ask((engine) => new engine.LoadedRecord(reader, revision), link);
}

function readGiven(options: unknown) {
  const given = object(options, 'options');
  const today: Plain = {};
  const store = object(given['store'], 'store');
  const registry = object(given['registry'], 'registry');
  const unsettled = plain(given['unsettled'], 'unsettled', 'id');
  if (unsettled !== undefined) today['unsettled'] = unsettled;
  return {
    conversationId: identifier(given['conversationId'], 'conversationId'),
    store: readStore(store, today),
    readable: given['store'] as ConversationStore,
    load: method(store, 'load', 'store') as (conversationId: string) => Promise<StoredRecord | undefined>,
    resolveParticipant: asking(registry, 'resolveParticipant'),
    resolveSelector: registry['resolveSelector'] === undefined ? undefined : asking(registry, 'resolveSelector'),
    migrate: registry['migrate'] === undefined ? undefined : asking(registry, 'migrate'),
    cost: readPricing(given['pricing'], today),
    onEvent: callback(given, 'onEvent') as ObserverOptions['onEvent'],
    onEventError: callback(given, 'onEventError') as ObserverOptions['onEventError'],
    clock: readClock(given['clock']),
    today,
  };
}

function asking(registry: Record<string, unknown>, key: string): Resolve {
  const call = method(registry, key, 'registry') as (argument: unknown) => unknown;
  return (path, argument) => told(`registry.${key} for ${path}`, async () => call(argument));
}

/** What host code gives; where it throws, or gives what it may not, the option that names it is wrong. */
async function told<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof BadValue) throw new RoundtableError('invalid-config', `${what}: ${error.message}`);
    throw new RoundtableError('invalid-config', `${what} failed: ${messageOf(error)}`, { cause: error });
  }
}

async function resolveParticipant(
  resolve: Resolve,
  { id, description, agent }: Description['participants'][number],
): Promise<{ data: PlainOption; agent: AgentPorts | undefined }> {
  const identity = description === undefined ? { id } : { id, description };
  if (agent === undefined) return { data: { kind: 'external', ...identity }, agent: undefined };
  const path = `participant ${JSON.stringify(id)}`;
  const found = await resolve(path, { ...agent.runtime });
  return told(path, async () => {
    const { reference, factory } = object(found, 'registration');
    return readParticipant({ kind: 'agent', ...identity, runtime: reference, factory }, 'registration');
  });
}

/** The registered selector: its data for the engine, and how it is made. */
async function resolveSelector(resolve: Resolve | undefined, stored: Description['selector']) {
  if (stored?.reference === undefined) return undefined;
  if (resolve === undefined) throw new RoundtableError('invalid-config', 'registry.resolveSelector is needed');
  const path = 'the selector';
  const found = await resolve(path, { ...stored.reference });
  return told(path, async () => {
    const registration = object(found, 'registration');
    const selector: Plain = {};
    for (const key of ['reference', 'checkpointVersions']) {
      const value = plain(registration[key], `selector.${key}`, 'id');
      if (value !== undefined) selector[key] = value;
    }
    const create = method(registration, 'create', 'selector') as (context: object) => TurnSelector;
    return {
      data: { selector },
      create: (checkpoint: ParticipantCheckpoint | undefined) =>
        told('selector.create', async () => {
          const config: Plain = {};
          const ports = readSelector(await create(checkpoint === undefined ? {} : { checkpoint }), config);
          if (ports === undefined) throw new BadValue('selector', 'must be one of the host');
          return { ports, modelCalls: (config['selector'] as Plain)['modelCalls'] };
        }),
    };
  });
}

async function migrate(
  call: Resolve | undefined,
  migration: Migration,
  { participants }: Description,
): Promise<string> {
  const { participant, from, to, checkpoint } = migration;
  if (checkpoint === undefined || call === undefined) return 'null';
  const participantId = participants[participant]?.id;
  const path = `participant ${JSON.stringify(participantId)}`;
  const migrated = await call(path, { participantId, from, to, checkpoint });
  return told(path, async () => checkCheckpoint(migrated));
}
