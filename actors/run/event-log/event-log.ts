import type { WriteOp } from "../../../storage/store/store.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import type { RunEnding, RunRow } from "../../../storage/tables/runs.ts";
import type { LogEntry } from "../../log/entry.ts";
import type {
  AskedKey,
  AtEnd,
  BeginRun,
  FencingToken,
  KeptByThread,
  OpenedLog,
  OpenLog,
  TakeInputs,
  TakenInputs,
} from "../../log/messages.ts";

/**
 * The durable log of a run. A run opens it, which reserves it, begins it, appends, and ends or releases it. Appends become durable
 * in order. After one has failed, all later ones fail. Of a run on a thread it is a client of the thread's writer. Of any other run
 * it is in memory.
 */
export interface EventLog {
  /** The sequence number of the next event, -1 without a thread. */
  readonly nextSeq: number;
  /** All events below it are durable, so a frame may carry it as its id. -1 without a thread. */
  readonly durableSeq: number;
  /** Called after each durable batch, with its name, its start and its statements; absent or null if nothing listens. */
  onWritten?: ((work: string, start: number, statements: number) => void) | null;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  /** True if the first batch is durable. */
  readonly hasBegun: boolean;
  /** Id that the newest event will have after `count` more entries, empty without a thread. */
  leafIdAfter(count: number): string;
  /** Reserves the log; `begin` or `release` must follow. Refuses as `open` of the thread does. */
  open(asked: OpenAsked): Promise<Exclude<OpenedLog, { readonly kind: "large" }>>;
  /**
   * Stores the caller's messages. Resolves with the row of a durable run. Frames that the run publishes before that are sent
   * afterwards.
   */
  begin(first: Omit<BeginRun, "run_id">): Promise<RunRow | null>;
  /**
   * Stores entries, `ops` and `kept` in one batch. Resolves with the sequence number after these entries, for the id of a frame
   * about them; `durableSeq` may be higher. Refuses with storage_unavailable or conflict.
   */
  append(entries: readonly LogEntry[], ops?: readonly WriteOp[], kept?: KeptByThread): Promise<number>;
  /**
   * Buffers entries that may be lost if nothing else is written. They join the next append, or are sent at the end of this turn
   * of the event loop. Resolves before that append does.
   */
  buffer(entries: readonly LogEntry[], ops?: readonly WriteOp[]): Promise<number>;
  /** Moves queued input of the run into the log. */
  takeInputs(asked: Omit<TakeInputs, keyof FencingToken>): Promise<TakenInputs>;
  /** Writes the usage so far, if it would otherwise be written only at the end. */
  writeUsage(): Promise<void>;
  /** Suspends the run, with `ops` in the same batch. Only for a run on a thread. */
  suspend(spent: RunSpent, ops: readonly WriteOp[]): Promise<void>;
  /** Sends the last batch of an interrupted durable run. The thread writes it if the run is still its own. */
  cutOff(ops: readonly WriteOp[]): void;
  /**
   * Writes the last batch of the run: `entries`, `ops` and the end of its row. If another writer has appended in between, `ops`
   * is called again with the new `nextSeq` and `leafIdAfter`. False if nothing was written, because input is queued that `unless`
   * names.
   */
  end(
    entries: readonly LogEntry[],
    ops: () => readonly WriteOp[],
    ending: RunEnding,
    unless: AtEnd | null,
  ): Promise<boolean>;
  /** Releases the log of a run that does not begin, or that is lost without an end. */
  release(key: AskedKey | null): void;
  /** Sends frames to the subscribers of the thread. They are encoded only if there are any. */
  publish(frames: () => string): void;
}

/** Options for opening the log of a run. */
export interface OpenAsked extends Omit<OpenLog, "run_id" | "granted"> {
  /** Reserves memory for this many bytes of the log. Returns a promise if other runs must leave first. Refuses with mailbox_full. */
  makeRoom(bytes: number): Promise<void> | null;
}
