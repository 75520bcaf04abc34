import type { WriteOp } from "../../../storage/store/store.ts";
import type { RunEnding, RunSpent } from "../../../storage/tables/runs.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { AtEnd, FencingToken, KeptByThread, TakeInputs, TakenInputs } from "../../log/messages.ts";

/**
 * Where a run writes what must not be lost. Appends become durable in the order in which they are made; after one has failed
 * all later ones fail.
 */
export interface EventLog {
  /** The sequence number of the next event, -1 without a thread. */
  readonly nextSeq: number;
  /** Events below it are durable: what a frame may name as its id. -1 without a thread. */
  readonly durableSeq: number;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  /** Id that the newest event will have after `count` more entries, empty without a thread. */
  leafIdAfter(count: number): string;
  /**
   * Resolves when the entries are durable, `ops` and what the thread is to keep with them, with the sequence number behind them: what a frame of theirs may
   * name, while `durableSeq` may have gone on. Refuses with storage_unavailable or conflict.
   */
  append(entries: readonly LogEntry[], ops?: readonly WriteOp[], kept?: KeptByThread): Promise<number>;
  /**
   * The same for what may be lost as long as nothing else is written: it goes with the next append, or by itself at the end of this turn of the
   * event loop. Resolves before that append does.
   */
  hold(entries: readonly LogEntry[], ops?: readonly WriteOp[]): Promise<number>;
  /** Puts the run aside, `ops` with it. Only for a run on a thread. */
  suspend(spent: RunSpent, ops: readonly WriteOp[]): Promise<void>;
  /** Moves what waits for the run into the log. */
  takeInputs(asked: Omit<TakeInputs, keyof FencingToken>): Promise<TakenInputs>;
  /**
   * The last append of the run, in one batch with `ops` and the end of its row. `ops` are asked for once more when others have
   * written meanwhile, as `nextSeq` and `leafIdAfter` are then others. False when nothing was written, as something waits that
   * `unless` names.
   */
  end(
    entries: readonly LogEntry[],
    ops: () => readonly WriteOp[],
    ending: RunEnding,
    unless: AtEnd | null,
  ): Promise<boolean>;
  /** Sends the last batch of a run that is cut off, which is written as long as the run is still its own. Only for a durable run. */
  cutOff?(ops: readonly WriteOp[]): void;
  /** Writes what the run has used so far, where that would wait for its end. */
  writeUsage?(): Promise<void>;
  /** Frames for those who listen to the thread without having started the turn; made only when somebody does. */
  publish(frames: () => string): void;
}
