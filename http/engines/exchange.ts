import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { keepAlive } from "../../bus/frames/frames.ts";
import type { TraceContext } from "../../bus/protocol/trace.ts";
import { hasSendableHead, isSendable, type Reply, refusal } from "../exchange/reply.ts";
import { forgottenHead, type RequestHead } from "../exchange/request-head.ts";
import { EventStream, type StreamRegistry, type StreamSink } from "../exchange/sse.ts";
import { BodyReader } from "./body-reader.ts";
import { Lingering } from "./lingering.ts";
import type { SlowBodies } from "./slow-bodies.ts";
import type { Wire } from "./wire.ts";

const streamHeaders = { "cache-control": "no-cache", "x-accel-buffering": "no" } as const;

/** State that all exchanges of a server share. */
export interface ExchangeContext {
  readonly env: Env;
  readonly streams: StreamRegistry;
  readonly slowBodies: SlowBodies;
  /** Counts the requests received from now on that have neither a complete answer nor an open stream. */
  unanswered: { count: number };
}

/** A request and its answer. */
export class Exchange implements StreamSink {
  #head: RequestHead;
  /** Set by the first middleware, and sent with every answer. */
  requestId = "";
  /** The span of a sampled request; null for all others. */
  trace: TraceContext | null = null;
  /** Called once when the answer is complete, or the client is gone. */
  onOver: (() => void) | null = null;
  /** True if pages may show the answer in a frame. */
  isFramed = false;
  /** Headers that are added to any answer. */
  readonly extraHeaders: [string, string][] = [];
  readonly #wire: Wire;
  readonly #context: ExchangeContext;
  #aborted = false;
  #answered = false;
  /** The counter that includes this exchange; null after it was decremented. */
  #countedIn: { count: number } | null;
  #onAborted: (() => void) | null = null;
  #body: BodyReader | null;
  #lingering: Lingering | null = null;
  #stream: EventStream | null = null;

  /** `hasBody`: true if the engine will hand over a body, even an empty one. */
  constructor(head: RequestHead, wire: Wire, hasBody: boolean, context: ExchangeContext) {
    this.#head = head;
    this.#wire = wire;
    this.#context = context;
    this.#body = hasBody ? new BodyReader() : null;
    this.#countedIn = context.unanswered;
    this.#countedIn.count++;
  }

  /** The head of the request. It is dropped once a stream is open. */
  get head(): RequestHead {
    return this.#head;
  }

  /** The address of the connection's peer. */
  remoteAddress(): string {
    return this.#aborted ? "" : this.#wire.remoteAddress();
  }

  /** Calls `work` when the client disconnects before its answer is complete. */
  onAborted(work: () => void): void {
    if (this.#aborted) work();
    else this.#onAborted = work;
  }

  /**
   * Returns the body, at most `maxBytes`. Refuses with payload_too_large as soon as it is larger, request_timeout if it is too slow, and
   * malformed_request if it is invalid. Never settles if the client disconnects.
   */
  body(maxBytes: number): Promise<Buffer> {
    const body = this.#body;
    if (body === null) return Promise.resolve(Buffer.alloc(0));
    const read = body.read(maxBytes);
    if (body.awaited && !this.#aborted) {
      this.#context.slowBodies.watch(body);
      this.#wire.askForBody();
    }
    return read;
  }

  /**
   * Sends the answer. Drops a second answer, or one to a disconnected client. Sends internal_error instead of an answer with a header value
   * that could split it.
   */
  reply(reply: Reply): void {
    const isDropped = this.#aborted || this.#answered;
    const isSafe = hasSendableHead(reply);
    if (reply.kind === "pieces" && (isDropped || !isSafe)) void reply.pieces.return();
    if (isDropped) return;
    this.#answered = true;
    this.#send(isSafe ? reply : refusal(new SvcError("internal_error"), this.requestId));
  }

  #send(reply: Reply): void {
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
        // If a piece fails, close the connection, so that the client does not take the partial body for the whole.
        this.#writePieces(reply).catch(() => {
          if (!this.#aborted) this.#wire.close();
        });
    }
  }

  /** See `StreamSink`. */
  write(piece: string | Uint8Array): boolean {
    return this.#wire.write(piece);
  }

  /** See `StreamSink`. */
  end(text: string): void {
    this.#wire.end(text);
    this.#over();
  }

  /** Drops the connection. */
  close(): void {
    this.#wire.close();
  }

  /** For the engine: the next piece of the body. Its memory is valid only during the call. */
  takeBody(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#lingering) this.#lingering.take(chunk, isLast);
    else if (this.#body) {
      this.#body.take(chunk, isLast);
      if (!this.#body.awaited) this.#context.slowBodies.forget(this.#body);
    }
  }

  /** For the engine: the body is malformed or incomplete. */
  failBody(failure: SvcError): void {
    this.#body?.fail(failure);
  }

  /** For the engine: sends a comment on an open stream, to detect a dead connection. */
  comment(): void {
    this.#stream?.comment(keepAlive);
  }

  /** For the engine: the client disconnected, or the connection was cut, before the answer was complete. */
  gone(): void {
    this.#aborted = true;
    const onAborted = this.#onAborted;
    this.#over();
    if (this.#body) this.#context.slowBodies.forget(this.#body);
    this.#lingering?.stop();
    onAborted?.();
    this.#stream?.onAborted();
  }

  #whole(status: number, contentType: string, body: string | Uint8Array, headers: Reply["headers"]): void {
    const answer = (): void => this.#answerWhole(status, contentType, body, headers);
    // The engine hands over a body that arrived with its head only after the head. If a request of unknown end were answered before that,
    // uWebSockets.js would parse the body as the next request. With an answer pending it drops the connection.
    if (this.#isUnread || this.#head.endUnknown) this.#context.env.defer(answer);
    else answer();
  }

  /** True if the client may still be sending its body. */
  get #isUnread(): boolean {
    return this.#body !== null && !this.#body.complete && !this.#head.endUnknown;
  }

  #answerWhole(status: number, contentType: string, body: string | Uint8Array, headers: Reply["headers"]): void {
    if (this.#aborted) return;
    this.#wire.together(() => {
      this.#writeHead(status, contentType, headers, true);
      // A 304 answer repeats neither the body nor its length.
      if (status === 304) this.#wire.endWithoutBody(null);
      else if (this.head.method === "HEAD") this.#wire.endWithoutBody(Buffer.byteLength(body));
      else if (this.#isUnread) this.#wholeAndLinger(body);
      else this.#wire.endWith(body, this.#head.endUnknown);
    });
    this.#over();
  }

  /** Sends the whole answer, then drops the rest of the body. Closes when the client stops sending or a bound is reached. */
  #wholeAndLinger(body: string | Uint8Array): void {
    this.#wire.endBeforeBody(body);
    this.#body = null;
    this.#lingering = new Lingering(this.#context.env, () => this.#wire.close());
  }

  /** Opens a stream; its head and first frames leave in one write. */
  #openStream(reply: Extract<Reply, { kind: "stream" }>): void {
    this.#wire.together(() => {
      this.#writeHead(200, "text/event-stream", { ...streamHeaders, ...reply.headers }, false);
      if (this.head.method === "HEAD") {
        this.#wire.endWithoutBody(null);
        this.#over();
        return;
      }
      this.#uncount();
      // Streams are many and long-lived, so they do not keep the request's head.
      this.#head = forgottenHead;
      this.#body = null;
      const stream = new EventStream(this, this.#context.streams);
      this.#stream = stream;
      this.#wire.tellDrained(stream);
      reply.open(stream);
    });
  }

  /** Writes pieces at the client's pace. Rejects if a piece cannot be made. */
  async #writePieces(reply: Extract<Reply, { kind: "pieces" }>): Promise<void> {
    const wire = this.#wire;
    const { pieces } = reply;
    let drained: (() => void) | null = null;
    wire.tellDrained({ onDrained: () => drained?.() });
    // On a disconnect, cancel the pending piece: it may take long.
    this.#onAborted = () => {
      drained?.();
      void pieces.return();
    };
    let headWritten = false;
    const writeHead = (): void => {
      if (headWritten) return;
      headWritten = true;
      this.#writeHead(200, reply.contentType, reply.headers, true);
    };
    if (this.head.method === "HEAD") {
      wire.together(() => {
        writeHead();
        wire.endWithoutBody(null);
      });
      this.#over();
      await pieces.return();
      return;
    }
    for (let piece = await pieces.next(); !piece.done; piece = await pieces.next()) {
      if (this.#aborted) return;
      const { value } = piece;
      let taken = true;
      wire.together(() => {
        writeHead();
        if (value.length > 0) taken = wire.write(value);
      });
      if (!taken)
        await new Promise<void>((resolve) => {
          drained = resolve;
        });
      drained = null;
    }
    if (this.#aborted) return;
    wire.together(() => {
      writeHead();
      wire.end("");
    });
    this.#over();
  }

  #writeHead(status: number, contentType: string, headers: Reply["headers"], noStore: boolean): void {
    this.#wire.head({
      status,
      contentType,
      requestId: this.requestId,
      isFramed: this.isFramed,
      noStore: noStore && headers?.["cache-control"] === undefined,
      extraHeaders: this.extraHeaders.filter(([, value]) => isSendable(value)),
      headers,
    });
  }

  #over(): void {
    const { onOver } = this;
    this.onOver = null;
    onOver?.();
    this.#onAborted = null;
    this.#uncount();
  }

  #uncount(): void {
    if (this.#countedIn !== null) this.#countedIn.count--;
    this.#countedIn = null;
  }
}
