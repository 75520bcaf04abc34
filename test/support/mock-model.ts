// An OpenAI-compatible model server on real sockets. Under load it sends ready-made bytes; for tests it is also the
// hostile, slow and failing model. The request's `model` selects the behaviour: a built-in name (see
// mock-model/behaviours.ts) or a name for which the test has given answers.
import { createServer, type Server, type Socket } from "node:net";
import { type Answer, type Asked, jsonScript, renderAnswer } from "./mock-model/answer.ts";
import { type Behaviour, behaviourNames, behaviourOf, failure, type Reply } from "./mock-model/behaviours.ts";
import { embeddingScript } from "./mock-model/embeddings.ts";
import { type RawRequest, RequestReader } from "./mock-model/http.ts";
import { type Ending, playOps } from "./mock-model/play.ts";
import { compileScript, type Script } from "./mock-model/script.ts";

export interface MockModel {
  readonly port: number;
  /** The base URL for a client, `/v1` included. */
  readonly url: string;
  /** Every request for an answer or for vectors so far, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** Connections that are open now. */
  readonly connections: number;
  /** The oldest chat request that no earlier call has returned, as soon as there is one. */
  next(): Promise<RecordedRequest>;
  /** Lets `model` answer with these in turn, repeating the last one. Overrides the built-in names. */
  answer(model: string, ...behaviours: Behaviour[]): void;
  /** Ends every connection and the server. */
  close(): Promise<void>;
}

interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Unchanged. */
  readonly text: string;
  readonly model: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** "sent" when the answer is out, "gone" when the client left before. */
  readonly ended: Promise<Ending>;
}

export interface MockModelOptions {
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** If set, requests without this bearer key are refused with 401. */
  readonly apiKey?: string;
  /** False stores no requests; default true. */
  readonly record?: boolean;
}

/** Starts a mock model server on 127.0.0.1. */
export async function startMockModel(options: MockModelOptions = {}): Promise<MockModel> {
  const state = new State(options);
  const server = createServer({ noDelay: true }, (socket) => serve(socket, state));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", 4096, resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    port,
    url: `http://127.0.0.1:${port}/v1`,
    requests: state.requests,
    get connections() {
      return state.sockets.size;
    },
    next: () => state.next(),
    answer: (model, ...behaviours) => state.scripted.set(model, behaviours),
    close: () => closeServer(server, state.sockets),
  };
}

/** The requests of all connections, and their handling. */
class State {
  readonly sockets = new Set<Socket>();
  readonly scripted = new Map<string, readonly Behaviour[]>();
  readonly requests: RecordedRequest[] = [];
  readonly #record: boolean;
  readonly #authorization: string | undefined;
  readonly #seen = new Map<string, number>();
  readonly #waiting: ((request: RecordedRequest) => void)[] = [];
  #given = 0;
  readonly #rendered = new WeakMap<Answer, Map<string, Script>>();

  constructor(options: MockModelOptions) {
    this.#record = options.record ?? true;
    this.#authorization = options.apiKey === undefined ? undefined : `Bearer ${options.apiKey}`;
  }

  next(): Promise<RecordedRequest> {
    const request = this.requests[this.#given];
    if (request === undefined) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#given += 1;
    return Promise.resolve(request);
  }

  /** The script for a request, with the function to call after it is played. */
  respond(raw: RawRequest): { script: Script; ended?: (ending: Ending) => void } {
    if (this.#authorization !== undefined && raw.headers.authorization !== this.#authorization) {
      return { script: failure(401) };
    }
    if (raw.path === "/v1/models") {
      const names = [...new Set([...behaviourNames(), ...this.scripted.keys()])];
      const data = names.map((id) => ({ id, object: "model", created: 0, owned_by: "mock" }));
      return { script: raw.method === "GET" ? jsonScript(200, { object: "list", data }) : failure(405) };
    }
    const isEmbedding = raw.path === "/v1/embeddings";
    if (!isEmbedding && raw.path !== "/v1/chat/completions" && !isDecision(raw.path)) return { script: failure(404) };
    if (raw.method !== "POST") return { script: failure(405) };
    const body = parseBody(raw.body);
    if (body === undefined) return { script: failure(400) };
    return isEmbedding ? this.#embed(raw, body) : this.#chat(raw, body);
  }

  /** A scripted answer replaces the real one; a function gets the question. */
  #embed(raw: RawRequest, body: Record<string, unknown>): { script: Script; ended?: (ending: Ending) => void } {
    const model = String(body.model);
    const earlier = this.#seen.get(model) ?? 0;
    this.#seen.set(model, earlier + 1);
    const scripted = this.scripted.get(model);
    const behaviour = scripted?.[earlier] ?? scripted?.at(-1);
    const ended = this.#record ? this.#keep(raw, model, body) : undefined;
    const reply = typeof behaviour === "function" ? behaviour({ model, body, earlier }) : behaviour;
    const script = reply !== undefined && "steps" in reply ? reply : embeddingScript(body);
    return { script, ...(ended && { ended }) };
  }

  #chat(raw: RawRequest, body: Record<string, unknown>): { script: Script; ended?: (ending: Ending) => void } {
    const model = String(body.model);
    const earlier = this.#seen.get(model) ?? 0;
    this.#seen.set(model, earlier + 1);
    const scripted = this.scripted.get(model);
    const behaviour = scripted === undefined ? behaviourOf(model) : (scripted[earlier] ?? scripted.at(-1));
    const ended = this.#record ? this.#keep(raw, model, body) : undefined;
    if (behaviour === undefined) return { script: failure(404), ...(ended && { ended }) };
    const reply = typeof behaviour === "function" ? behaviour({ model, body, earlier }) : behaviour;
    const script = this.#scriptOf(reply, askedBy(model, body, raw.body.length));
    return { script, ...(ended && { ended }) };
  }

  #keep(raw: RawRequest, model: string, body: Record<string, unknown>): (ending: Ending) => void {
    const { promise, resolve } = Promise.withResolvers<Ending>();
    const text = raw.body.toString();
    const request = { method: raw.method, path: raw.path, headers: raw.headers, text, model, body, ended: promise };
    this.requests.push(request);
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) {
      this.#given += 1;
      waiting(request);
    }
    return resolve;
  }

  #scriptOf(reply: Reply, asked: Asked): Script {
    if ("steps" in reply) return reply;
    // A counted usage differs from request to request.
    if (reply.usage === undefined) return renderAnswer(reply, asked);
    const key = `${asked.stream} ${asked.includeUsage} ${asked.model}`;
    let scripts = this.#rendered.get(reply);
    if (scripts === undefined) {
      scripts = new Map();
      this.#rendered.set(reply, scripts);
    }
    let script = scripts.get(key);
    if (script === undefined) {
      script = renderAnswer(reply, asked);
      scripts.set(key, script);
    }
    return script;
  }
}

/** Answers the requests of one connection in sequence. */
function serve(socket: Socket, state: State): void {
  const reader = new RequestReader();
  let busy = false;
  state.sockets.add(socket);
  socket.on("close", () => state.sockets.delete(socket));
  // A client that leaves ends the answer, by the event "close".
  socket.on("error", () => {});
  socket.on("data", (bytes) => {
    reader.push(bytes);
    answerNext();
  });

  function answerNext(): void {
    while (!busy && !socket.destroyed) {
      const request = reader.take();
      if (request === undefined) return;
      if ("status" in request) {
        const ops = compileScript({ ...jsonScript(request.status, { error: { message: request.message } }) });
        playOps(socket, ops, () => socket.end());
        return;
      }
      const { script, ended } = state.respond(request);
      busy = true;
      let returned = false;
      playOps(socket, compileScript(script), (ending) => {
        busy = false;
        ended?.(ending);
        if (returned) answerNext();
      });
      returned = true;
    }
  }
}

/** True for a decision request: by its own protocol, under its own address or that of an account. */
function isDecision(path: string): boolean {
  return path === "/v1/systemone" || path.startsWith("/run/");
}

function askedBy(model: string, body: Record<string, unknown>, bodyBytes: number): Asked {
  const options = body.stream_options;
  const includeUsage =
    typeof options === "object" && options !== null && "include_usage" in options && options.include_usage === true;
  return { model, stream: body.stream === true, includeUsage, bodyBytes };
}

function parseBody(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const body: unknown = JSON.parse(bytes.toString());
    return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function closeServer(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    for (const socket of sockets) socket.destroy();
  });
}
