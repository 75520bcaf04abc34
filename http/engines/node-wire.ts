import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type AnswerHead, type Drainable, securityHeadersOf, type Wire } from "./wire.ts";

/** Max time without progress for a client that is slow to read, the same as in uWebSockets.js. */
const stalledMs = 10_000;

/** The state of its connection that an answer needs. */
export interface AnsweredConnection {
  /** True if no further request follows this answer on the connection. */
  readonly endsHere: boolean;
}

/** An answer over a socket of Node's server. */
export class NodeWire implements Wire {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #socket: Socket;
  readonly #connection: AnsweredConnection;
  #answer: AnswerHead | null = null;
  /** True if pieces are sent as chunks. HTTP/1.0 has no chunks: its answer ends with the connection. */
  #inChunks = false;
  #behind = false;
  #isAsked = false;
  #writer: Drainable | null = null;

  constructor(request: IncomingMessage, response: ServerResponse, connection: AnsweredConnection) {
    this.#request = request;
    this.#response = response;
    this.#socket = request.socket;
    this.#connection = connection;
  }

  remoteAddress(): string {
    return this.#socket.remoteAddress ?? "";
  }

  askForBody(): void {
    if (!this.#waitsToBeAsked || !this.#isNew) return;
    this.#isAsked = true;
    this.#response.writeContinue();
  }

  /** True if the client sent `Expect: 100-continue`. A server never answers it on HTTP/1.0 (RFC 9110, 10.1.1). */
  get #waitsToBeAsked(): boolean {
    const { httpVersionMinor, headers } = this.#request;
    return httpVersionMinor > 0 && headers.expect?.toLowerCase() === "100-continue";
  }

  together(work: () => void): void {
    this.#socket.cork();
    work();
    this.#socket.uncork();
  }

  head(answer: AnswerHead): void {
    this.#answer = answer;
  }

  endWith(body: string | Uint8Array, closes: boolean): void {
    this.#begin(Buffer.byteLength(body), closes);
    this.#response.end(body);
    this.#lookForStall();
  }

  endWithoutBody(bytes: number | null): void {
    this.#begin(bytes, false);
    this.#response.end();
  }

  endBeforeBody(body: string | Uint8Array): void {
    this.#begin(Buffer.byteLength(body), true);
    // `end` would make Node close the connection at once.
    if (body.length === 0) this.#response.flushHeaders();
    else this.#response.write(body);
  }

  /**
   * Writes to the socket itself. `ServerResponse.write` makes four writes of a chunk, and buffers 64 KiB before it reports backpressure.
   */
  write(piece: string | Uint8Array): boolean {
    const socket = this.#socket;
    if (socket.destroyed) return true;
    if (!this.#response.headersSent) {
      this.#begin(null, false);
      this.#response.flushHeaders();
    }
    if (typeof piece === "string") socket.write(this.#inChunks ? chunkOf(piece) : piece, this.#onTaken);
    else this.#writeBytes(piece);
    if (socket.writableLength === 0) return true;
    this.#behind = true;
    this.#lookForStall();
    return false;
  }

  /** Writes the bytes without a copy, because many answers may share them. */
  #writeBytes(bytes: Uint8Array): void {
    const socket = this.#socket;
    if (!this.#inChunks) {
      socket.write(bytes, this.#onTaken);
      return;
    }
    socket.cork();
    socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
    socket.write(bytes);
    socket.write("\r\n", "latin1", this.#onTaken);
    socket.uncork();
  }

  tellDrained(writer: Drainable): void {
    this.#writer = writer;
  }

  end(text: string): void {
    if (text !== "") this.write(text);
    if (!this.#response.headersSent) this.#begin(null, false);
    this.#response.end();
    this.#lookForStall();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Writes an interim 102 response to a half-closed client before its answer: if the client is gone, its system resets the connection. */
  probe(): void {
    if (this.#request.httpVersionMinor > 0 && this.#isNew) this.#response.writeProcessing();
  }

  /** True if nothing was written yet. */
  get #isNew(): boolean {
    return !this.#response.headersSent && !this.#socket.destroyed;
  }

  readonly #onTaken = (): void => {
    if (!this.#behind || this.#socket.destroyed || this.#socket.writableLength > 0) return;
    this.#behind = false;
    this.#socket.setTimeout(0);
    this.#writer?.onDrained();
  };

  /** Makes Node destroy the socket after this time without progress. */
  #lookForStall(): void {
    if (this.#socket.writableLength > 0) this.#socket.setTimeout(stalledMs);
  }

  /** Writes the head; `bytes` is the length of the body, null for a body in pieces. */
  #begin(bytes: number | null, closes: boolean): void {
    const { status, contentType, requestId, noStore, extraHeaders, headers } = this.#answer as AnswerHead;
    const request = this.#request;
    const hasNone = request.method === "HEAD" || status === 204 || status === 304;
    this.#inChunks = bytes === null && request.httpVersionMinor > 0 && !hasNone;
    const lines = ["content-type", contentType, "x-request-id", requestId];
    for (const [name, value] of securityHeadersOf(this.#answer as AnswerHead)) lines.push(name, value);
    if (noStore) lines.push("cache-control", "no-store");
    for (const [name, value] of extraHeaders) lines.push(name, value);
    if (headers) for (const name of Object.keys(headers)) lines.push(name, headers[name] as string);
    if (bytes !== null && status !== 204) lines.push("content-length", String(bytes));
    if (this.#inChunks) lines.push("transfer-encoding", "chunked");
    // After a request that was not read to its end, the start of the next one is unknown.
    const isRead = request.complete && (this.#isAsked || !this.#waitsToBeAsked);
    const stays = isRead && request.httpVersionMinor > 0 && this.#response.shouldKeepAlive;
    if (closes || !stays || this.#connection.endsHere) lines.push("connection", "close");
    // Otherwise Node would add a keep-alive header, which is the default of HTTP/1.1.
    else this.#response.removeHeader("connection");
    this.#response.writeHead(status, STATUS_CODES[status] ?? "", lines);
  }
}

function chunkOf(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}
