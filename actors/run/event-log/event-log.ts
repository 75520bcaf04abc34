import type { WriteOp } from "../../../storage/store/store.ts";
import type { RunEnding, RunSpent } from "../../../storage/tables/runs.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { AtEnd, FencingToken, KeptByThread, TakeInputs, TakenInputs } from "../../log/messages.ts";

/** The durable log of a run. Appends become durable in order. After one has failed, all later ones fail. */
export interface EventLog {
  /** The sequence number of the next event, -1 without a thread. */
  readonly nextSeq: number;
  /** All events below it are durable, so a frame may carry it as its id. -1 without a thread. */
  readonly durableSeq: number;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  /** Id that the newest event will have after `count` more entries, empty without a thread. */
  leafIdAfter(count: number): string;
  /**
   * Stores entries, `ops` and `kept` in one batch. Resolves with the sequence number after these entries, for the id of a frame
   * about them; `durableSeq` may be higher. Refuses with storage_unavailable or conflict.
   */
  append(entries: readonly LogEntry[], ops?: readonly WriteOp[], kept?: KeptByThread): Promise<number>;
  /**
   * Buffers entries that may be lost if nothing else is written. They join the next append, or are sent at the end of this turn
   * of the event loop. Resolves before that append does.
   */
  hold(entries: readonly LogEntry[], ops?: readonly WriteOp[]): Promise<number>;
  /** Suspends the run, with `ops` in the same batch. Only for a run on a thread. */
  suspend(spent: RunSpent, ops: readonly WriteOp[]): Promise<void>;
  /** Moves queued input of the run into the log. */
  takeInputs(asked: Omit<TakeInputs, keyof FencingToken>): Promise<TakenInputs>;
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
  /** Sends the last batch of an interrupted durable run. The thread writes it if the run is still its own. */
  cutOff?(ops: readonly WriteOp[]): void;
  /** Writes the usage so far, if it would otherwise be written only at the end. */
  writeUsage?(): Promise<void>;
  /** Sends frames to the subscribers of the thread. They are encoded only if there are any. */
  publish(frames: () => string): void;
}
