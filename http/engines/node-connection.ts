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

/** Max requests queued on one connection; the next one ends the connection. */
const waitingMax = 64;
const tooMany = `more than ${waitingMax} requests wait on one connection`;
/** Max time for a client to take the remaining bytes of a closing connection. */
const lastWordsMs = 1_000;
/** Delays of the probes of a client that half-closed its connection; the last one repeats. */
const probeMs = [0, 100, 900, 250, 15_000] as const;
/** The first probes write only to an open stream: most whole answers finish before a probe is needed. */
const streamProbes = 2;
/** Delays of the probes of a client whose socket is paused, so that a disconnect is not seen. */
const unheardProbeMs = [5_000, 250, 15_000] as const;

/** State that all connections of a server share. */
export interface ConnectionContext extends ExchangeContext {
  /** Names of the headers that are copied. */
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
 * A connection of Node's server. Its requests run one after the other, because a request may depend on the answer to the one before. A
 * malformed request is refused after the answers to those before it, and ends the connection.
 */
export class NodeConnection implements AnsweredConnection {
  readonly #socket: Socket;
  readonly #context: ConnectionContext;
  readonly #waiting: Asked[] = [];
  #answering: Answering | null = null;
  /** The refusal to send after all earlier answers; then the connection ends. */
  #fault: SvcError | null = null;
  /** Takes incoming bytes after the parser was detached. */
  #takeRest: ((chunk: Uint8Array, isLast: boolean) => void) | null = null;
  #clientEnded = false;
  #probing: Timer | null = null;

  constructor(socket: Socket, context: ConnectionContext) {
    this.#socket = socket;
    this.#context = context;
    // Node adds its own error listener, but not to the socket of a tunnel.
    socket.on("error", () => {});
    socket.on("end", () => this.#onEnd());
  }

  /** See `AnsweredConnection`. */
  get endsHere(): boolean {
    return this.#clientEnded && this.#waiting.length === 0;
  }

  /** Runs or queues the next request. */
  ask(request: IncomingMessage, response: ServerResponse): void {
    if (this.#fault !== null) return;
    if (this.#answering === null) this.#begin({ request, response });
    else if (this.#waiting.length === waitingMax) this.refuse(new SvcError("malformed_request", { detail: tooMany }));
    else {
      this.#waiting.push({ request, response });
      this.#readNoMore();
    }
  }

  /** Handles a malformed or slow request, or a broken connection. */
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
      // The last queued request is incomplete and will stay so.
      if (last !== null && !last.request.complete) this.#waiting.pop();
      this.refuse(fault);
    }
  }

  /** Refuses a malformed request after the answers to those before it. */
  refuse(fault: SvcError): void {
    this.#fault = fault;
    if (this.#answering !== null) this.#readNoMore();
    else this.#answerFault(fault);
  }

  /** Closes the connection once pending bytes are sent, or after a timeout. */
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
    // Clears the timeout of an earlier answer that the client took slowly.
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

  /** Pauses reading until the earlier requests are answered. A paused socket reports neither an end nor a reset, so probe it. */
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
   * Probes a half-closed or paused client by writing to it. If the peer is gone, the first write triggers a reset and the next write fails.
   * The first `spared` probes do not write to a whole answer.
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

  /** Detaches the parser and passes further bytes to `take`. */
  #dropRest(take: (chunk: Uint8Array, isLast: boolean) => void): void {
    this.#takeRest = take;
    this.#socket.removeAllListeners("data");
    this.#socket.on("data", (chunk: Buffer) => take(chunk, false));
    this.#socket.resume();
    if (this.#clientEnded) take(nothing, true);
  }
}

const nothing = new Uint8Array();

/** Returns the refusal for a parser error; null if the connection expects no answer. */
function faultOf(error: NodeJS.ErrnoException & { readonly reason?: string }, socket: Socket): SvcError | null {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return new SvcError("headers_too_large");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new SvcError("payload_too_large");
    case "HPE_INVALID_EOF_STATE":
      return new SvcError("malformed_request", { detail: "the connection ended inside the request" });
    case "ERR_HTTP_REQUEST_TIMEOUT":
      // A connection that was opened in advance and sent no byte gets no timeout answer.
      return socket.bytesRead === 0 ? null : new SvcError("request_timeout");
    default:
      if (!error.code?.startsWith("HPE_")) return null;
      return new SvcError("malformed_request", { detail: error.reason ?? error.code });
  }
}

/** Returns the whole answer to a malformed request, the last on its connection. */
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
