import {
  App,
  type HttpResponse,
  type us_listen_socket,
  us_listen_socket_close,
  us_socket_local_port,
} from "uWebSockets.js";
import type { Env } from "../../bus/env.ts";
import type { Reply } from "../exchange/reply.ts";
import { copiedHeaders, forgottenHead, type RequestHead, readHead } from "../exchange/request-head.ts";
import { EventStream, type StreamRegistry, type StreamSink } from "../exchange/sse.ts";
import { statusLine } from "../exchange/status-lines.ts";
import { BodyReader } from "./body-reader.ts";
import { Lingering } from "./lingering.ts";

// The only file that knows uWebSockets.js. A request is copied out of it at once, because it is gone when the callback
// returns, and becomes an Exchange: what was asked, and the one place where it is answered.

/** Sent with every answer. One call, because each crosses into C++; the value carries the other lines. */
const securityHeaderName = "x-content-type-options";
const securityHeaders = "nosniff\r\nx-frame-options: DENY\r\nreferrer-policy: no-referrer";

const streamHeaders = { "cache-control": "no-cache", "x-accel-buffering": "no" } as const;

/** Called for every request, with its whole life in `exchange`. */
export type OnRequest = (exchange: Exchange) => void;

/** A request and its answer. */
export class Exchange implements StreamSink {
  #head: RequestHead;
  /** Set by the first middleware, and sent with every answer. */
  requestId = "";
  /** Further headers of the answer, whatever it will be. */
  readonly extraHeaders: [string, string][] = [];
  readonly #response: HttpResponse;
  readonly #streams: StreamRegistry;
  readonly #env: Env;
  #aborted = false;
  #answered = false;
  #onAborted: (() => void) | null = null;
  #body: BodyReader | null = null;
  #lingering: Lingering | null = null;
  #stream: EventStream | null = null;

  constructor(head: RequestHead, response: HttpResponse, streams: StreamRegistry, env: Env) {
    this.#head = head;
    this.#response = response;
    this.#streams = streams;
    this.#env = env;
    response.onAborted(() => this.#abort());
    if (head.method !== "GET" && head.method !== "HEAD" && head.method !== "OPTIONS") {
      this.#body = new BodyReader();
      response.onData((chunk, isLast) => (this.#lingering ?? this.#body)?.take(chunk, isLast));
    }
  }

  /** What was asked. Nothing is left of it once a stream is open. */
  get head(): RequestHead {
    return this.#head;
  }

  /** The address of whoever holds the other end of the connection. */
  remoteAddress(): string {
    return this.#aborted ? "" : Buffer.from(this.#response.getRemoteAddressAsText()).toString("latin1");
  }

  /** Calls back when the client goes away before it was answered in full. */
  onAborted(work: () => void): void {
    if (this.#aborted) work();
    else this.#onAborted = work;
  }

  /** The body, at most `maxBytes`. Refuses with payload_too_large as soon as there is more. Never settles when the client is gone. */
  body(maxBytes: number): Promise<Buffer> {
    return this.#body === null ? Promise.resolve(Buffer.alloc(0)) : this.#body.read(maxBytes);
  }

  /** Answers; a second answer, or one to nobody, is dropped. */
  reply(reply: Reply): void {
    if (this.#aborted || this.#answered) return;
    this.#answered = true;
    switch (reply.kind) {
      case "json":
        this.#whole(reply.status, "application/json", reply.body, reply.headers);
        break;
      case "text":
        this.#whole(reply.status, reply.contentType, reply.body, reply.headers);
        break;
      case "stream":
        this.#openStream(reply);
        break;
      case "pieces":
        // A body that cannot be finished is cut off, so that nobody takes what there is for the whole.
        this.#writePieces(reply).catch(() => {
          if (!this.#aborted) this.#response.close();
        });
    }
  }

  #whole(status: number, contentType: string, body: string | Uint8Array, headers: Reply["headers"]): void {
    const answer = (): void => this.#answerWhole(status, contentType, body, headers);
    // A body that has come in one piece with its head is handed over after it. And had a request without an end been answered by
    // then, uWebSockets.js would take what came with it for the next one; with an answer still due, it drops the connection.
    if (this.#isUnread || this.#head.endUnknown) this.#env.defer(answer);
    else answer();
  }

  /** Whether the client may still be sending. */
  get #isUnread(): boolean {
    return this.#body !== null && !this.#body.complete && !this.#head.endUnknown;
  }

  #answerWhole(status: number, contentType: string, body: string | Uint8Array, headers: Reply["headers"]): void {
    if (this.#aborted) return;
    this.#response.cork(() => {
      this.#writeHead(status, contentType, headers, true);
      if (this.#isUnread) this.#wholeAndLinger(body);
      else if (this.head.method === "HEAD") {
        // Told the length, endWithoutBody goes on waiting for the body and drops the connection at the next request.
        this.#response.writeHeader("content-length", String(Buffer.byteLength(body)));
        this.#response.endWithoutBody();
      } else this.#response.end(body, this.#head.endUnknown);
    });
    this.#over();
  }

  /** Says all there is to be said, and closes when the client has said what it has to say, or will not stop. */
  #wholeAndLinger(body: string | Uint8Array): void {
    const text = typeof body === "string" ? body : Buffer.from(body).toString("latin1");
    const response = this.#response;
    response.writeHeader("connection", "close");
    // After `end` nothing could close the connection any more. A header may carry what stands behind the last one.
    const chunk = `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
    response.writeHeader("transfer-encoding", `chunked\r\n\r\n${text === "" ? "" : chunk}0\r\n`);
    this.#body = null;
    this.#lingering = new Lingering(this.#env, () => response.close());
  }

  /** The head and what is there to be said already leave together. */
  #openStream(reply: Extract<Reply, { kind: "stream" }>): void {
    const response = this.#response;
    response.cork(() => {
      this.#writeHead(200, "text/event-stream", { ...streamHeaders, ...reply.headers }, false);
      if (this.head.method === "HEAD") {
        response.endWithoutBody();
        this.#over();
        return;
      }
      // Streams are many and stay long: what was asked is not kept with them.
      this.#head = forgottenHead;
      this.#body = null;
      const stream = new EventStream(this, this.#streams);
      this.#stream = stream;
      response.onWritable(() => {
        stream.onDrained();
        return true;
      });
      reply.open(stream);
    });
  }

  /** See `StreamSink`. */
  write(text: string): boolean {
    let taken = true;
    this.#response.cork(() => {
      taken = this.#response.write(text);
    });
    return taken;
  }

  /** See `StreamSink`. */
  end(text: string): void {
    this.#response.cork(() => {
      if (text !== "") this.#response.write(text);
      this.#response.end();
    });
    this.#over();
  }

  /** Drops the connection. */
  close(): void {
    this.#response.close();
  }

  /** Writes pieces as the client takes them. Rejects when one could not be made. */
  async #writePieces(reply: Extract<Reply, { kind: "pieces" }>): Promise<void> {
    const response = this.#response;
    let drained: (() => void) | null = null;
    response.onWritable(() => {
      drained?.();
      return true;
    });
    this.#onAborted = () => drained?.();
    let headWritten = false;
    const writeHead = (): void => {
      if (headWritten) return;
      headWritten = true;
      this.#writeHead(200, reply.contentType, reply.headers, true);
    };
    if (this.head.method === "HEAD") {
      response.cork(() => {
        writeHead();
        response.endWithoutBody();
      });
      this.#over();
      return;
    }
    for await (const piece of reply.pieces) {
      if (this.#aborted) return;
      let taken = true;
      response.cork(() => {
        writeHead();
        if (piece !== "") taken = response.write(piece);
      });
      if (!taken)
        await new Promise<void>((resolve) => {
          drained = resolve;
        });
      drained = null;
    }
    if (this.#aborted) return;
    response.cork(() => {
      writeHead();
      response.end();
    });
    this.#over();
  }

  #writeHead(status: number, contentType: string, headers: Reply["headers"], noStore: boolean): void {
    const response = this.#response;
    response.writeStatus(statusLine(status));
    response.writeHeader("content-type", contentType);
    response.writeHeader("x-request-id", this.requestId);
    response.writeHeader(
      securityHeaderName,
      noStore && headers?.["cache-control"] === undefined
        ? `${securityHeaders}\r\ncache-control: no-store`
        : securityHeaders,
    );
    for (const [name, value] of this.extraHeaders) response.writeHeader(name, value);
    if (headers) for (const name of Object.keys(headers)) response.writeHeader(name, headers[name] as string);
  }

  #abort(): void {
    this.#aborted = true;
    const onAborted = this.#onAborted;
    this.#over();
    this.#lingering?.stop();
    onAborted?.();
    this.#stream?.onAborted();
  }

  #over(): void {
    this.#onAborted = null;
  }
}

/** A listening server. */
export interface Listener {
  readonly port: number;
  /** Takes no more connections; those that are open go on. */
  stopAccepting(): void;
  /** Drops every connection. */
  close(): void;
}

/** Listens on a port, alone or beside other threads of this process. Rejects when it cannot. */
export function listen(
  options: { readonly host: string; readonly port: number; readonly trustedHeader: string },
  env: Env,
  streams: StreamRegistry,
  onRequest: OnRequest,
): Promise<Listener> {
  const app = App();
  const copied = copiedHeaders(options.trustedHeader);
  app.any("/*", (response, request) => onRequest(new Exchange(readHead(request, copied), response, streams, env)));
  return new Promise((resolve, reject) => {
    app.listen(options.host, options.port, (socket: us_listen_socket | false) => {
      if (socket === false) {
        reject(new Error(`cannot listen on ${options.host}:${options.port}`));
        return;
      }
      let open = true;
      resolve({
        port: us_socket_local_port(socket as never),
        stopAccepting() {
          if (open) us_listen_socket_close(socket);
          open = false;
        },
        close() {
          open = false;
          app.close();
        },
      });
    });
  });
}
