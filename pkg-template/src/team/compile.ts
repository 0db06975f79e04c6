/** Definitions, checked before anything is stored or called. */

import { ask } from '../inspection/ask.js';
import { BadValue, deepFreeze, unboundedJsonText } from '../values.js';
import { TeamError, TeamThrown } from './errors.js';
import type { CompiledTeam, TeamDefinition, TeamResult } from './types.js';

/**
 * Checks a definition and copies it.
 * @throws TeamError `INVALID_TEAM` listing every finding
 */
export function compileTeam(definition: TeamDefinition): CompiledTeam {
  const text = compiledText(definition);
  const copy = deepFreeze(JSON.parse(text) as TeamDefinition);
  const { globalConcurrency, maxTurnsPerMember } = copy.data;
  return Object.freeze({
    definition: copy,
    bounds: Object.freeze({
      minDispatches: copy.nodes.filter((node) => node.data.initialTurn !== false).length,
      maxDispatches: copy.nodes.length * maxTurnsPerMember,
      maxConcurrency: globalConcurrency,
    }),
    validateResult(memberId: string, result: unknown) {
      let given: string;
      try {
        given = unboundedJsonText(result, '', 1);
      } catch (error) {
        if (!(error instanceof BadValue)) throw error;
        return { code: 'INVALID_TEAM' as const, path: '', message: error.message.trim() };
      }
      const issue = ask((engine) => engine.validateTeamResult(text, memberId, given), undefined, new TeamThrown());
      return issue === undefined ? null : (JSON.parse(issue) as ReturnType<CompiledTeam['validateResult']>);
    },
    redactResult(readerId: string, output: TeamResult): TeamResult {
      const given = unboundedJsonText(output, 'output', 4);
      return JSON.parse(ask((engine) => engine.redactTeamResult(text, readerId, given))) as TeamResult;
    },
  });
}

/** The canonical JSON of a checked definition. @throws TeamError */
export function compiledText(definition: unknown): string {
  let given: string;
  try {
    given = unboundedJsonText(definition, 'definition');
  } catch (error) {
    if (!(error instanceof BadValue)) throw error;
    const issue = { code: 'INVALID_JSON_VALUE', path: '', message: error.message };
    throw new TeamError('INVALID_TEAM', error.message, [issue]);
  }
  return ask((engine) => engine.compileTeam(given), undefined, new TeamThrown());
}
