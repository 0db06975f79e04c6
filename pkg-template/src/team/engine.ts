/** The engine's handle of one team, with the loop that performs its effects. */

import type { TeamHandle } from '../generated/bindings.js';
import type { StopReason } from '../conversation/attempts.js';
import type { TeamRun } from './ports.js';

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
  reply(call: number, ok: boolean, result: string): void;
  answer(ticket: number, refusal: string | null): void;
  emit(revision: number, events: object[]): void;
}

type Effect = [name: Exclude<keyof TeamEffects, 'now' | 'mono'>, ...values: never[]];
type Step = (handle: TeamHandle, wall: number, mono: number) => string;

/** Takes inputs one at a time; what comes while effects are performed waits until they are. */
export class TeamEngine {
  readonly #handle: TeamHandle;
  readonly #effects: TeamEffects;
  readonly #inbox: Step[] = [];
  #busy = false;

  constructor(handle: TeamHandle, effects: TeamEffects) {
    this.#handle = handle;
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
    if (this.#busy) return;
    this.#busy = true;
    try {
      for (let next = this.#inbox.shift(); next !== undefined; next = this.#inbox.shift()) {
        const effects = JSON.parse(next(this.#handle, this.#effects.now(), this.#effects.mono())) as Effect[];
        for (const [name, ...values] of effects) (this.#effects[name] as (...values: never[]) => void)(...values);
      }
    } finally {
      this.#busy = false;
    }
  }
}
