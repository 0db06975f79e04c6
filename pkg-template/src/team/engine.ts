/** The engine's handle of one team, with the loop that performs its effects. */

import type { TeamHandle } from '../generated/bindings.js';
import type { StopReason } from '../conversation/attempts.js';
import type { ParticipantCheckpoint, ParticipantResponse, SharedMessage } from '../types.js';

/** A turn as the engine describes it. */
export interface TeamRun {
  readonly attempt: string;
  readonly member: number;
  readonly position: string;
  readonly group: string;
  readonly baseRevision: number;
  /** JSON. */
  readonly input: string;
  readonly answers: ParticipantResponse[];
  readonly earlier?: readonly string[];
  readonly retried: boolean;
  readonly newer: number;
  readonly agent?: { purpose: string; messages: SharedMessage[]; checkpoint?: ParticipantCheckpoint };
}

/** What the engine wants done. None of these throws. */
export interface TeamEffects {
  now(): number;
  mono(): number;
  startTimer(timer: number, delayMs: number): void;
  stopTimer(timer: number): void;
  create(batch: string): void;
  append(batch: string): void;
  claim(ownerId: string, leaseMs: number): void;
  renew(claim: { fence: number }, leaseMs: number): void;
  release(claim: object): void;
  read(after: number): void;
  run(run: TeamRun): void;
  abort(attempt: string, reason: StopReason): void;
  giveUp(attempt: string, member: number): void;
  reply(call: number, ok: boolean, result: string): void;
  answer(ticket: number, refusal: string | null): void;
  emit(revision: number, events: object[]): void;
}

type Effect = [name: Exclude<keyof TeamEffects, 'now' | 'mono'>, ...values: never[]];
type Step = (handle: TeamHandle, wall: number, mono: number) => string;

/** Takes inputs one at a time; what comes while effects are performed waits until they are. */
export class TeamEngine {
  readonly #handle: TeamHandle;
  #effects: TeamEffects | undefined;
  readonly #inbox: Step[] = [];
  #busy = false;

  constructor(handle: TeamHandle) {
    this.#handle = handle;
  }

  /** Who performs effects; there before the first input. */
  performedBy(effects: TeamEffects): void {
    this.#effects = effects;
  }

  /** @param input JSON */
  input(input: string): void {
    this.#take((handle, wall, mono) => handle.handle(wall, mono, input));
  }

  timerFired(timer: number): void {
    this.#take((handle, wall, mono) => handle.timerFired(wall, mono, timer));
  }

  admit(ticket: number, attempt: string, call: string): void {
    this.input(`{"admit":{"ticket":${ticket},"attempt":${JSON.stringify(attempt)},"call":${call}}}`);
  }

  report(ticket: number, attempt: string, report: string): void {
    this.input(`{"report":{"ticket":${ticket},"attempt":${JSON.stringify(attempt)},"report":${report}}}`);
  }

  record(ticket: number, attempt: string, record: string): void {
    this.input(`{"record":{"ticket":${ticket},"attempt":${JSON.stringify(attempt)},"record":${record}}}`);
  }

  records(attempt: string, execution: string): string {
    return this.#handle.records(attempt, execution);
  }

  revision(): number {
    return this.#handle.revision();
  }

  snapshot(): string {
    return this.#handle.snapshot();
  }

  ask(): void {}

  free(): void {
    this.#handle.free();
  }

  #take(step: Step): void {
    this.#inbox.push(step);
    const performer = this.#effects;
    if (this.#busy || performer === undefined) return;
    this.#busy = true;
    try {
      for (let next = this.#inbox.shift(); next !== undefined; next = this.#inbox.shift()) {
        const effects = JSON.parse(next(this.#handle, performer.now(), performer.mono())) as Effect[];
        for (const [name, ...values] of effects) (performer[name] as (...values: never[]) => void)(...values);
      }
    } finally {
      this.#busy = false;
    }
  }
}
