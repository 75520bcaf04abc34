import { EgressError } from "./failure.ts";

/**
 * A status line and header lines by RFC 9112, without the final blank line. Rejects folded lines, whitespace before a colon, and
 * control characters.
 */
const wellFormed =
  /^HTTP\/1\.[01] [1-5]\d\d(?: [\t\x20-\x7e\x80-\xff]*)?(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*)*$/;
const outerBlanks = /^[\t ]+|[\t ]+$/g;

/** How the body ends (RFC 9112, 6.3): after a number of bytes, by its chunks, or with the connection. */
export type BodyFraming = number | "chunks" | "until_end";

/** The head of a response. */
export class ResponseHead {
  readonly status: number;
  readonly #isFirstVersion: boolean;
  /** Names in lower case and values alternate. */
  readonly #fields: readonly string[];

  private constructor(status: number, isFirstVersion: boolean, fields: readonly string[]) {
    this.status = status;
    this.#isFirstVersion = isFirstVersion;
    this.#fields = fields;
  }

  /** Parses Latin-1 text up to, but without, the blank line. Throws an EgressError if it is malformed. */
  static parse(text: string): ResponseHead {
    if (!wellFormed.test(text)) throw malformed("its head is none");
    const fields: string[] = [];
    let at = text.indexOf("\r\n");
    while (at >= 0) {
      const from = at + 2;
      at = text.indexOf("\r\n", from);
      const colon = text.indexOf(":", from);
      const value = text.slice(colon + 1, at < 0 ? undefined : at);
      fields.push(text.slice(from, colon).toLowerCase(), value.replace(outerBlanks, ""));
    }
    return new ResponseHead(Number(text.slice(9, 12)), text.charCodeAt(7) === 0x30, fields);
  }

  /** Returns the value of a header by its lower-case name; repeated headers are joined with commas. */
  header(name: string): string | undefined {
    let found: string | undefined;
    for (let at = 0; at < this.#fields.length; at += 2) {
      if (this.#fields[at] === name)
        found = found === undefined ? this.#fields[at + 1] : `${found}, ${this.#fields[at + 1]}`;
    }
    return found;
  }

  /** Throws an EgressError if two parsers could disagree about the end of the body (request smuggling). */
  framing(): BodyFraming {
    const coding = this.header("transfer-encoding");
    const length = this.header("content-length");
    if (this.status === 204 || this.status === 304) return 0;
    if (coding !== undefined) {
      if (length !== undefined) throw malformed("its length is told twice");
      if (this.#isFirstVersion) throw malformed("HTTP/1.0 has no chunks");
      return /(?:^|,)[\t ]*chunked$/i.test(coding) ? "chunks" : "until_end";
    }
    if (length === undefined) return "until_end";
    if (!/^\d{1,15}$/.test(length)) throw malformed("its length is no number");
    return Number(length);
  }

  /** True if the server accepts another request on the connection. */
  get keepsConnection(): boolean {
    const asked = this.header("connection")?.toLowerCase() ?? "";
    return this.#isFirstVersion ? asked.includes("keep-alive") : !asked.includes("close");
  }

  /** How long the server keeps the idle connection, in milliseconds; null if it does not say. */
  get keepsForMs(): number | null {
    const [, seconds] = /(?:^|[,; ])timeout=(\d{1,6})/i.exec(this.header("keep-alive") ?? "") ?? [];
    return seconds === undefined ? null : Number(seconds) * 1_000;
  }
}

/** Returns the error for a malformed response. */
export function malformed(why: string): EgressError {
  return new EgressError("malformed", `the answer is not HTTP: ${why}`);
}
