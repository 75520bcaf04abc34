import type { RunRow } from "../../../storage/tables/runs.ts";
import type { AskedKey, BeginRun, OpenedLog, OpenLog } from "../../log/messages.ts";
import type { EventLog } from "./event-log.ts";

/** Options for opening the log of a run. */
export interface OpenAsked extends Omit<OpenLog, "run_id" | "granted"> {
  /** Reserves memory for this many bytes of the log. Returns a promise if other runs must leave first. Refuses with mailbox_full. */
  makeRoom(bytes: number): Promise<void> | null;
}

/** The event log of a run with its whole life: open, begin, write, end. */
export interface RunEventLog extends EventLog {
  /** Reserves the log; `begin` or `release` must follow. Refuses as `open` of the thread does. */
  open(asked: OpenAsked): Promise<Exclude<OpenedLog, { readonly kind: "large" }>>;
  /**
   * Stores the caller's messages. Resolves with the row of a durable run. Frames that the run publishes before that are sent
   * afterwards.
   */
  begin(first: Omit<BeginRun, "run_id">): Promise<RunRow | null>;
  /** True if the first batch is durable. */
  readonly hasBegun: boolean;
  /** Releases the log of a run that does not begin, or that is lost without an end. */
  release(key: AskedKey | null): void;
}
