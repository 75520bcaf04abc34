import type { SvcError } from "../../bus/errors.ts";
import type { Param, Row, Statement } from "./statements.ts";
import type { WriteOp } from "./store.ts";

/** What became of one batch. */
export interface WriteOutcome {
  /** The rows of each statement that returns rows, in order; null when the batch was refused. */
  readonly rows: Row[][] | null;
  readonly error: SvcError | null;
}

/** An engine's writing side, as the store thread drives it. */
export interface Writer {
  /** Whether batches that come together are cheaper than one after the other: then a busy store waits a moment for more. */
  readonly groups: boolean;
  /**
   * Applies a group and calls `answer` once for each batch, with its place in the group: when the batch is durable, or refused.
   * Never throws. The batches of a group share nothing but the flush to disk: one that is refused takes no other with it.
   */
  write(batches: readonly (readonly WriteOp[])[], answer: (index: number, outcome: WriteOutcome) => void): void;
  /** `answerMs`: how long a server may be silent about it before the connection is given up. */
  read(statement: Statement, params: readonly Param[], answerMs?: number): Promise<Row[]>;
  /** Refuses with storage_unavailable when reads or writes do not work now. */
  check(): Promise<void>;
  /** Why the store does not work, in words for the log; null while it works. */
  failure(): string | null;
  /** Closes after everything under way is answered. */
  close(): Promise<void>;
}
