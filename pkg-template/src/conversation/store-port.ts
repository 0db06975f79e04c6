/** Store calls of one conversation: what goes out is made here, what comes back is checked here. */

import type { Claim, ConversationKind, RecordSummary } from '../store-types.js';
import { BadValue, describe, elements, identifier } from '../values.js';
import { callHost } from './inside.js';
import type { StorePorts } from './options.js';
import type { ThrownValues } from './thrown.js';

/** How a store call ends: exactly one of these is called. */
export interface StoreAnswer {
  done(): void;
  revision(revision: number): void;
  json(text: string): void;
  failed(failure: string): void;
}

/** The conversation's record in its store. */
export class StorePort {
  readonly #conversation: object;
  readonly #conversationId: string;
  readonly #store: StorePorts;
  readonly #thrown: ThrownValues;
  readonly #members: readonly string[];
  readonly #kind: ConversationKind;
  #ownerId = '';

  /** @param members the participants' ids */
  constructor(
    conversation: object,
    conversationId: string,
    members: readonly string[],
    store: StorePorts,
    thrown: ThrownValues,
    kind: ConversationKind = 'roundtable',
  ) {
    this.#kind = kind;
    this.#conversation = conversation;
    this.#members = Object.freeze([...members]);
    this.#conversationId = conversationId;
    this.#store = store;
    this.#thrown = thrown;
  }

  /** `batch`: the record's first batch, as the engine writes it. */
  create(batch: string, answer: StoreAnswer): void {
    const [head = '', ...entries] = batch.split('\n');
    const [status = '', createdAt = '', updatedAt = ''] = head.split('\t');
    const summary = this.#summary(status, createdAt, updatedAt);
    const conversationId = this.#conversationId;
    this.#call(
      () => this.#store.create({ conversationId, kind: this.#kind, schemaVersion: 1, entries, summary }),
      (receipt) => {
        if (readRevision(receipt) !== 1) throw new BadValue('store.create: revision', 'must be 1');
        answer.done();
      },
      answer,
    );
  }

  append(batch: string, answer: StoreAnswer, snapshot?: string): void {
    const entries = batch.split('\n');
    const head = entries.shift() ?? '';
    const [status = '', createdAt = '', updatedAt = '', expected, operationId = '', fence, expiresAt] =
      head.split('\t');
    const summary = this.#summary(status, createdAt, updatedAt);
    const conversationId = this.#conversationId;
    const claim = { conversationId, ownerId: this.#ownerId, fence: Number(fence), expiresAt: Number(expiresAt) };
    const expectedRevision = Number(expected);
    const appended = { conversationId, claim, expectedRevision, operationId, entries, summary };
    this.#call(
      () => this.#store.append(snapshot === undefined ? appended : { ...appended, snapshot }),
      (receipt) => answer.revision(readRevision(receipt)),
      answer,
    );
  }

  claim(ownerId: string, leaseMs: number, answer: StoreAnswer): void {
    this.#ownerId = ownerId;
    this.#call(
      () => this.#store.claim(this.#conversationId, ownerId, leaseMs),
      (claim) => answer.json(this.#readClaim(claim, ownerId)),
      answer,
    );
  }

  renew(claim: string, leaseMs: number, answer: StoreAnswer): void {
    const held = JSON.parse(claim) as Claim;
    this.#call(
      () => this.#store.renew({ ...held }, leaseMs),
      (renewed) => answer.json(this.#readClaim(renewed, held.ownerId)),
      answer,
    );
  }

  release(claim: string, answer: StoreAnswer): void {
    this.#call(
      () => this.#store.release(JSON.parse(claim) as Claim),
      () => answer.done(),
      answer,
    );
  }

  read(after: number, answer: StoreAnswer): void {
    this.#call<unknown>(
      () => this.#store.read(this.#conversationId, { after }),
      (found) => {
        if (found === undefined || found === null) answer.done();
        else answer.json(readBatches(found));
      },
      answer,
    );
  }

  /** Frozen, so that a store may keep it as it is. */
  #summary(status: string, createdAt: string, updatedAt: string): RecordSummary {
    return Object.freeze({ status: status as RecordSummary['status'], members: this.#members, createdAt, updatedAt });
  }

  #readClaim(value: unknown, owner: string): string {
    const { conversationId, ownerId, fence, expiresAt } = fields(value, 'claim');
    if (conversationId !== this.#conversationId) throw new BadValue('store: claim.conversationId', 'names another one');
    if (ownerId !== owner) throw new BadValue('store: claim.ownerId', 'names another owner');
    if (typeof expiresAt !== 'number' || !Number.isFinite(expiresAt)) {
      throw new BadValue('store: claim.expiresAt', `must be a finite number, not ${describe(expiresAt)}`);
    }
    return JSON.stringify({ conversationId, ownerId, fence: count(fence, 'store: claim.fence'), expiresAt });
  }

  #call<T>(call: () => Promise<T>, done: (value: T) => void, answer: StoreAnswer): void {
    const failed = (error: unknown): void => answer.failed(this.#thrown.storeFailure(error));
    const checked = (value: T): void => {
      try {
        done(value);
      } catch (error) {
        // A wrong receipt leaves the outcome unknown, like any rejection without a known code.
        failed(error);
      }
    };
    callHost(this.#conversation, call, checked, failed);
  }
}

function readRevision(receipt: unknown): number {
  return count(fields(receipt, 'receipt')['revision'], 'store: revision');
}

function readBatches(value: unknown): string {
  const found = fields(value, 'read');
  const batches = elements(found['batches'], 'store: batches', Number.MAX_SAFE_INTEGER).map((item, index) => {
    const path = `store: batches[${index}]`;
    const batch = fields(item, path);
    const entries = elements(batch['entries'], `${path}.entries`, Number.MAX_SAFE_INTEGER);
    if (!entries.every((entry) => typeof entry === 'string')) throw new BadValue(`${path}.entries`, 'must be strings');
    const operationId = identifier(batch['operationId'], `${path}.operationId`);
    return { revision: count(batch['revision'], `${path}.revision`), operationId, entries };
  });
  return JSON.stringify({ revision: count(found['revision'], 'store: revision'), batches });
}

function fields(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw new BadValue(`store: ${what}`, `must be an object, not ${describe(value)}`);
}

function count(value: unknown, path: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new BadValue(path, `must be a safe integer from 0, not ${describe(value)}`);
}
