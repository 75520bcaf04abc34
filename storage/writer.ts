import type { SvcError } from "../bus/errors.ts";
import type { Request } from "./port.ts";
import type { Param, Row } from "./statements.ts";

export interface WriteOutcome {
  /** The rows of each statement that returns rows, in order; null when the batch was refused. */
  readonly rows: Row[][] | null;
  readonly error: SvcError | null;
}

/** An engine's writing side, as the store thread drives it. Batches are write requests of `port.ts`. */
export interface Writer {
  /** Applies a group; answers one outcome for each batch, in order, after all that are not refused are durable. Never throws. */
  write(batches: readonly Request[]): Promise<WriteOutcome[]>;
  read(name: string, params: readonly Param[]): Promise<Row[]>;
  /** Throws when reads or writes do not work now. */
  check(): Promise<void>;
  close(): Promise<void>;
}
