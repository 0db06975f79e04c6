// Compiled, never run: a consumer's use of the public types.
import { init, version } from 'agent-roundtable';

const ready: Promise<void> = init();
const text: string = version();
// @ts-expect-error: the version is a string, and no `any` hides it
const wrong: number = version();

export { ready, text, wrong };
