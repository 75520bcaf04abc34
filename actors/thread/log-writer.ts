import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EntryPoint } from "../../bus/protocol/run.ts";
import { sessionEventFrame } from "../../storage/frames/session-event.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { acceptDurableOp, claimDurableOp } from "../../storage/tables/durable-rows.ts";
import { appendOp, eventsMax, type LogEvent } from "../../storage/tables/events.ts";
import {
  beginRunOp,
  endRunOp,
  type HeldRun,
  type NewRun,
  type RunEnding,
  type RunRow,
  type RunSpent,
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
 * Writes the log of one thread for one run. Sequence numbers are given out as entries are appended, and batches are written in
 * that order; a number that somebody else has taken is a conflict, after which this writer writes no more.
 */
export class EventLogWriter {
  readonly runId: string;
  /** What the run was asked for; null for one that was taken up again. */
  surface: EntryPoint | null = null;
  readonly #log: EventLogState;
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #onLate: () => void;
  /** The thread's epoch as this run has taken it, which is its fencing token. */
  #epoch = 0;
  /** The epoch as the run has begun, which is its number in the thread. */
  #number = 0;
  /** The run's id if its events can be replayed to a repeated request; else null. */
  #origin: string | null = null;
  /** The row of a durable run as it was accepted; null for every other. */
  begun: RunRow | null = null;
  /** True once it has begun or was taken as a durable run. */
  isDurable = false;
  #broken: SvcError | null = null;
  /** The batch before: where the store does not keep the order by itself, and for who waits until all is written. */
  #before: Promise<unknown> = Promise.resolve();

  /** `onLate` is called when the batch with which a run begins or goes on was applied after it had been given up. */
  constructor(runId: string, log: EventLogState, env: Env, bus: Bus, onLate: () => void) {
    this.runId = runId;
    this.#onLate = onLate;
    this.#log = log;
    this.#env = env;
    this.#bus = bus;
  }

  /** The epoch of the fencing token. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Whether this is the writer of who claims to write; only a run that nobody else could have taken up knows no epoch. */
  isOf({ run_id, epoch }: FencingToken): boolean {
    const isAlone = this.surface !== null && this.begun === null;
    return run_id === this.runId && (epoch === null ? isAlone : epoch === this.#epoch);
  }

  /** Whether the state is ahead of what is stored: it has to be read again. */
  get broken(): boolean {
    return this.#broken !== null;
  }

  /** No more writing: somebody else is about to own the thread. */
  break(error: SvcError): void {
    this.#broken ??= error;
  }

  /** Resolves when nothing is being written. */
  async written(): Promise<void> {
    await this.#before.catch(() => {});
  }

  /** The first batch of a turn takes the thread: what the caller said, and the row of the run. `created` is a thread to be made. */
  begin(
    created: ThreadRow | null,
    { entries, ops, run, manifest, model_id, preview, kept, accepted }: BeginRun,
  ): Promise<LogPosition> {
    const { store } = this.#log;
    const isBegun = accepted !== "aside";
    this.surface = run.asked.surface;
    this.#origin = originOf(run);
    this.isDurable = run.asked.durable !== undefined;
    const before = created ?? this.#head();
    const number = before.epoch + 1;
    // As one that was put aside and taken up at once: each time is an epoch.
    const epoch = accepted === "begun" ? number + 1 : number;
    if (epoch >= runsMax) throw threadFull();
    // A row that was made before anybody has spoken has no first words yet.
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
    if (this.#broken) return Promise.reject(this.#broken);
    const before = this.#head();
    const events = this.#advance(entries);
    const keeping = kept === undefined ? ops : [...ops, this.#keep(kept)];
    return this.#write([this.#progress(before), ...this.#appends(events), ...keeping], events);
  }

  /** Entries that are not the run's: they stand between its own. */
  async note(entries: readonly LogEntry[], ops: readonly WriteOp[]): Promise<readonly LogEvent[]> {
    if (this.#broken) throw this.#broken;
    const before = this.#head();
    const events = this.#place(entries);
    const appends = events.map((event) => appendOp(this.#log.store, before.thread_key, event));
    await this.#write([this.#progress(before), ...appends, ...ops], events);
    return events;
  }

  end(entries: readonly LogEntry[], ops: readonly WriteOp[], ending: RunEnding): Promise<LogPosition> {
    if (this.#broken) return Promise.reject(this.#broken);
    const before = this.#head();
    const events = this.#advance(entries);
    const { next_seq } = this.#head();
    const over = { ...ending, ended_at: this.#env.now(), last_seq: next_seq - 1 };
    const ended = endRunOp(this.#log.store, this.#held(), over);
    return this.#write([this.#progress(before), ended, ...this.#appends(events), ...ops], events);
  }

  /** Puts the run aside. */
  suspend(spent: RunSpent, ops: readonly WriteOp[]): Promise<LogPosition> {
    if (this.#broken) return Promise.reject(this.#broken);
    return this.#write(
      [this.#progress(this.#head()), suspendLiveRunOp(this.#log.store, this.#held(), spent), ...ops],
      [],
    );
  }

  /** Takes the thread for a run that was put aside. */
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

  /** The run as it holds its row. */
  #held(): HeldRun {
    return { run_key: runKey(this.#head().thread_key, this.#number), epoch: this.#epoch };
  }

  /** Who has lost the thread since writes no more, nor does who has lost a batch before. */
  #progress({ next_seq }: ThreadRow): WriteOp {
    return growthOp(this.#log.store, { epoch: this.#epoch, next_seq }, this.#head());
  }

  #head(): ThreadRow {
    const { head } = this.#log;
    if (head === null) throw new Error("a writer without a thread");
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

  /** What follows a run that is under way waits as long as it takes; only who waits for its beginning has a deadline. */
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
      throw refusal;
    }
    const last = events.at(-1);
    const durable_seq = last ? last.seq + 1 : this.#log.committedSeq;
    if (last) {
      this.#log.committedSeq = durable_seq;
      this.#log.committedLeaf = last.seq;
      // What is in memory is not what the model reads behind a compaction.
      if (last.kind === "compaction") this.#log.recent = null;
      this.#log.recent?.push(...events);
      publishEvents(this.#bus, this.#log, events);
    }
    return { durable_seq };
  }
}

/** A durable run is joined again, and not replayed. */
function originOf({ run_id, idempotency_scope, asked }: NewRun): string | null {
  return idempotency_scope === null || asked.durable !== undefined ? null : run_id;
}

function threadFull(): SvcError {
  return new SvcError("storage_unavailable", { subject: "thread_full" });
}

/** Tells those who listen to a thread what was written. */
export function publishEvents(bus: Bus, { topic, head }: EventLogState, events: readonly LogEvent[]): void {
  if (head === null || !bus.hasSubscribers(topic)) return;
  bus.publish(topic, events.map((event) => sessionEventFrame(head.uid, event)).join(""));
}
