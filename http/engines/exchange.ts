import type { Env } from "../../bus/env.ts";
import type { SvcError } from "../../bus/errors.ts";
import { keepAlive } from "../../bus/frames/frames.ts";
import type { Reply } from "../exchange/reply.ts";
import { forgottenHead, type RequestHead } from "../exchange/request-head.ts";
import { EventStream, type StreamRegistry, type StreamSink } from "../exchange/sse.ts";
import { BodyReader } from "./body-reader.ts";
import { Lingering } from "./lingering.ts";
import type { SlowBodies } from "./slow-bodies.ts";
import type { Wire } from "./wire.ts";

const streamHeaders = { "cache-control": "no-cache", "x-accel-buffering": "no" } as const;

/** What all exchanges of a server share. */
export interface ExchangeContext {
  readonly env: Env;
  readonly streams: StreamRegistry;
  readonly slowBodies: SlowBodies;
  /** Counts the requests that come from now on, for as long as they have no answer that was written to its end, or an open stream. */
  unanswered: { count: number };
}

/** A request and its answer. */
export class Exchange implements StreamSink {
  #head: RequestHead;
  /** Set by the first middleware, and sent with every answer. */
  requestId = "";
  /** Further headers of the answer, whatever it will be. */
  readonly extraHeaders: [string, string][] = [];
  readonly #wire: Wire;
  readonly #context: ExchangeContext;
  #aborted = false;
  #answered = false;
  /** Where it is counted; null when it is no more. */
  #countedIn: { count: number } | null;
  #onAborted: (() => void) | null = null;
  #body: BodyReader | null;
  #lingering: Lingering | null = null;
  #stream: EventStream | null = null;

  /** `hasBody`: whether its engine will hand over a body, be it an empty one. */
  constructor(head: RequestHead, wire: Wire, hasBody: boolean, context: ExchangeContext) {
    this.#head = head;
    this.#wire = wire;
    this.#context = context;
    this.#body = hasBody ? new BodyReader() : null;
    this.#countedIn = context.unanswered;
    this.#countedIn.count++;
  }

  /** What was asked. Nothing is left of it once a stream is open. */
  get head(): RequestHead {
    return this.#head;
  }

  /** The address of whoever holds the other end of the connection. */
  remoteAddress(): string {
    return this.#aborted ? "" : this.#wire.remoteAddress();
  }

  /** Calls back when the client goes away before it was answered in full. */
  onAborted(work: () => void): void {
    if (this.#aborted) work();
    else this.#onAborted = work;
  }

  /**
   * The body, at most `maxBytes`. Refuses with payload_too_large as soon as there is more, with request_timeout when it comes too
   * slowly, with malformed_request when it is none. Never settles when the client is gone.
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

  /** Answers; a second answer, or one to nobody, is dropped. */
  reply(reply: Reply): void {
    if (this.#aborted || this.#answered) {
      if (reply.kind === "pieces") void reply.pieces.return();
      return;
    }
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

  /** For the engine: the next piece of the body, which is only lent for this call. */
  takeBody(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#lingering) this.#lingering.take(chunk, isLast);
    else if (this.#body) {
      this.#body.take(chunk, isLast);
      if (!this.#body.awaited) this.#context.slowBodies.forget(this.#body);
    }
  }

  /** For the engine: what comes of the body is none. */
  failBody(failure: SvcError): void {
    this.#body?.fail(failure);
  }

  /** For the engine: says something that means nothing, if a stream is open, to find out whether somebody is there. */
  comment(): void {
    this.#stream?.comment(keepAlive);
  }

  /** For the engine: the client is gone before it was answered in full, or is cut off. */
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
    // A body that has come in one piece with its head is handed over after it. And had a request without an end been answered by
    // then, uWebSockets.js would take what came with it for the next one; with an answer still due, it drops the connection.
    if (this.#isUnread || this.#head.endUnknown) this.#context.env.defer(answer);
    else answer();
  }

  /** Whether the client may still be sending. */
  get #isUnread(): boolean {
    return this.#body !== null && !this.#body.complete && !this.#head.endUnknown;
  }

  #answerWhole(status: number, contentType: string, body: string | Uint8Array, headers: Reply["headers"]): void {
    if (this.#aborted) return;
    this.#wire.together(() => {
      this.#writeHead(status, contentType, headers, true);
      // What the client has already is not told again, nor how long it is.
      if (status === 304) this.#wire.endWithoutBody(null);
      else if (this.head.method === "HEAD") this.#wire.endWithoutBody(Buffer.byteLength(body));
      else if (this.#isUnread) this.#wholeAndLinger(body);
      else this.#wire.endWith(body, this.#head.endUnknown);
    });
    this.#over();
  }

  /** Says all there is to be said, and closes when the client has said what it has to say, or will not stop. */
  #wholeAndLinger(body: string | Uint8Array): void {
    this.#wire.endBeforeBody(body);
    this.#body = null;
    this.#lingering = new Lingering(this.#context.env, () => this.#wire.close());
  }

  /** The head and what is there to be said already leave together. */
  #openStream(reply: Extract<Reply, { kind: "stream" }>): void {
    this.#wire.together(() => {
      this.#writeHead(200, "text/event-stream", { ...streamHeaders, ...reply.headers }, false);
      if (this.head.method === "HEAD") {
        this.#wire.endWithoutBody(null);
        this.#over();
        return;
      }
      this.#uncount();
      // Streams are many and stay long: what was asked is not kept with them.
      this.#head = forgottenHead;
      this.#body = null;
      const stream = new EventStream(this, this.#context.streams);
      this.#stream = stream;
      this.#wire.tellDrained(stream);
      reply.open(stream);
    });
  }

  /** Writes pieces as the client takes them. Rejects when one could not be made. */
  async #writePieces(reply: Extract<Reply, { kind: "pieces" }>): Promise<void> {
    const wire = this.#wire;
    const { pieces } = reply;
    let drained: (() => void) | null = null;
    wire.tellDrained({ onDrained: () => drained?.() });
    // A piece that is waited for is given up: it may be long in coming.
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
      noStore: noStore && headers?.["cache-control"] === undefined,
      extraHeaders: this.extraHeaders,
      headers,
    });
  }

  #over(): void {
    this.#onAborted = null;
    this.#uncount();
  }

  #uncount(): void {
    if (this.#countedIn !== null) this.#countedIn.count--;
    this.#countedIn = null;
  }
}
