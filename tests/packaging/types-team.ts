// Compiled, never run: a consumer's use of teams, from the root and from their own entry.
import {
  type CompiledTeam,
  type compileTeam,
  createTeam,
  loadTeam,
  MemoryConversationStore,
  renderTeamRooms,
  type Team,
  type TeamDefinition,
  TeamError,
  type TeamFunction,
  type TeamMember,
  type TeamOutcome,
  type TeamTurnResult,
} from 'agent-roundtable';
import { projectTeamRooms } from 'agent-roundtable/node';
import * as entry from 'agent-roundtable/team';

const definition: TeamDefinition = {
  id: 'review',
  definitionVersion: 1,
  data: { task: 't', globalConcurrency: 1, maxTurnsPerMember: 2 },
  nodes: [{ id: 'a', data: { role: 'r', brief: 'b' } }],
  edges: [],
};
const ask: TeamFunction = ({ result }, { pause, position }) =>
  result === null ? pause('why', { position }) : { summary: 's', data: [1] };
ask.retrySafe = true;
// @ts-expect-error: a result has a summary
const silent: TeamFunction = () => ({ posts: [] });
const members: Record<string, TeamMember> = { a: ask, b: silent };
const store = new MemoryConversationStore();

export async function review(): Promise<TeamTurnResult | null | undefined> {
  const team: Team = createTeam({ runId: 'r', definition, members, store, order: 'oldest-trigger' });
  const outcome: TeamOutcome = await team.run({ signal: AbortSignal.timeout(1) });
  if (outcome.status === 'failed') console.log(outcome.code === 'TEAM_NODE_FAILED', outcome.pending[0]?.messages);
  // @ts-expect-error: a cancelled run has no output
  if (outcome.status === 'cancelled') console.log(outcome.output);
  const again: entry.Team = await loadTeam({ runId: 'r', members, store });
  const [room] = (await renderTeamRooms({ store, runId: 'r' })).rooms;
  console.log(room?.text.length, (await projectTeamRooms({ store, runId: 'r', directory: 'd' })).files.length);
  return again.snapshot().output.agents[0]?.result;
}

const compiled: CompiledTeam = entry.compileTeam(definition);
export const finding: string | undefined = compiled.validateResult('a', { summary: 's' })?.path;
export const same: typeof compileTeam = entry.compileTeam;
export const told = (error: unknown): string | undefined =>
  error instanceof TeamError ? error.issues[0]?.path : undefined;
