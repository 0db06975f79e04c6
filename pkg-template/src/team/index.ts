/** Teams: members that speak in rooms and wake each other by mentions. */

export { compileTeam } from './compile.js';
export { TeamError, type TeamErrorCode, type TeamIssue } from './errors.js';
export type { TeamPause } from './pause.js';
export { renderTeamRooms, type TeamRooms, type TeamRoomText } from './rooms.js';
export { createTeam, loadTeam } from './team.js';
export type * from './types.js';
