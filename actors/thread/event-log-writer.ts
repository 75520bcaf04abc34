import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { type EntryPointTraits, entryPointOf } from "../../bus/frames/entry-points.ts";
import { sessionEventFrame } from "../../storage/frames/session-event.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { acceptDurableOp, claimDurableOp } from "../../storage/tables/durable-rows.ts";
import { appendOp, eventsMax, type LogEvent } from "../../storage/tables/events.ts";
import type { RunSpent } from "../../storage/tables/run-columns.ts";
import {
  beginRunOp,
  endRunOp,
  type HeldRun,
  type NewRun,
  type RunEnding,
  type RunRow,
  resumeRunOp,
  runBegun,
  runKey,
  runNumber,
  runsMax,
  suspendLiveRunOp,
} from "../../storage/tables/runs.ts";
import {
  growthOp,
  insertThreadOp,
  metaOp,
  previewOp,
  progressOp,
  type ThreadRow,
  takeThreadOp,
} from "../../storage/tables/threads.ts";
import { type LogEntry, withOrigin } from "../log/entry.ts";
import type { BeginRun, FencingToken, KeptByThread, LogPosition } from "../log/messages.ts";
import { appendAll, type EventLogState, withKept } from "./log-state.ts";

/**
 * Writes the log of one thread for one run. Sequence numbers are assigned when entries are appended, and batches are written in
 * that order. If another writer has used a number, the batch conflicts and this writer stops.
 */
export class EventLogWriter {
  readonly runId: string;
  /** The entry point of the run; null for a resumed run. */
  startedBy: EntryPointTraits | null = null;
  readonly #log: EventLogState;
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #onLate: () => void;
  /** The fencing token of this run's claim on the thread. */
  #epoch = 0;
  /** The token with which the run began; it is the run's number in the thread. */
  #number = 0;
  /** The run's id if a repeated request replays its events; otherwise null. */
  #origin: string | null = null;
  /** The row of a durable run at its acceptance; null for other runs. */
  begun: RunRow | null = null;
  /** True for a durable run. */
  isDurable = false;
  #failure: SvcError | null = null;
  /** The previous batch: for stores without ordered writes, and for `written`. */
  #before: Promise<unknown> = Promise.resolve();
  /** Events of batches that failed but may have been applied. */
  #unconfirmed: readonly LogEvent[] = [];

  /** `onLate` is called if the batch that begins or resumes a run is applied after its deadline. */
  constructor(runId: string, log: EventLogState, env: Env, bus: Bus, onLate: () => void) {
    this.runId = runId;
    this.#onLate = onLate;
    this.#log = log;
    this.#env = env;
    this.#bus = bus;
  }

  /** The fencing token of the claim. */
  get epoch(): number {
    return this.#epoch;
  }

  /** True if the claim is this writer's. Only a run that no other process can resume has no token. */
  isOf({ run_id, epoch }: FencingToken): boolean {
    const isAlone = this.startedBy !== null && this.begun === null;
    return run_id === this.runId && (epoch === null ? isAlone : epoch === this.#epoch);
  }

  /** The error of the first batch that failed: the in-memory state is ahead of the store and must be reloaded. Null otherwise. */
  get failure(): SvcError | null {
    return this.#failure;
  }

  /** Stops the writer, because another one is about to own the thread. */
  break(error: SvcError): void {
    this.#failure ??= error;
  }

  /** Resolves when no batch is being written. */
  async written(): Promise<void> {
    await this.#before.catch(() => {});
  }

  /**
   * Writes the first batch of a turn: the claim, the caller's messages and the run's row. `created` is the row of a new thread.
   */
  begin(
    created: ThreadRow | null,
    { entries, ops, run, manifest, model_id, preview, kept, accepted }: BeginRun,
  ): Promise<LogPosition> {
    const { store } = this.#log;
    const isBegun = accepted !== "aside";
    this.startedBy = entryPointOf(run.asked.surface);
    this.#origin = originOf(run);
    this.isDurable = run.asked.durable !== undefined;
    const before = created ?? this.#head();
    const number = before.epoch + 1;
    // A run that begins at once counts as suspended and resumed, and each claim raises the token.
    const epoch = accepted === "begun" ? number + 1 : number;
    if (epoch >= runsMax) throw threadFull();
    // A row created before the first message has no preview yet.
    const isFirst = before.preview === null && preview !== null;
    const words = isFirst ? preview : before.preview;
    const events = this.#advance(entries, { ...before, epoch, manifest, model_id, preview: words });
    const keeping = kept === undefined ? [] : [this.#keep(kept)];
    this.#epoch = epoch;
    this.#number = number;
    const head = this.#head();
    const { thread_key } = head;
    const thread = created === null ? progressOp(store, before, head) : insertThreadOp(store, head);
    const first = created === null && isFirst ? [previewOp(store, head, preview)] : [];
    const place = { thread_key, epoch: number, first_seq: before.next_seq };
    const row = { ...runBegun(run, place, isBegun ? "running" : "accepted"), epoch };
    const rows = [beginRunOp(store, row)];
    if (accepted !== undefined) {
      this.begun = row;
      rows.push(acceptDurableOp(store, row, before.suffix, run.started_at, isBegun));
    }
    return this.#write([...ops, thread, ...first, ...keeping, ...rows, ...this.#appends(events)], events, requestMs);
  }

  append(entries: readonly LogEntry[], ops: readonly WriteOp[], kept?: KeptByThread): Promise<LogPosition> {
    if (this.#failure) return Promise.reject(this.#failure);
    const before = this.#head();
    const events = this.#advance(entries);
    const keeping = kept === undefined ? ops : [...ops, this.#keep(kept)];
    return this.#write([this.#progress(before), ...this.#appends(events), ...keeping], events);
  }

  /** Appends entries of other requests between those of the run. */
  async note(entries: readonly LogEntry[], ops: readonly WriteOp[]): Promise<readonly LogEvent[]> {
    if (this.#failure) throw this.#failure;
    const before = this.#head();
    const events = this.#place(entries);
    const appends = events.map((event) => appendOp(this.#log.store, before.thread_key, event));
    await this.#write([this.#progress(before), ...appends, ...ops], events);
    return events;
  }

  end(entries: readonly LogEntry[], ops: readonly WriteOp[], ending: RunEnding): Promise<LogPosition> {
    if (this.#failure) return Promise.reject(this.#failure);
    const before = this.#head();
    const events = this.#advance(entries);
    const { next_seq } = this.#head();
    const over = { ...ending, ended_at: this.#env.now(), last_seq: next_seq - 1 };
    const ended = endRunOp(this.#log.store, this.#held(), over);
    return this.#write([this.#progress(before), ended, ...this.#appends(events), ...ops], events);
  }

  /** Suspends the run. */
  suspend(spent: RunSpent, ops: readonly WriteOp[]): Promise<LogPosition> {
    if (this.#failure) return Promise.reject(this.#failure);
    return this.#write(
      [this.#progress(this.#head()), suspendLiveRunOp(this.#log.store, this.#held(), spent), ...ops],
      [],
    );
  }

  /** Claims the thread for a suspended run. */
  async take(run: RunRow, owner: string): Promise<void> {
    const { store } = this.#log;
    const before = this.#head();
    const epoch = before.epoch + 1;
    if (epoch >= runsMax) throw threadFull();
    this.#log.head = { ...before, epoch };
    this.#epoch = epoch;
    this.#number = runNumber(run.run_key);
    this.#origin = originOf(run);
    this.isDurable = run.asked.durable !== undefined;
    const taken = [takeThreadOp(store, before, epoch), resumeRunOp(store, run, { owner, epoch })];
    if (run.asked.durable !== undefined) taken.push(claimDurableOp(store, run.run_id));
    await this.#write(taken, [], requestMs);
  }

  /** The run with the token of its claim. */
  #held(): HeldRun {
    return { run_key: runKey(this.#head().thread_key, this.#number), epoch: this.#epoch };
  }

  /** Guarded by token and position: fails if the thread was claimed by another writer or an earlier batch failed. */
  #progress({ next_seq }: ThreadRow): WriteOp {
    return growthOp(this.#log.store, { epoch: this.#epoch, next_seq }, this.#head());
  }

  #head(): ThreadRow {
    const { head } = this.#log;
    if (head === null) throw new Error("the writer has no thread row");
    return head;
  }

  #keep(kept: KeptByThread): WriteOp {
    const head = withKept(this.#head(), kept);
    this.#log.head = head;
    return metaOp(this.#log.store, head);
  }

  #advance(entries: readonly LogEntry[], from: ThreadRow = this.#head()): LogEvent[] {
    const origin = this.#origin;
    return this.#place(origin === null ? entries : entries.map((entry) => withOrigin(entry, origin)), from);
  }

  #place(entries: readonly LogEntry[], from: ThreadRow = this.#head()): LogEvent[] {
    const { head, events } = appendAll(from, entries, this.#env.now());
    if (head.next_seq > eventsMax) throw threadFull();
    this.#log.head = head;
    return events;
  }

  #appends(events: readonly LogEvent[]): WriteOp[] {
    const { thread_key } = this.#head();
    return events.map((event) => appendOp(this.#log.store, thread_key, event, this.#number));
  }

  /** Only the first batch has a deadline, because a client waits for it; later ones take as long as necessary. */
  async #write(ops: readonly WriteOp[], events: readonly LogEvent[], deadlineMs?: number): Promise<LogPosition> {
    const { store } = this.#log;
    try {
      const write = store.inOrder
        ? store.write(ops, deadlineMs, this.#onLate)
        : this.#before.then(() => store.write(ops, deadlineMs, this.#onLate));
      this.#before = write;
      await write;
    } catch (error) {
      const refusal = SvcError.from(error);
      this.break(refusal);
      this.#unconfirmed = [...this.#unconfirmed, ...events];
      throw refusal;
    }
    // Each batch is guarded by its position, so this batch proves that the unconfirmed ones before it were applied.
    const applied = [...this.#unconfirmed, ...events];
    this.#unconfirmed = [];
    const last = applied.at(-1);
    const durable_seq = last ? last.seq + 1 : this.#log.committedSeq;
    if (last) {
      this.#log.committedSeq = durable_seq;
      this.#log.committedLeaf = last.seq;
      // The messages in memory are not the model's context after a compaction.
      if (applied.some(({ kind }) => kind === "compaction")) this.#log.recent = null;
      this.#log.recent?.push(...applied);
      publishEvents(this.#bus, this.#log, applied);
    }
    return { durable_seq };
  }
}

/** A durable run is joined, not replayed. */
function originOf({ run_id, idempotency_scope, asked }: NewRun): string | null {
  return idempotency_scope === null || asked.durable !== undefined ? null : run_id;
}

function threadFull(): SvcError {
  return new SvcError("storage_unavailable", { subject: "thread_full" });
}

/** Publishes written events to the subscribers of a thread. */
export function publishEvents(bus: Bus, { topic, head }: EventLogState, events: readonly LogEvent[]): void {
  if (head === null || !bus.hasSubscribers(topic)) return;
  bus.publish(topic, events.map((event) => sessionEventFrame(head.uid, event)).join(""));
}
