import type { Batch } from "./envelope.ts";

/**
 * Carries batches between two nodes: each whole, in the order in which they were posted, and at most once. Whether it is a port, a
 * socket or a call is its own affair. A transport that has lost something is closed; the next one between the two nodes is another.
 */
export interface Transport {
  /** How many bytes may be on their way to the other side before it has handled some of them. Both ends say the same. */
  readonly creditBytes: number;
  /**
   * Whether what somebody may wait for, asks, tells and their answers, leaves before anything else is read, and with it what was
   * sent before it. For a transport to which a batch costs next to nothing; text alone waits for the end of the turn there too.
   */
  readonly prompt: boolean;
  /** Takes a batch to the other side. What can arrive no more is dropped. */
  post(batch: Batch): void;
  /** Hands every batch of the other side to `take`, also those that have come before. Called once. */
  onBatch(take: (batch: Batch) => void): void;
  /** Calls `work` when nothing can arrive any more, after all that has arrived was handed over; not for a `close` of this side. */
  onClosed(work: () => void): void;
  /** Lets go of what carries: nothing is taken or handed over any more, and the other side hears that it is closed. */
  close(): void;
}
