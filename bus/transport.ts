import type { Batch } from "./envelope.ts";

/**
 * Carries batches between two nodes: complete, in the order of posting, and at most once. It may be a port, a socket or
 * a direct call. A transport that has lost a batch is closed; a new one replaces it.
 */
export interface Transport {
  /** Max bytes in transit that the other side has not handled. Equal at both ends. */
  readonly creditBytes: number;
  /**
   * True to send asks, tells and their replies, and everything buffered before them, before further input is read. For
   * a transport with negligible cost per batch. Text alone still waits for the end of the turn.
   */
  readonly prompt: boolean;
  /** Sends a batch to the other side. It is dropped if the transport is closed. */
  post(batch: Batch): void;
  /** Passes every received batch to `take`, including earlier ones. Called once. */
  onBatch(take: (batch: Batch) => void): void;
  /**
   * Calls `work` after the other side has closed and all received batches were passed on; not after a `close` of this
   * side.
   */
  onClosed(work: () => void): void;
  /** Closes the transport: it sends and passes on nothing more, and informs the other side. */
  close(): void;
}
