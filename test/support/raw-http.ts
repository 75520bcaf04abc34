import { connect, type Socket } from "node:net";

/** An answer as received. */
export interface RawAnswer {
  readonly status: number;
  /** Status line and headers, as received. */
  readonly head: string;
  /** Names in lower case; the last value of a repeated header. */
  readonly headers: Readonly<Record<string, string>>;
  /** Latin-1, chunks put together. */
  readonly body: string;
}

const blankLine = Buffer.from("\r\n\r\n");
const lineEnd = Buffer.from("\r\n");

/** A TCP connection to a server: sends any bytes, and cuts the received bytes into answers. */
export class RawConnection {
  /** Resolves when the connection is over, whichever side ended it. */
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  #unread: Buffer = Buffer.alloc(0);
  #receivedBytes = 0;
  #keeping = true;
  #over = false;
  #changed = Promise.withResolvers<void>();

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.#socket = socket;
    socket.on("data", (bytes: Buffer) => {
      this.#receivedBytes += bytes.length;
      if (this.#keeping) this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
      this.#wake();
    });
    // A server may reset the connection after a refusal, instead of reading the rest.
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => {
      socket.on("close", () => {
        this.#over = true;
        this.#wake();
        resolve();
      });
    });
  }

  /** All bytes received so far. */
  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** True when the connection is over. */
  get over(): boolean {
    return this.#over;
  }

  /** Received bytes that are not part of an answer yet, as Latin-1. */
  get unread(): string {
    return this.#unread.toString("latin1");
  }

  /** Sends bytes unchanged; resolves when the system has accepted them, or when the connection is over. */
  send(bytes: string | Uint8Array): Promise<void> {
    if (this.#socket.destroyed) return this.closed;
    return new Promise((resolve) => {
      this.#socket.write(bytes, () => resolve());
    });
  }

  /** The next whole answer; undefined when the connection ended without another one. */
  async answer(): Promise<RawAnswer | undefined> {
    for (;;) {
      const cut = cutAnswer(this.#unread, this.#over);
      if (cut) {
        this.#unread = cut.rest;
        return cut.answer;
      }
      if (this.#over) return undefined;
      await this.#changed.promise;
    }
  }

  /** Every answer until the connection is over. */
  async answers(): Promise<RawAnswer[]> {
    const all: RawAnswer[] = [];
    for (let next = await this.answer(); next; next = await this.answer()) all.push(next);
    return all;
  }

  /** Resolves when the unread bytes contain this text, or when the connection is over. */
  async until(text: string): Promise<void> {
    while (!this.#over && !this.#unread.includes(text)) await this.#changed.promise;
  }

  /** From now on counts received bytes and drops them. */
  discard(): void {
    this.#keeping = false;
    this.#unread = Buffer.alloc(0);
  }

  /** Stops reading the connection, like a hung client. */
  stall(): void {
    this.#socket.pause();
  }

  /** Reads again. */
  read(): void {
    this.#socket.resume();
  }

  /** Half-closes the connection; answers are still read. */
  finish(): void {
    this.#socket.end();
  }

  /** Ends the connection at once, with a reset. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Ends the connection. */
  close(): void {
    this.#socket.destroy();
  }

  #wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}

/** A request as bytes: with a host, and with the length of its body unless `lines` have it. */
export function rawRequest(method: string, path: string, lines: readonly string[] = [], body?: string): string {
  const told = lines.some((line) => /^(content-length|transfer-encoding)\b/i.test(line));
  const length = body === undefined || told ? [] : [`content-length: ${Buffer.byteLength(body)}`];
  const type = body === undefined ? [] : ["content-type: application/json"];
  const head = [`${method} ${path} HTTP/1.1`, "host: localhost", ...type, ...length, ...lines];
  return `${head.join("\r\n")}\r\n\r\n${body ?? ""}`;
}

/** A body as one chunk and the end of the chunks. */
export function oneChunk(body: string): string {
  return `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`;
}

interface Cut {
  readonly answer: RawAnswer;
  readonly rest: Buffer;
}

/** The first whole answer in the bytes. One without a length ends with the connection. */
function cutAnswer(bytes: Buffer, over: boolean): Cut | undefined {
  const headEnd = bytes.indexOf(blankLine);
  if (headEnd < 0) return undefined;
  const head = bytes.toString("latin1", 0, headEnd);
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? Number.NaN);
  const headers = Object.fromEntries(
    head
      .split("\r\n")
      .slice(1)
      .map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const rest = bytes.subarray(headEnd + blankLine.length);
  const whole = (body: Buffer, bodyEnd: number): Cut => ({
    answer: { status, head, headers, body: body.toString("latin1") },
    rest: rest.subarray(bodyEnd),
  });
  if (status < 200 || status === 204 || status === 304) return whole(Buffer.alloc(0), 0);
  const length = headers["content-length"];
  if (length !== undefined) {
    const bodyEnd = Number(length);
    return rest.length < bodyEnd ? undefined : whole(rest.subarray(0, bodyEnd), bodyEnd);
  }
  if (headers["transfer-encoding"] === "chunked") {
    const chunks = cutChunks(rest);
    return chunks && whole(chunks.body, chunks.end);
  }
  return over ? whole(rest, rest.length) : undefined;
}

function cutChunks(bytes: Buffer): { body: Buffer; end: number } | undefined {
  const pieces: Buffer[] = [];
  for (let at = 0; ; ) {
    const sizeEnd = bytes.indexOf(lineEnd, at);
    if (sizeEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString("latin1", at, sizeEnd), 16);
    const from = sizeEnd + lineEnd.length;
    const next = from + size + lineEnd.length;
    if (!(next <= bytes.length)) return undefined;
    if (size === 0) return { body: Buffer.concat(pieces), end: next };
    pieces.push(bytes.subarray(from, from + size));
    at = next;
  }
}
