import type { OnReadOpts, Socket } from "node:net";
import type { Env, Timer } from "../../bus/env.ts";
import type { SlotMember } from "../../bus/slot-map.ts";
import type { Connector } from "./connector.ts";
import { EgressError } from "./failure.ts";
import type { RequestText } from "./request-text.ts";
import type { ResponseHead } from "./response-head.ts";
import { ResponseReader, type ResponseSink } from "./response-reader.ts";
import type { Target } from "./target.ts";

/** Receives the events of one request. `egressFailure` classifies an error. No event follows the end or an error. */
export interface ResponseHandler {
  /** The request is about to be sent; an abort at this point prevents it. */
  onRequestStart(control: ResponseControl): void;
  onResponseStart(head: ResponseHead): void;
  /** The bytes are valid during the call only. */
  onResponseData(bytes: Buffer): void;
  onResponseEnd(): void;
  onResponseError(error: Error): void;
}

/** Pauses, resumes and aborts a request in progress. */
export interface ResponseControl {
  pause(): void;
  resume(): void;
  /** Aborts the request and closes its connection. No event follows. */
  abort(): void;
}

/** Receives the state changes of a connection. */
export interface ConnectionOwner {
  /** The connection can serve another request. */
  free(connection: Connection): void;
  closed(connection: Connection): void;
}

const connectTimeoutMs = 10_000;
/** Longer than usual, because a new TLS connection costs a turn several round trips. */
const keepAliveMs = 60_000;
/** An idle connection is closed this long before the server would close it. */
const keepMarginMs = 2_000;

/** One buffer serves all connections of a thread, because each read is consumed before the next one. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** One request and its response on a connection. */
class Exchange implements ResponseControl, ResponseSink {
  readonly handler: ResponseHandler;
  readonly request: RequestText;
  readonly silenceMs: number;
  isPaused = false;
  readonly #connection: Connection;

  constructor(connection: Connection, request: RequestText, silenceMs: number, handler: ResponseHandler) {
    this.#connection = connection;
    this.request = request;
    this.silenceMs = silenceMs;
    this.handler = handler;
  }

  head(head: ResponseHead): void {
    if (this.#connection.carries(this)) this.handler.onResponseStart(head);
  }

  data(bytes: Buffer): void {
    if (this.#connection.carries(this)) this.handler.onResponseData(bytes);
  }

  pause(): void {
    this.#connection.pause(this);
  }

  resume(): void {
    this.#connection.resume(this);
  }

  abort(): void {
    this.#connection.abort(this);
  }
}

/** A connection to one origin, which serves one request after another. */
export class Connection implements SlotMember {
  slot = -1;
  readonly origin: string;
  /** Monotonic milliseconds after which the connection is not reused. */
  freeUntil = 0;
  readonly #env: Env;
  readonly #owner: ConnectionOwner;
  readonly #socket: Socket;
  readonly #reader = new ResponseReader();
  #exchange: Exchange | null = null;
  #isOpen = false;
  #isClosed = false;
  /** Time at which the request was sent or the last body bytes arrived. Bytes of an incomplete head do not count. */
  #heardAt = 0;
  /** Checks for silence; due at `#lookAt`. It is rescheduled only when it fires, not for each read. */
  #look: Timer | null = null;
  #lookAt = 0;
  #connecting: Timer | null;

  /** Connects. Throws EgressBlocked. */
  constructor(target: Target, connector: Connector, env: Env, owner: ConnectionOwner) {
    this.origin = target.origin;
    this.#env = env;
    this.#owner = owner;
    const onread: OnReadOpts = { buffer: readBuffer, callback: (length) => this.#read(length) };
    this.#socket = connector.open(target, () => this.#opened(), onread);
    this.#socket.on("error", (error) => this.#close(error));
    this.#socket.on("end", () => this.#ended());
    this.#socket.on("close", () => this.#close(lost()));
    this.#connecting = env.timer(connectTimeoutMs, () =>
      this.#close(new EgressError("no_connection", "no connection in time")),
    );
  }

  /** Sends a request once the connection is open. Call it only while no other request is in progress. */
  send(request: RequestText, silenceMs: number, handler: ResponseHandler): void {
    this.#exchange = new Exchange(this, request, silenceMs, handler);
    if (this.#isOpen) {
      this.#socket.ref();
      this.#start(this.#exchange);
    }
  }

  /** True if this exchange is the one in progress. */
  carries(exchange: Exchange): boolean {
    return this.#exchange === exchange;
  }

  pause(exchange: Exchange): void {
    if (this.#exchange !== exchange || exchange.isPaused) return;
    exchange.isPaused = true;
    this.#socket.pause();
  }

  resume(exchange: Exchange): void {
    if (this.#exchange !== exchange || !exchange.isPaused) return;
    exchange.isPaused = false;
    this.#heardAt = this.#env.monotonic();
    this.#socket.resume();
  }

  abort(exchange: Exchange): void {
    if (this.#exchange !== exchange) return;
    this.#exchange = null;
    this.#close(null);
  }

  /** Closes the connection; a request in progress fails with `lost`. */
  destroy(): void {
    this.#close(lost());
  }

  #opened(): void {
    this.#connecting?.cancel();
    this.#connecting = null;
    this.#isOpen = true;
    if (this.#exchange !== null) this.#start(this.#exchange);
  }

  #start(exchange: Exchange): void {
    const { request, handler, silenceMs } = exchange;
    handler.onRequestStart(exchange);
    // `onRequestStart` aborted the request, and the connection with it.
    if (this.#exchange !== exchange) return;
    this.#reader.begin(exchange);
    this.#heardAt = this.#env.monotonic();
    this.#lookLater(silenceMs);
    if (request.isLatin) this.#socket.write(request.head + request.body, "latin1");
    else {
      this.#socket.cork();
      this.#socket.write(request.head, "latin1");
      this.#socket.write(request.body, "utf8");
      this.#socket.uncork();
    }
  }

  /** Handles `length` bytes in the buffer. Returns true so that the socket keeps reading. */
  #read(length: number): boolean {
    const exchange = this.#exchange;
    if (exchange === null) {
      // Unexpected bytes on an idle connection.
      this.#close(null);
      return true;
    }
    try {
      const taken = this.#reader.push(readBuffer.subarray(0, length));
      // Ignore bytes before the head is complete: a slow head or endless interim responses would hold the request for ever.
      if (!this.#reader.isBeforeHead) this.#heardAt = this.#env.monotonic();
      // The handler may have aborted the request.
      if (this.#exchange === exchange && this.#reader.isOver) this.#answered(exchange, taken === length);
    } catch (error) {
      this.#close(asError(error));
    }
    return true;
  }

  /** Handles the end of a response. `isAll` is true if no bytes followed it. */
  #answered(exchange: Exchange, isAll: boolean): void {
    this.#exchange = null;
    const { keepsConnection, keepsForMs } = this.#reader;
    const freeMs = keepsForMs === null ? keepAliveMs : Math.min(keepAliveMs, keepsForMs - keepMarginMs);
    // If the server replied before the request was fully sent, the rest still blocks the connection.
    const isSent = this.#socket.writableLength === 0;
    if (isAll && keepsConnection && isSent && !exchange.request.closes && freeMs > 0) {
      if (exchange.isPaused) this.#socket.resume();
      this.freeUntil = this.#env.monotonic() + freeMs;
      // An idle connection must not keep the process alive.
      this.#socket.unref();
      this.#owner.free(this);
    } else this.#close(null);
    const { handler } = exchange;
    try {
      handler.onResponseEnd();
    } catch (error) {
      handler.onResponseError(asError(error));
    }
  }

  /** The server closed its side of the connection. */
  #ended(): void {
    const exchange = this.#exchange;
    if (exchange !== null && this.#isOpen && this.#reader.end()) this.#answered(exchange, true);
    this.#close(lost());
  }

  #lookLater(silenceMs: number): void {
    const lookAt = this.#heardAt + silenceMs;
    if (this.#look !== null && this.#lookAt <= lookAt) return;
    this.#look?.cancel();
    this.#lookAt = lookAt;
    this.#look = this.#env.timer(lookAt - this.#env.monotonic(), this.#lookNow);
  }

  #lookNow = (): void => {
    this.#look = null;
    const exchange = this.#exchange;
    if (exchange === null || this.#isClosed) return;
    // Silence does not count while the exchange is paused.
    if (exchange.isPaused) this.#heardAt = this.#env.monotonic();
    if (this.#env.monotonic() < this.#heardAt + exchange.silenceMs) this.#lookLater(exchange.silenceMs);
    // This process itself may have stalled, so read pending bytes first.
    else this.#env.defer(this.#giveUp);
  };

  #giveUp = (): void => {
    const exchange = this.#exchange;
    if (exchange === null || this.#isClosed) return;
    if (exchange.isPaused || this.#env.monotonic() < this.#heardAt + exchange.silenceMs)
      this.#lookLater(exchange.silenceMs);
    else
      this.#close(new EgressError(this.#reader.isBeforeHead ? "silent_head" : "silent_body", "nothing came in time"));
  };

  /** Closes the connection and fails the request in progress with this error. */
  #close(error: Error | null): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connecting?.cancel();
    this.#look?.cancel();
    this.#socket.destroy();
    this.#owner.closed(this);
    const exchange = this.#exchange;
    this.#exchange = null;
    if (exchange !== null) exchange.handler.onResponseError(error ?? lost());
  }
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

function lost(): EgressError {
  return new EgressError("lost", "the connection was lost");
}
