// Reads one streamed HTTP response and checks that its text is the expected one. The work per frame is small, because the reader runs in
// the load process. Frames are recognised by their first bytes, and JSON is parsed only if a server orders its keys differently.

/** The encoding of text by a server. */
export interface Dialect {
  /** The start of a frame with text. */
  readonly marker: string;
  /** The characters directly before the text of the frame. */
  readonly field: string;
}

export const dialects = {
  frames: { marker: 'data: {"event":"text_delta"', field: '"delta":"' },
  openai: { marker: 'data: {"id":', field: '"content":"' },
} as const satisfies Record<string, Dialect>;

type State = "head" | "size" | "chunk" | "chunk end" | "trailer" | "length" | "over";

/** Reads one response at a time; call `reset` before the next one on the same connection. */
export class AnswerReader {
  readonly #dialect: Dialect;
  readonly #expected: string;
  #state: State = "head";
  /** Received bytes of an incomplete element. */
  #rest = "";
  /** The start of an incomplete event. */
  #partial = "";
  #left = 0;
  #doneSeen = false;
  #error: string | undefined;
  /** Received characters of the expected text. */
  matched = 0;
  frames = 0;
  /** True if the server closes the connection after this response. */
  closing = false;

  constructor(dialect: Dialect, expected: string) {
    this.#dialect = dialect;
    this.#expected = expected;
  }

  reset(): void {
    this.#state = "head";
    this.#rest = "";
    this.#partial = "";
    this.#doneSeen = false;
    this.#error = undefined;
    this.matched = 0;
    this.frames = 0;
  }

  /** True if the response is complete. */
  get over(): boolean {
    return this.#state === "over";
  }

  /** The problem of the response; undefined for a complete and correct one. */
  get problem(): string | undefined {
    if (this.#error !== undefined) return this.#error;
    if (this.#state !== "over") return "cut off";
    if (!this.#doneSeen) return "no [DONE]";
    return this.matched === this.#expected.length ? undefined : "text incomplete";
  }

  /** Feeds received bytes, decoded as Latin-1. */
  feed(text: string): void {
    const input = this.#rest === "" ? text : this.#rest + text;
    this.#rest = "";
    let at = 0;
    while (at < input.length && this.#state !== "over") {
      const next = this.#step(input, at);
      if (next < 0) {
        this.#rest = input.slice(at);
        return;
      }
      at = next;
    }
  }

  /** Reads one element of the protocol. Returns the index after it, or -1 if it is incomplete. */
  #step(input: string, at: number): number {
    if (this.#state === "chunk" || this.#state === "length") {
      const end = Math.min(input.length, at + this.#left);
      this.#body(input.slice(at, end));
      this.#left -= end - at;
      if (this.#left === 0) this.#state = this.#state === "chunk" ? "chunk end" : "over";
      return end;
    }
    const mark = this.#state === "head" ? "\r\n\r\n" : "\r\n";
    const end = input.indexOf(mark, at);
    if (end < 0) return -1;
    if (this.#state === "head") this.#head(input.slice(at, end));
    else if (this.#state === "size") {
      this.#left = Number.parseInt(input.slice(at, end), 16);
      this.#state = this.#left > 0 ? "chunk" : "trailer";
    } else this.#state = this.#state === "chunk end" ? "size" : "over";
    return end + mark.length;
  }

  #head(head: string): void {
    const status = head.slice(9, 12);
    if (status !== "200") this.#error = `status ${status}`;
    this.closing = /\r\nconnection: *close/i.test(head);
    if (/\r\ntransfer-encoding: *chunked/i.test(head)) this.#state = "size";
    else {
      this.#left = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      this.#state = this.#left > 0 ? "length" : "over";
    }
  }

  #body(piece: string): void {
    const text = this.#partial === "" ? piece : this.#partial + piece;
    let start = 0;
    let end = text.indexOf("\n\n");
    while (end >= 0) {
      this.#frame(text, start, end);
      start = end + 2;
      end = text.indexOf("\n\n", start);
    }
    this.#partial = start === text.length ? "" : text.slice(start);
  }

  #frame(text: string, start: number, end: number): void {
    this.frames += 1;
    if (text.startsWith(this.#dialect.marker, start)) {
      const from = text.indexOf(this.#dialect.field, start) + this.#dialect.field.length;
      if (from >= this.#dialect.field.length && from < end) {
        this.#text(text.slice(from, text.indexOf('"', from)));
        return;
      }
    }
    if (!text.startsWith('data: {"event":"session_progress"', start)) this.#other(text.slice(start, end));
  }

  #text(delta: string): void {
    if (this.#expected.startsWith(delta, this.matched)) this.matched += delta.length;
    else this.#error ??= "wrong text";
  }

  #other(frame: string): void {
    if (frame === "data: [DONE]") this.#doneSeen = true;
    else if (/^event: error|"event":"on_error"|^data: \{"error"/.test(frame)) this.#error ??= "error frame";
    else if (/"event": *"text_delta"/.test(frame)) this.#text(deltaOf(frame));
  }
}

/** The text of a text_delta frame with another order of keys. */
function deltaOf(frame: string): string {
  const line = frame.slice(frame.indexOf("data:") + 5);
  const parsed = JSON.parse(line) as { data?: { delta?: unknown } };
  return String(parsed.data?.delta);
}
