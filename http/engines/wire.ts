import type { Headers } from "../exchange/reply.ts";

// The interface between an exchange and its HTTP server. An engine makes an Exchange of each request, with a Wire to write the answer. No
// code above this folder depends on the engine.

const framing = ["x-frame-options", "DENY"] as const;

/** Sent with every answer; `framing` only with those that no page may show in a frame. */
export const securityHeaders = [
  ["x-content-type-options", "nosniff"],
  framing,
  ["referrer-policy", "no-referrer"],
] as const;

/** Returns the security headers of an answer. */
export function securityHeadersOf({ isFramed }: Pick<AnswerHead, "isFramed">): readonly (readonly [string, string])[] {
  return isFramed ? securityHeaders.filter((header) => header !== framing) : securityHeaders;
}

/** The head of an answer, without the security headers and the framing of the body. */
export interface AnswerHead {
  readonly status: number;
  readonly contentType: string;
  readonly requestId: string;
  /** True if the answer gets `cache-control: no-store`. */
  readonly noStore: boolean;
  /** True if pages may show the answer in a frame. */
  readonly isFramed: boolean;
  readonly extraHeaders: readonly (readonly [string, string])[];
  readonly headers: Headers | undefined;
}

/** A writer that waits until its client reads. */
export interface Drainable {
  onDrained(): void;
}

/**
 * Writes one answer. After `head` comes either one of the three methods that end a whole answer, or writes and an `end`. No method is
 * called after the client disconnected.
 */
export interface Wire {
  /** The address of the connection's peer. */
  remoteAddress(): string;
  /** Sends `100 Continue` to a client that waits for it. */
  askForBody(): void;
  /** Sends all writes of `work` together. */
  together(work: () => void): void;
  /** Sets the head, which leaves with the following write. */
  head(answer: AnswerHead): void;
  /** Writes the whole body and ends the answer; `closes` also ends the connection. */
  endWith(body: string | Uint8Array, closes: boolean): void;
  /** Ends an answer without a body. `bytes` is the length that the body would have, null if unknown. */
  endWithoutBody(bytes: number | null): void;
  /** Writes the whole body to a client that is still sending its request, with `connection: close`. The caller then calls `close`. */
  endBeforeBody(body: string | Uint8Array): void;
  /** Writes a piece; returns false if the client is slow to read, and `onDrained` is called later. */
  write(piece: string | Uint8Array): boolean;
  /** Sets the writer whose `onDrained` is called each time the client caught up. */
  tellDrained(writer: Drainable): void;
  /** Writes the last piece and ends the answer. */
  end(text: string): void;
  /** Drops the connection. */
  close(): void;
}
