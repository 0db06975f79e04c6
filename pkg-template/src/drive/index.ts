/** The bridge between deliberations and agents, small: the rest is loaded by its first use. */

import type { Deliberations, DeliberationStance } from '../deliberation/types.js';
import type { Tool } from '../runtime/types.js';
import type { DriveOptions, DriveResult } from './types.js';

/**
 * Lets agents take part in a session: they discuss in turns, and the one that facilitates decides after each round.
 * What they say becomes entries of the thread, each once; what people say in the session, each agent is shown in
 * its next turn as a message from that person. Ends with the session, or as `options` say; called again, in this
 * process or another, it goes on. One call at a time drives a session.
 *
 * Whoever is driven is spoken for with the rights of its id: `deliberations` trusts its callers.
 * @throws DeliberationError for options out of order, and as the session's calls do
 * @throws RoundtableError as `createRoundtable`, `loadRoundtable` and `run` do
 */
export async function driveDeliberation(
  deliberations: Deliberations,
  id: string,
  options: DriveOptions,
): Promise<DriveResult> {
  const { drive } = await import('./drive.js');
  return drive(deliberations, id, options);
}

/**
 * A tool by which an agent takes its position in a session, and by which a quorum is reached. Where the session refuses
 * it, the model is told.
 */
export function positionTool(
  deliberations: Pick<Deliberations, 'takePosition'>,
  id: string,
  participant: string,
): Tool {
  return {
    name: 'take_position',
    description: 'Takes your position on the proposal, in place of the one before.',
    parameters: {
      type: 'object',
      properties: { stance: { enum: ['for', 'against', 'abstain'] }, note: { type: 'string' } },
      required: ['stance'],
    },
    idempotent: true,
    execute: async (args) => {
      const { positions = [] } = await deliberations.takePosition(
        participant,
        id,
        args as { stance: DeliberationStance },
      );
      return { taken: positions.length };
    },
  };
}
