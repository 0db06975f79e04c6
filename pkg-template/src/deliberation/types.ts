/** Deliberations: facilitated discussions with a deadline and one outcome. */

import type { ConversationStore } from '../store-types.js';
import type { Clock, JsonValue } from '../types.js';

export type DeliberationStatus = 'open' | 'resolved' | 'expired';
export type DeliberationDecision = 'approved' | 'rejected' | 'deferred';
export type DeliberationStance = 'for' | 'against' | 'abstain';

export interface DeliberationsOptions {
  /** Keeps the sessions, each under its id. Any number of hosts may share one. */
  store: ConversationStore;
  notifier: Notifier;
  /** Backing groups. Default: none but in memory. */
  groups?: GroupPort;
  /** Which agents there are. Default: every id is one. */
  directory?: AgentDirectory;
  limits?: DeliberationLimits;
  clock?: Clock;
  /** Fixes the ids of sessions and their threads; for tests. */
  seed?: string;
  /** Milliseconds between sweeps, which expire, remind, deliver and purge. Default 60,000; 0: the host calls. */
  sweepIntervalMs?: number;
  /** Milliseconds until a notifier's or group's call counts as failed. Default 30,000. */
  deliveryTimeoutMs?: number;
  /** Told of every failure that no call rejects with. */
  onEvent?(event: DeliberationEvent): void;
}

/** Caps beside those of every session: 20 participants, 200 entries, seven days. */
export interface DeliberationLimits {
  /** How long closed sessions stay readable, in milliseconds from their end. Default seven days. */
  retentionMs?: number;
  /** How many closed sessions are kept; those that ended first go first. Default 10,000. */
  maxClosed?: number;
  /** Open sessions of one facilitator. Default: any number. */
  maxOpenPerFacilitator?: number;
  /** Entries of one speaker in one thread. Default: any number. */
  maxEntriesPerSpeaker?: number;
  /** UTF-8 bytes of all messages of one thread. Default: any number. */
  maxThreadBytes?: number;
}

export type DeliberationEvent =
  /** A notice or a change of a group was refused; it is tried again by every sweep. */
  | { type: 'delivery-failed'; deliberationId: string; idempotencyKey: string; error: unknown }
  /** A part of a sweep failed; the others went on. */
  | { type: 'sweep-failed'; deliberationId?: string; error: unknown };

/**
 * Delivers one notice. One that is rejected is tried again until it is not. Delivery is at least once:
 * a notice that is repeated after a crash has the same `idempotencyKey`.
 */
export type Notifier = (notice: Notice) => Promise<void>;

export interface Notice {
  readonly version: '1.0';
  /** An invitation asks for an acknowledgement; the others do not. */
  readonly type: 'work_order' | 'group_message' | 'notification';
  readonly kind: 'invitation' | 'entry' | 'resolution' | 'expiry' | 'reminder';
  readonly to: string;
  /** The speaker or the facilitator where they said it, else `system`. */
  readonly from: string;
  readonly deliberationId: string;
  /** `session/step/recipient`. */
  readonly idempotencyKey: string;
  /** The kind and the topic, quoted. */
  readonly subject: string;
  /** When it is sent, ISO 8601. */
  readonly timestamp: string;
  /** With the names that the HTTP interface has. */
  readonly body: JsonValue;
}

/** Says which agents there are. */
export interface AgentDirectory {
  has(agentId: string): boolean | Promise<boolean>;
}

/** The group that backs a session, as it is to be. */
export interface BackingGroup {
  readonly id: string;
  readonly owner: string;
  /** Owner included. */
  readonly members: readonly string[];
  readonly maxMembers: number;
  /** When its messages lose their use, ISO 8601. */
  readonly expiresAt: string;
  readonly idempotencyKey: string;
}

/**
 * Backing groups. Who gets what follows from the session and never from the group, so that editing a
 * group changes nothing. Both calls are repeated until they succeed.
 */
export interface GroupPort {
  /** Makes the group, or makes it so; what else it has, such as its history, stays. */
  put(group: BackingGroup): Promise<void>;
  /** Removes the group; does nothing where there is none. Only its owner may. */
  delete(groupId: string, by: string): Promise<void>;
}

export interface ThreadEntry {
  id: string;
  from: string;
  message: string;
  timestamp: string;
}

export interface DeliberationPosition {
  participant: string;
  stance: DeliberationStance;
  note?: string;
  at: string;
}

/** What listings show. */
export interface DeliberationSummary {
  id: string;
  topic: string;
  goal: string;
  facilitator: string;
  participants: string[];
  groupId: string;
  status: DeliberationStatus;
  /** 1 after creation, one more with every change that readers can see. */
  version: number;
  threadLength: number;
  outcome: string | null;
  decision?: DeliberationDecision;
  /** What the facilitator added to the decision. */
  note?: string;
  createdAt: string;
  expiresAt: string;
  resolvedAt?: string;
  /** When it last changed; absent until it did. */
  updatedAt?: string;
  /** Why it expired: `timeout`, or what the facilitator gave. */
  closeReason?: string;
  quorum?: number;
  remindAt?: string;
  /** Participants whose invitation was not delivered so far. */
  uninvited?: string[];
}

export interface Deliberation extends Omit<DeliberationSummary, 'threadLength'> {
  thread: ThreadEntry[];
  /** The participants' positions, where there are any, the latest last. */
  positions?: DeliberationPosition[];
  /** Those that stood against what was decided. */
  dissent?: DeliberationPosition[];
  /**
   * Seals the thread: the SHA-256, in hexadecimal, of the canonical JSON (RFC 8785) of
   * `[threadHash before, id, from, message, timestamp]` of its last entry; it begins as the session's id.
   */
  threadHash: string;
}

export interface CreateDeliberation {
  /** One line of 1 to 500 characters (Unicode scalar values, here and below, before trimming). */
  topic: string;
  /** 1 to 2,000 characters. */
  goal: string;
  /** 1 to 20 ids of 1 to 255 characters; space around them and repetitions are dropped. */
  participants: readonly string[];
  /** 1 to 10,080; default 30. */
  timeoutMinutes?: number;
  /** A repeated call with the same key gives the same session. */
  idempotencyKey?: string;
  /** How many participants must have taken a position before it can be resolved. */
  quorum?: number;
  /** Reminds every member so many minutes before the deadline. */
  reminderMinutes?: number;
  /** Refuses the session where a participant is not known, instead of leaving that one out. */
  strict?: boolean;
}

/** For what changes a session. */
export interface AtVersion {
  /** Refused with `conflict` where the session is at another version. */
  expectedVersion?: number;
}

/**
 * The sessions of one store. `caller` is who the host has authenticated. Deadlines hold on every call,
 * whenever the last sweep was. Rejections are `DeliberationError`s.
 */
export interface Deliberations {
  /** `excludedParticipants`: those the directory does not know. */
  create(caller: string, input: CreateDeliberation): Promise<Deliberation & { excludedParticipants?: string[] }>;
  /** The caller's own, newest first; `limit` 1 to 100, default 20. A page may have fewer and still not be the last. */
  list(
    caller: string,
    query?: { status?: DeliberationStatus; limit?: number; cursor?: string },
  ): Promise<{ items: readonly DeliberationSummary[]; nextCursor?: string }>;
  /** `since`: only the thread entries after that version. */
  get(caller: string, id: string, options?: { since?: number }): Promise<Deliberation>;
  /** `message`: 1 to 10,000 characters. A repeated key gives the entry it gave first. */
  speak(
    caller: string,
    id: string,
    input: { message: string; idempotencyKey?: string } & AtVersion,
  ): Promise<{ threadEntryId: string; threadLength: number }>;
  /** By the facilitator. `outcome` and `note`: 1 to 2,000 characters. */
  resolve(
    caller: string,
    id: string,
    input: { outcome: string; decision: DeliberationDecision; note?: string } & AtVersion,
  ): Promise<Deliberation>;
  /** By a participant; replaces the one before. */
  takePosition(
    caller: string,
    id: string,
    input: { stance: DeliberationStance; note?: string } & AtVersion,
  ): Promise<Deliberation>;
  /** By a participant, who is none afterwards. */
  decline(caller: string, id: string, input?: { note?: string } & AtVersion): Promise<void>;
  /** By the facilitator, who becomes a participant in place of `to`. */
  handOver(caller: string, id: string, input: { to: string } & AtVersion): Promise<Deliberation>;
  /** By the facilitator, once: the deadline is so many minutes later. */
  extend(caller: string, id: string, input: { minutes: number } & AtVersion): Promise<Deliberation>;
  /** By the facilitator: ends the session without an outcome, as expired with this reason. */
  close(caller: string, id: string, input: { reason: string } & AtVersion): Promise<Deliberation>;
  /** Closes the sessions whose deadline has passed, and reminds; gives how many this call closed. */
  expireStale(): Promise<number>;
  /** Deletes closed sessions beyond retention that owe nobody anything; gives how many. */
  purge(): Promise<number>;
  /** Tries everything that is owed once; gives how much of it was done. */
  deliverPending(): Promise<number>;
  /** Stops sweeping and waits for what is under way. */
  dispose(): Promise<void>;
}
