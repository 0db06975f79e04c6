/** What a team is refused for. */

import { type EngineError, ThrownValues } from '../conversation/thrown.js';

/** One finding. */
export interface TeamIssue {
  /** `INVALID_TEAM`, `INVALID_ID`, `INVALID_VERSION`, `INVALID_DEFINITION`, `DUPLICATE_NODE_ID` and the like. */
  code: string;
  /** A JSON pointer whose steps into lists are indexes, such as `/nodes/0/id`. */
  path: string;
  message: string;
}

export type TeamErrorCode =
  /** The definition breaks rules; `issues` lists all of them. */
  | 'INVALID_TEAM'
  /** A line of the stored record is none that the engine could have written there. */
  | 'INVALID_EVENT'
  /** The stored record is no team's, or that of another definition or other options. */
  | 'STORED_GRAPH_MISMATCH';

/** Recognises errors of another copy of this package in the same process. */
const BRAND = Symbol.for('agent-roundtable/TeamError');

/** A refusal by a rule of teams. `instanceof` also holds for errors of another copy of this package. */
export class TeamError extends Error {
  override readonly name = 'TeamError';
  readonly code: TeamErrorCode;
  readonly issues: readonly TeamIssue[];

  constructor(code: TeamErrorCode, message: string, issues: readonly TeamIssue[]) {
    super(message);
    this.code = code;
    this.issues = issues;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}

Object.defineProperty(TeamError.prototype, BRAND, { value: true });

/** The errors of teams, and those they share with conversations. */
export class TeamThrown extends ThrownValues {
  override toError(error: EngineError): Error {
    const { code, message, issues } = error as unknown as {
      code: TeamErrorCode;
      message: string;
      issues?: TeamIssue[];
    };
    return issues === undefined ? super.toError(error) : new TeamError(code, message, issues);
  }
}
