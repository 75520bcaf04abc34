import { SvcError } from "./errors.ts";

/**
 * Max bytes of a request's body together with all that its references, commands and templates expand to (decision 217).
 */
export const expandedBytesMax = 4 * 1024 * 1024;

/** Counts the bytes that a request expands to. A body without expansions is limited by its route alone. */
export class ExpandedSize {
  #bytes: number;

  /** `bytes` is the size of the request before its expansion. */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** Bytes counted so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts `bytes` more. Refuses with payload_too_large. */
  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > expandedBytesMax) throw new SvcError("payload_too_large");
  }
}
