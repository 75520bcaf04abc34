/** A raw request: its head is parsed on demand. */
export interface RawRequest {
  readonly method: string;
  readonly path: string;
  /** Names in lower case; a repeated header is joined by commas. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The answer to bytes that are not a request this server reads. */
export interface RequestProblem {
  readonly status: number;
  readonly message: string;
}

const headBytesMax = 64 * 1024;
const bodyBytesMax = 16 * 1024 * 1024;
const blankLine = Buffer.from("\r\n\r\n");

/** Cuts the bytes of one connection into HTTP/1.1 requests with a content-length. */
export class RequestReader {
  #pending: Buffer = Buffer.alloc(0);

  push(bytes: Buffer): void {
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
  }

  /** The next whole request, undefined while incomplete, or the reason why none will come. */
  take(): RawRequest | RequestProblem | undefined {
    const pending = this.#pending;
    const headEnd = pending.indexOf(blankLine);
    if (headEnd < 0) {
      return pending.length > headBytesMax ? { status: 400, message: "the request's head is too long" } : undefined;
    }
    const head = pending.toString("latin1", 0, headEnd);
    if (/\r\ntransfer-encoding:/i.test(head)) return { status: 400, message: "send a content-length" };
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (length > bodyBytesMax) return { status: 400, message: "the request's body is too long" };
    const bodyStart = headEnd + blankLine.length;
    if (pending.length < bodyStart + length) return undefined;
    this.#pending = pending.subarray(bodyStart + length);
    return new HeadedRequest(head, pending.subarray(bodyStart, bodyStart + length));
  }
}

class HeadedRequest implements RawRequest {
  readonly method: string;
  readonly path: string;
  readonly body: Buffer;
  readonly #head: string;

  constructor(head: string, body: Buffer) {
    const methodEnd = head.indexOf(" ");
    const pathEnd = head.indexOf(" ", methodEnd + 1);
    this.method = head.slice(0, methodEnd);
    this.path = head.slice(methodEnd + 1, pathEnd);
    this.body = body;
    this.#head = head;
  }

  get headers(): Readonly<Record<string, string>> {
    const headers: Record<string, string> = {};
    for (const line of this.#head.split("\r\n").slice(1)) {
      const colon = line.indexOf(":");
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
    }
    return headers;
  }
}
