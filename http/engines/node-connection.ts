import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { refusal } from "../exchange/reply.ts";
import { readHead } from "../exchange/request-head.ts";
import { statusLine } from "../exchange/status-lines.ts";
import type { OnRequest } from "./engine.ts";
import { Exchange, type ExchangeContext } from "./exchange.ts";
import { Lingering } from "./lingering.ts";
import { NodeRequest } from "./node-request.ts";
import { type AnsweredConnection, NodeWire } from "./node-wire.ts";
import { securityHeaders } from "./wire.ts";

/** Requests that may wait on one connection behind the one that is being answered; the connection ends at the next. */
const waitingMax = 64;
const tooMany = `more than ${waitingMax} requests wait on one connection`;
/** How long a client may take for the last words of a server that ends. */
const lastWordsMs = 1_000;
/** After how long a client that has said its last is asked for a sign of life, and then again, and so on. */
const probeMs = [0, 100, 900, 250, 15_000] as const;
/** How often it is asked in its stream alone: most whole answers are there before anything need be said. */
const streamProbes = 2;
/** The same for a client of which nothing is heard, because what it has sent behind its request is not read yet. */
const unheardProbeMs = [5_000, 250, 15_000] as const;

/** What all connections of a server share. */
export interface ConnectionContext extends ExchangeContext {
  /** The names of the headers that are copied. */
  readonly copied: ReadonlySet<string>;
  readonly onRequest: OnRequest;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Answering extends Asked {
  readonly exchange: Exchange;
  readonly wire: NodeWire;
}

/**
 * A connection of Node's server. Its requests are carried out one after the other: each may count on what was answered before it.
 * What is no request is refused once those before it are answered, and ends the connection.
 */
export class NodeConnection implements AnsweredConnection {
  readonly #socket: Socket;
  readonly #context: ConnectionContext;
  readonly #waiting: Asked[] = [];
  #answering: Answering | null = null;
  /** What is to be said once everything before it is answered, and then the connection ends. */
  #fault: SvcError | null = null;
  /** Takes what comes when no parser does any more. */
  #takeRest: ((chunk: Uint8Array, isLast: boolean) => void) | null = null;
  #clientEnded = false;
  #probing: Timer | null = null;

  constructor(socket: Socket, context: ConnectionContext) {
    this.#socket = socket;
    this.#context = context;
    // Node listens too, but not to a tunnel's.
    socket.on("error", () => {});
    socket.on("end", () => this.#onEnd());
  }

  /** See `AnsweredConnection`. */
  get endsHere(): boolean {
    return this.#clientEnded && this.#waiting.length === 0;
  }

  /** Takes the next request. */
  ask(request: IncomingMessage, response: ServerResponse): void {
    if (this.#fault !== null) return;
    if (this.#answering === null) this.#begin({ request, response });
    else if (this.#waiting.length === waitingMax) this.refuse(new SvcError("malformed_request", { detail: tooMany }));
    else {
      this.#waiting.push({ request, response });
      this.#readNoMore();
    }
  }

  /** What came is no request, or came too slowly; or the connection is broken. */
  fail(error: NodeJS.ErrnoException): void {
    const socket = this.#socket;
    const fault = socket.writable ? faultOf(error, socket) : null;
    if (fault === null) {
      socket.destroy();
      return;
    }
    if (this.#fault !== null || this.#takeRest !== null) return;
    const last = this.#waiting.at(-1) ?? this.#answering;
    if (last !== null && last === this.#answering && !last.request.complete) this.#failBody(last as Answering, fault);
    else {
      // The last of those that wait has not come in full, and never will.
      if (last !== null && !last.request.complete) this.#waiting.pop();
      this.refuse(fault);
    }
  }

  /** Says no to what is no request, when its turn has come. */
  refuse(fault: SvcError): void {
    this.#fault = fault;
    if (this.#answering !== null) this.#readNoMore();
    else this.#answerFault(fault);
  }

  /** Ends the connection when what was said is on its way, or is not taken. */
  close(): void {
    const socket = this.#socket;
    if (socket.writableLength === 0) socket.destroy();
    else {
      socket.destroySoon();
      this.#context.env.timer(lastWordsMs, () => socket.destroy());
    }
  }

  #begin({ request, response }: Asked): void {
    const { copied, onRequest } = this.#context;
    // Of an answer before it, that was not taken for a while.
    if (this.#socket.timeout) this.#socket.setTimeout(0);
    const raw = new NodeRequest(request);
    const read = readHead(raw, copied);
    const head = raw.fault === null ? read : { ...read, fault: raw.fault };
    const wire = new NodeWire(request, response, this);
    const { "content-length": length = "0", "transfer-encoding": coding } = head.headers;
    const hasBody = coding !== undefined || Number(length) > 0;
    const exchange = new Exchange(head, wire, hasBody, this.#context);
    this.#answering = { request, response, exchange, wire };
    if (hasBody) {
      request.on("data", (chunk: Buffer) => exchange.takeBody(chunk, false));
      request.on("end", () => exchange.takeBody(nothing, true));
    }
    response.on("close", () => this.#over(response, exchange));
    onRequest(exchange);
  }

  #over(response: ServerResponse, exchange: Exchange): void {
    const socket = this.#socket;
    if (!response.writableFinished) exchange.gone();
    this.#answering = null;
    if (!socket.writable) {
      this.#waiting.length = 0;
      return;
    }
    const next = this.#waiting.shift();
    if (next) this.#begin(next);
    else if (this.#fault) this.#answerFault(this.#fault);
    else if (socket.isPaused()) this.#readOn();
  }

  #onEnd(): void {
    this.#clientEnded = true;
    if (this.#takeRest) this.#takeRest(nothing, true);
    else this.#probe(probeMs, streamProbes);
  }

  /** Reads on when what came before is answered; neither a last word nor a reset is heard until then. */
  #readNoMore(): void {
    this.#socket.pause();
    if (this.#probing === null) this.#probe(unheardProbeMs, 0);
  }

  #readOn(): void {
    this.#probing?.cancel();
    this.#probing = null;
    this.#socket.resume();
  }

  /**
   * A client that has said its last, or is not heard, may wait for its answer, or be gone: that is told by what is written to it, which
   * resets the connection if nobody is there, and by the write after that. A whole answer is spared the first probes.
   */
  #probe(delaysMs: readonly number[], spared: number): void {
    this.#probing?.cancel();
    const next = (times: number): void => {
      this.#probing = this.#context.env.timer(delaysMs[Math.min(times, delaysMs.length - 1)] as number, () => {
        this.#probing = null;
        if (this.#socket.destroyed || this.#answering === null) return;
        this.#answering.exchange.comment();
        if (times >= spared) this.#answering.wire.probe();
        next(times + 1);
      });
    };
    next(0);
  }

  #answerFault(fault: SvcError): void {
    const { env } = this.#context;
    const lingering = new Lingering(env, () => this.#socket.destroy());
    this.#socket.on("close", () => lingering.stop());
    this.#dropRest((chunk, isLast) => lingering.take(chunk, isLast));
    this.#socket.end(answerTo(fault, env.id()));
  }

  #failBody({ exchange }: Answering, fault: SvcError): void {
    exchange.failBody(fault);
    this.#dropRest((chunk, isLast) => exchange.takeBody(chunk, isLast));
  }

  /** From now on no parser sees what comes. */
  #dropRest(take: (chunk: Uint8Array, isLast: boolean) => void): void {
    this.#takeRest = take;
    this.#socket.removeAllListeners("data");
    this.#socket.on("data", (chunk: Buffer) => take(chunk, false));
    this.#socket.resume();
    if (this.#clientEnded) take(nothing, true);
  }
}

const nothing = new Uint8Array();

/** What to say to it; null when there is nobody to say it to. */
function faultOf(error: NodeJS.ErrnoException & { readonly reason?: string }, socket: Socket): SvcError | null {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return new SvcError("headers_too_large");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new SvcError("payload_too_large");
    case "HPE_INVALID_EOF_STATE":
      return new SvcError("malformed_request", { detail: "the connection ended inside the request" });
    case "ERR_HTTP_REQUEST_TIMEOUT":
      // A connection that was opened ahead of its first request is not told that it is late.
      return socket.bytesRead === 0 ? null : new SvcError("request_timeout");
    default:
      if (!error.code?.startsWith("HPE_")) return null;
      return new SvcError("malformed_request", { detail: error.reason ?? error.code });
  }
}

/** The whole of an answer to what is no request, which is the last on its connection. */
function answerTo(fault: SvcError, requestId: string): string {
  const reply = refusal(fault, requestId);
  const body = reply.kind === "json" ? reply.body : "";
  const headers = [
    ["content-type", "application/json"],
    ["x-request-id", requestId],
    ...securityHeaders,
    ["cache-control", "no-store"],
    ["content-length", String(Buffer.byteLength(body))],
    ["connection", "close"],
  ];
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return `HTTP/1.1 ${statusLine(fault.status)}\r\n${lines}\r\n${body}`;
}
