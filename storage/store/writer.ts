import type { SvcError } from "../../bus/errors.ts";
import type { Param, Row, Statement } from "./statements.ts";
import type { WriteOp } from "./store.ts";

/** Outcome of one batch. */
export interface WriteOutcome {
  /** The rows of each statement that returns rows, in order; null if the batch was refused. */
  readonly rows: Row[][] | null;
  readonly error: SvcError | null;
}

/** The write side of an engine, as the store thread uses it. */
export interface Writer {
  /** True if a group of batches is cheaper than single ones; a busy store then waits briefly for more. */
  readonly groups: boolean;
  /**
   * Applies a group and calls `answer` once per batch, with its index, when it is durable or refused. Never throws. The
   * batches share only the flush to disk: a refused one does not affect the others.
   */
  write(batches: readonly (readonly WriteOp[])[], answer: (index: number, outcome: WriteOutcome) => void): void;
  /** `answerMs` is the max time without an answer before the connection is closed. */
  read(statement: Statement, params: readonly Param[], answerMs?: number): Promise<Row[]>;
  /** Refuses with storage_unavailable unless reads and writes work now. */
  check(): Promise<void>;
  /** Returns the cause of a failure, in words for the log; null while the store works. */
  failure(): string | null;
  /** Closes after all pending work is answered. */
  close(): Promise<void>;
}
