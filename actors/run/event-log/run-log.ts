import type { RunRow } from "../../../storage/tables/runs.ts";
import type { AskedKey, BeginRun, OpenedLog, OpenLog } from "../../log/messages.ts";
import type { EventLog } from "./event-log.ts";

/** With what a run opens its log. */
export interface OpenAsked extends Omit<OpenLog, "run_id" | "granted"> {
  /** Makes room in memory for so many bytes of the log; a promise where others have to leave first. Refuses with mailbox_full. */
  makeRoom(bytes: number): Promise<void> | null;
}

/** The log of a run from its beginning: opened, begun, written, ended. */
export interface RunEventLog extends EventLog {
  /** Reserves the log; `begin` or `release` must follow. Refuses as `open` of the thread does. */
  open(asked: OpenAsked): Promise<Exclude<OpenedLog, { readonly kind: "large" }>>;
  /** Makes the caller's messages durable; answers the row of a durable run. What the run publishes meanwhile follows them. */
  begin(first: Omit<BeginRun, "run_id">): Promise<RunRow | null>;
  /** Whether the first batch is durable. */
  readonly hasBegun: boolean;
  /** The run does not begin, or is gone without an end. */
  release(key: AskedKey | null): void;
}
