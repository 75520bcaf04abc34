import { Agent, type IncomingHttpHeaders, type IncomingMessage, request as sendRequest } from "node:http";
import { connect } from "node:net";
import { type FrameMachine, frameMachine } from "./frame-machine.ts";
import { type Frame, FrameReader } from "./sse-frames.ts";

/** The options of a request besides its method and path. */
export interface RequestOptions {
  /** Sent as a bearer token. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /**
   * A text or bytes are sent unchanged, other values as JSON; of type application/json unless a header says otherwise.
   */
  readonly body?: unknown;
  /** Sends the body in chunks, without its length. */
  readonly chunked?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly bytes: Buffer;
  /** The body, parsed at the first access. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers field by field, and a wrong guess fails the test
  readonly json: any;
}

/** Talks to a server as a plain client: adds no header, follows no redirect, retries nothing. */
export class HttpClient {
  readonly #url: () => string;
  /**
   * The client drops an idle connection before the server does so after ten seconds, so that no request meets a closing
   * one.
   */
  readonly #agent: Agent;

  /** `keepAlive`: false opens a connection for each request. */
  constructor(url: () => string, { keepAlive = true } = {}) {
    this.#url = url;
    this.#agent = new Agent({ keepAlive, timeout: 5_000 });
  }

  /** Resolves with the whole answer. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const message = await this.#send(method, path, options);
    const bytes = Buffer.concat(await message.toArray());
    const text = bytes.toString("utf8");
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      text,
      bytes,
      get json() {
        return JSON.parse(text);
      },
    };
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request("GET", path, options);
  }

  post(path: string, body: unknown, options: Omit<RequestOptions, "body"> = {}): Promise<Answer> {
    return this.request("POST", path, { ...options, body });
  }

  /** POSTs `body` and resolves with the head of the answer. */
  async stream(
    path: string,
    body: unknown,
    options: RequestOptions & { readonly method?: string } = {},
  ): Promise<TestStream> {
    const { method = "POST", ...rest } = options;
    const message = await this.#send(method, path, body === undefined ? rest : { ...rest, body });
    return new TestStream(message, machineFor(message, path, body, options));
  }

  /** GETs an event stream. */
  listen(path: string, options: RequestOptions = {}): Promise<TestStream> {
    return this.stream(path, undefined, { ...options, method: "GET" });
  }

  /**
   * Sends bytes unchanged over a connection of their own; resolves with the received bytes when the server has closed.
   */
  raw(bytes: string | Buffer): Promise<string> {
    const { hostname, port } = new URL(this.#url());
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      const socket = connect(Number(port), hostname, () => socket.write(bytes));
      socket.on("data", (chunk: Buffer) => chunks.push(chunk));
      // A server may reset the connection after a refusal, instead of reading the rest.
      socket.on("error", () => {});
      socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
    });
  }

  /** Drops idle connections. */
  close(): void {
    this.#agent.destroy();
  }

  #send(method: string, path: string, { key, headers = {}, body, chunked }: RequestOptions): Promise<IncomingMessage> {
    const bytes = body === undefined ? undefined : Buffer.isBuffer(body) ? body : Buffer.from(asText(body));
    const { hostname, port } = new URL(this.#url());
    const sent = {
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(bytes && { "content-type": "application/json" }),
      ...(bytes && (chunked ? { "transfer-encoding": "chunked" } : { "content-length": String(bytes.length) })),
      ...headers,
    };
    return new Promise((resolve, reject) => {
      const options = { method, path, hostname, port, headers: sent, agent: this.#agent };
      const request = sendRequest(options, resolve);
      request.on("error", reject);
      request.end(bytes);
    });
  }
}

function asText(body: unknown): string {
  return typeof body === "string" ? body : JSON.stringify(body);
}

/** The rules for an answer; null unless it is a stream of frames. */
function machineFor(
  { statusCode, headers }: IncomingMessage,
  path: string,
  body: unknown,
  { headers: sent = {} }: RequestOptions,
): FrameMachine | null {
  if (statusCode !== 200 || headers["content-type"] !== "text/event-stream") return null;
  const { pathname, searchParams } = new URL(path, "http://client");
  if (pathname === "/chat/stream") {
    if (headers["idempotent-replayed"] === "true") return frameMachine({ kind: "replay" });
    const fields = typeof body === "object" && body !== null ? (body as { thread_id?: unknown }) : {};
    return frameMachine({ kind: "turn", threaded: (fields.thread_id ?? null) !== null });
  }
  if (pathname.startsWith("/chat/runs/") || searchParams.has("resume_token")) return frameMachine({ kind: "run" });
  if (!pathname.startsWith("/chat/stream/")) return null;
  const given = sent["last-event-id"] ?? searchParams.get("last_event_id");
  const cursor = /^\d{1,15}$/.test(String(given)) ? Number(given) : null;
  return frameMachine({ kind: "tail", cursor });
}

/** An event stream that is read, and checked by the rules of its kind. */
export class TestStream {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly #message: IncomingMessage;
  readonly #reader = new FrameReader();
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #waiting: Frame[] = [];
  readonly #machine: FrameMachine | null;
  #text = "";

  constructor(message: IncomingMessage, machine: FrameMachine | null) {
    this.#machine = machine;
    this.status = message.statusCode ?? 0;
    this.headers = message.headers;
    this.#message = message;
    this.#chunks = message.iterator({ destroyOnReturn: false });
  }

  /** All text that was read, unchanged. */
  get text(): string {
    return this.#text;
  }

  /** The next frame or comment; undefined when the stream has ended. */
  async next(): Promise<Frame | undefined> {
    while (this.#waiting.length === 0) {
      const { value, done } = await this.#chunks.next();
      if (done) {
        this.#machine?.end();
        return undefined;
      }
      const text = value.toString("utf8");
      this.#text += text;
      const frames = this.#reader.push(text);
      for (const frame of frames) this.#machine?.take(frame);
      this.#waiting.push(...frames);
    }
    return this.#waiting.shift();
  }

  /** The next frame of this name. Throws when the stream ends without one. */
  async until(event: string): Promise<Frame> {
    for await (const frame of this) if (frame.name === event) return frame;
    throw new Error(`the stream ended without ${event}:\n${this.#text}`);
  }

  /** The rest of the stream. */
  async rest(): Promise<Frame[]> {
    const frames: Frame[] = [];
    for await (const frame of this) frames.push(frame);
    return frames;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Frame> {
    for (let frame = await this.next(); frame; frame = await this.next()) yield frame;
  }

  /** The raw body, if it is not an event stream. */
  async *bytes(): AsyncGenerator<string> {
    for (let next = await this.#chunks.next(); !next.done; next = await this.#chunks.next())
      yield next.value.toString("utf8");
  }

  /** Stops reading the connection, like a hung client. */
  pause(): void {
    this.#message.pause();
  }

  /** Disconnects. */
  close(): void {
    this.#message.destroy();
  }
}
