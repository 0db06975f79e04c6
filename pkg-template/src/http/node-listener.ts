/** A handler of `Request`s in Node's own HTTP server. */

/** What is used of Node's `IncomingMessage`. Declared here, so that projects without Node's types compile. */
export interface NodeRequest {
  method?: string | undefined;
  url?: string | undefined;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  on(event: 'end' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  pause(): unknown;
  resume(): unknown;
}

/** What is used of Node's `ServerResponse`. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body: Uint8Array): unknown;
  destroy(error?: Error): unknown;
}

/**
 * A listener for `http.createServer` that serves with a web-standard handler, such as that of
 * `deliberationHandler`. Where the handler rejects it answers 500; where the request is none, 400. A request's
 * `method` is the client's even where no `Request` can be made with it, as with TRACE.
 */
export function nodeListener(
  handler: (request: Request) => Promise<Response>,
): (request: NodeRequest, response: NodeResponse) => void {
  return (incoming, outgoing) => {
    serve(handler, incoming, outgoing).catch((error: unknown) => {
      outgoing.destroy(error instanceof Error ? error : undefined);
    });
  };
}

async function serve(
  handler: (request: Request) => Promise<Response>,
  incoming: NodeRequest,
  outgoing: NodeResponse,
): Promise<void> {
  const body = new Body(incoming);
  const request = toRequest(incoming, body);
  const response = request === undefined ? new Response(null, { status: 400 }) : await answer(handler, request);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const headers: Record<string, string> = {};
  response.headers.forEach((value, name) => {
    headers[name] = value;
  });
  outgoing.writeHead(response.status, headers);
  outgoing.end(bytes);
  body.drop();
}

async function answer(handler: (request: Request) => Promise<Response>, request: Request): Promise<Response> {
  try {
    return await handler(request);
  } catch {
    return new Response(null, { status: 500 });
  }
}

/** Methods that the constructor of `Request` refuses. */
const FORBIDDEN = ['TRACE', 'TRACK', 'CONNECT'];

/** `undefined` where the line or a header cannot stand in a `Request`. */
function toRequest(incoming: NodeRequest, body: Body): Request | undefined {
  const { method = 'GET', headers, url = '/' } = incoming;
  const isForbidden = FORBIDDEN.includes(method.toUpperCase());
  const hasBody = method !== 'GET' && method !== 'HEAD' && !isForbidden;
  try {
    const given = new Headers();
    for (const [name, value] of Object.entries(headers)) {
      for (const one of Array.isArray(value) ? value : [value ?? '']) given.append(name, one);
    }
    const host = typeof headers['host'] === 'string' ? headers['host'] : 'localhost';
    const shown = isForbidden ? 'OPTIONS' : method;
    const init = { method: shown, headers: given, ...(hasBody ? { body: body.read(), duplex: 'half' } : {}) };
    const request = new Request(new URL(url, `http://${host}`), init);
    return isForbidden ? Object.defineProperty(request, 'method', { value: method }) : request;
  } catch {
    return undefined;
  }
}

/** The body of a request. */
class Body {
  readonly #incoming: NodeRequest;
  #isOver = false;

  constructor(incoming: NodeRequest) {
    this.#incoming = incoming;
  }

  /** Gives it, no faster than it is wanted. */
  read(): ReadableStream<Uint8Array> {
    const incoming = this.#incoming;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        incoming.on('data', (chunk) => {
          if (this.#isOver) return;
          controller.enqueue(chunk);
          incoming.pause();
        });
        incoming.on('end', () => this.#end(() => controller.close()));
        incoming.on('error', (error) => this.#end(() => controller.error(error)));
        incoming.on('close', () => this.#end(() => controller.error(new Error('the client went away'))));
        incoming.pause();
      },
      pull: () => {
        incoming.resume();
      },
      cancel: () => this.drop(),
    });
  }

  /** Lets go of what nobody read, so that the client gets to read the answer and the connection serves again. */
  drop(): void {
    this.#isOver = true;
    this.#incoming.resume();
  }

  #end(tell: () => void): void {
    if (!this.#isOver) tell();
    this.#isOver = true;
  }
}
