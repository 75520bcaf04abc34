import type { LeaseProof } from "../../../bus/protocol/lease.ts";
import type { RunRow } from "../../../storage/tables/runs.ts";
import type { AskedKey, BeginRun, OpenedLog } from "../../log/messages.ts";
import type { Journal } from "./journal.ts";

/** The log of a run from its beginning: opened, begun, written, ended. */
export interface RunLog extends Journal {
  /** Reserves the log; `begin` or `release` must follow. Refuses as `open` of the thread does. */
  open(key: AskedKey | null, needed: number, withUser: boolean, lease: LeaseProof | null): Promise<OpenedLog>;
  /** Makes the caller's messages durable; answers the row of a durable run. What the run publishes meanwhile follows them. */
  begin(first: Omit<BeginRun, "run_id">): Promise<RunRow | null>;
  /** Whether the first batch is durable. */
  readonly hasBegun: boolean;
  /** The run does not begin, or is gone without an end. */
  release(key: AskedKey | null): void;
}
