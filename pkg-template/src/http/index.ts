/** Deliberations over HTTP. */

export { type DeliberationHandlerOptions, deliberationHandler } from './handler.js';
export { deliberationOpenApi } from './openapi.js';
