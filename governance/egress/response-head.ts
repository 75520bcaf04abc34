import { EgressError } from "./failure.ts";

/**
 * A status line and header lines as RFC 9112 has them, without the blank line: no line is folded, no name has a blank behind it, no value
 * a control character.
 */
const wellFormed =
  /^HTTP\/1\.[01] [1-5]\d\d(?: [\t\x20-\x7e\x80-\xff]*)?(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*)*$/;
const outerBlanks = /^[\t ]+|[\t ]+$/g;

/** How the end of a body is found (RFC 9112, 6.3): after so many bytes, by its chunks, or when the connection ends. */
export type BodyFraming = number | "chunks" | "until_end";

/** The head of an answer. */
export class ResponseHead {
  readonly status: number;
  readonly #isFirstVersion: boolean;
  /** Names in lower case and values in turn. */
  readonly #fields: readonly string[];

  private constructor(status: number, isFirstVersion: boolean, fields: readonly string[]) {
    this.status = status;
    this.#isFirstVersion = isFirstVersion;
    this.#fields = fields;
  }

  /** `text` is Latin-1, up to and without the blank line. Throws an EgressError for what is no head. */
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

  /** The value of a header, whose name is in lower case; of one that stands more than once all of them, with commas. */
  header(name: string): string | undefined {
    let found: string | undefined;
    for (let at = 0; at < this.#fields.length; at += 2) {
      if (this.#fields[at] === name)
        found = found === undefined ? this.#fields[at + 1] : `${found}, ${this.#fields[at + 1]}`;
    }
    return found;
  }

  /** Throws an EgressError when two readers could take the end of the body for two places. */
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

  /** Whether the other side means to take another request on the connection. */
  get keepsConnection(): boolean {
    const asked = this.header("connection")?.toLowerCase() ?? "";
    return this.#isFirstVersion ? asked.includes("keep-alive") : !asked.includes("close");
  }

  /** How long the other side waits for another request, in milliseconds; null when it does not say. */
  get keepsForMs(): number | null {
    const [, seconds] = /(?:^|[,; ])timeout=(\d{1,6})/i.exec(this.header("keep-alive") ?? "") ?? [];
    return seconds === undefined ? null : Number(seconds) * 1_000;
  }
}

/** The answer is none. */
export function malformed(why: string): EgressError {
  return new EgressError("malformed", `the answer is not HTTP: ${why}`);
}
