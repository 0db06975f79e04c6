/** The tools of an MCP server for agents. The SDK itself is not needed: its client is taken by its shape. */

import type { JsonSchema, Tool } from './runtime/types.js';
import type { JsonValue } from './types.js';

/** A connected client: `Client` of `@modelcontextprotocol/client`, or of `@modelcontextprotocol/sdk` before it. */
export interface McpClient {
  listTools(params?: { cursor?: string }): Promise<{ tools: readonly McpTool[]; nextCursor?: string | undefined }>;
  callTool(params: never, ...rest: never[]): Promise<unknown>;
}

/** What is read of a tool in a server's list. */
export interface McpTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: object;
  readonly annotations?:
    | { readonly idempotentHint?: boolean | undefined; readonly readOnlyHint?: boolean | undefined }
    | undefined;
}

export interface McpToolsOptions {
  /** Put before each name, such as `files_`, where servers name their tools alike. Permission patterns see it. */
  prefix?: string;
  /**
   * Whether the server is trusted to say of itself which tools are idempotent or only read: a call of such a tool
   * that a crash interrupted is made again. Default `false`, since a server may say anything.
   */
  trustAnnotations?: boolean;
  /** How long the client waits for a result, in milliseconds. Default: the client's own limit. */
  timeoutMs?: number;
}

/** Under this key of a call's `_meta` a server finds what is the same for a call that is made again. */
const IDEMPOTENCY_KEY = 'agent-roundtable/idempotency-key';

/**
 * The tools that the server offers now, all pages of its list, as new objects: an agent's tools are its own, so
 * call it in each `createAgent`. A result is the server's structured content where there is some, else its
 * text, else its content as it came. What the server marks as an error is thrown, and so told to the model.
 */
export async function mcpTools(client: McpClient, options: McpToolsOptions = {}): Promise<Tool[]> {
  const tools: Tool[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    for (const tool of page.tools) tools.push(toolOf(client, tool, options));
    if (page.nextCursor === cursor) break;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return tools;
}

function toolOf(client: McpClient, tool: McpTool, { prefix = '', trustAnnotations, timeoutMs }: McpToolsOptions): Tool {
  const { name, description = '', inputSchema, annotations = {} } = tool;
  return {
    name: prefix + name,
    description,
    parameters: inputSchema as JsonSchema,
    idempotent: trustAnnotations === true && (annotations.idempotentHint === true || annotations.readOnlyHint === true),
    async execute(args, { signal, idempotencyKey }) {
      const params = { name, arguments: args, _meta: { [IDEMPOTENCY_KEY]: idempotencyKey } };
      const limits = { signal, ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }) };
      return resultOf(name, await call(client, params, limits));
    },
  };
}

/** The older client takes a schema for the result between the two, by default its own. */
function call(client: McpClient, params: object, limits: object): Promise<unknown> {
  const { callTool } = client as unknown as { callTool(...args: unknown[]): Promise<unknown> };
  const args = callTool.length === 1 ? [params, undefined, limits] : [params, limits];
  return callTool.apply(client, args);
}

function resultOf(name: string, result: unknown): JsonValue {
  const { content = [], structuredContent, isError } = (result ?? {}) as Result;
  const isText = content.every(({ type, text }) => type === 'text' && typeof text === 'string');
  const text = isText ? content.map((part) => part.text).join('\n') : undefined;
  if (isError === true) throw new Error(text || `the tool ${name} failed: ${JSON.stringify(content)}`);
  return structuredContent ?? text ?? (content as unknown as JsonValue);
}

interface Result {
  content?: readonly { type: string; text?: string }[];
  structuredContent?: JsonValue;
  isError?: boolean;
}
