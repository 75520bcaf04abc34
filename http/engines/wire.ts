import type { Headers } from "../exchange/reply.ts";

// The seam between what is answered and the server that takes it to the client. An engine makes an Exchange of each request, with
// a Wire as its way out; nothing above this folder knows which engine it is.

/** Sent with every answer. */
export const securityHeaders = [
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"],
  ["referrer-policy", "no-referrer"],
] as const;

/** What the head of an answer says, beside the security headers and how its body is framed. */
export interface AnswerHead {
  readonly status: number;
  readonly contentType: string;
  readonly requestId: string;
  /** Whether it says that nobody may keep the answer. */
  readonly noStore: boolean;
  readonly extraHeaders: readonly (readonly [string, string])[];
  readonly headers: Headers | undefined;
}

/** Who writes as fast as its client reads. */
export interface Drainable {
  onDrained(): void;
}

/**
 * The way out of one answer. After `head` comes either one of the three that end a whole answer, or writes and an `end`. Nothing is
 * called once the client is gone.
 */
export interface Wire {
  /** The address of whoever holds the other end of the connection. */
  remoteAddress(): string;
  /** Tells a client that waits to be asked for its body that it is wanted. */
  askForBody(): void;
  /** What is written in `work` leaves together. */
  together(work: () => void): void;
  /** Says how the answer begins; it leaves with what follows. */
  head(answer: AnswerHead): void;
  /** The whole body, and the end; of the connection too when it `closes`. */
  endWith(body: string | Uint8Array, closes: boolean): void;
  /** The end of an answer that has a head alone; its body would have this many bytes, null when that is not known. */
  endWithoutBody(bytes: number | null): void;
  /** The whole body to a client that is still sending: it is told that the connection closes, which then waits for `close`. */
  endBeforeBody(body: string | Uint8Array): void;
  /** Writes a piece; false when the client is behind, and then `onDrained` is called later. */
  write(piece: string | Uint8Array): boolean;
  /** Tells a writer whenever the client has taken what it was behind with. */
  tellDrained(writer: Drainable): void;
  /** Writes a last piece, and the end. */
  end(text: string): void;
  /** Drops the connection. */
  close(): void;
}
