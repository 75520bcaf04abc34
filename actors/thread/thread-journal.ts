import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { sessionEventFrame } from "../../storage/frames/session-event.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { appendOp, eventId, eventsMax, type LogEvent } from "../../storage/tables/events.ts";
import { deleteLiveRunOp, insertLiveRunOp, type LiveRun } from "../../storage/tables/live-runs.ts";
import { insertThreadOp, progressOp, type ThreadRow } from "../../storage/tables/threads.ts";
import type { Journal, JournalEntry } from "../run/journal.ts";
import { appendAll, type ThreadLog } from "./thread-log.ts";

/**
 * The log of one thread, for the time of one run. Sequence numbers are given out as entries are appended, and batches are
 * written in that order; a number that somebody else has taken is a conflict, after which this journal writes no more.
 */
export class ThreadJournal implements Journal {
  readonly threadId: string;
  readonly #log: ThreadLog;
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #modelId: string;
  readonly #manifest: string;
  #broken: SvcError | null = null;
  /** The batch before, where the store does not keep the order by itself. */
  #before: Promise<unknown> = Promise.resolve();
  /** What the run says while its first events are being written; null when they are durable. */
  #early: (() => string)[] | null = [];

  constructor(log: ThreadLog, env: Env, bus: Bus, manifest: string, modelId: string) {
    this.#log = log;
    this.#env = env;
    this.#bus = bus;
    this.#manifest = manifest;
    this.#modelId = modelId;
    this.threadId = log.threadId;
  }

  get nextSeq(): number {
    return this.#log.head?.next_seq ?? 0;
  }

  get durableSeq(): number {
    return this.#log.committedSeq;
  }

  /** Whether the first events of the run are durable. What it says before is published after them. */
  get hasBegun(): boolean {
    return this.#early === null;
  }

  leafIdAfter(count: number): string {
    const { head } = this.#log;
    if (head === null) return "";
    const seq = count === 0 ? head.leaf_seq : head.next_seq + count - 1;
    return seq < 0 ? "" : eventId(head.uid, seq);
  }

  /** No more writing: somebody else is about to own the thread. */
  break(error: SvcError): void {
    this.#broken ??= error;
  }

  /** The first batch of a turn: what the caller said and the mark that a run is live. `created` is a thread to be made. */
  begin(
    created: ThreadRow | null,
    entries: readonly JournalEntry[],
    live: Omit<LiveRun, "thread_key">,
    ops: readonly WriteOp[],
  ): Promise<void> {
    const { store } = this.#log;
    if (created !== null) this.#log.head = created;
    const events = this.#advance(entries);
    const head = this.#head();
    const thread =
      created === null ? this.#progress(head) : insertThreadOp(store, { ...head, model_id: this.#modelId });
    const mark = insertLiveRunOp(store, { ...live, thread_key: head.thread_key });
    return this.#write([...ops, thread, mark, ...this.#appends(head, events)], events, requestMs);
  }

  append(entries: readonly JournalEntry[], ops: readonly WriteOp[] = []): Promise<void> {
    if (this.#broken) return Promise.reject(this.#broken);
    const events = this.#advance(entries);
    const head = this.#head();
    return this.#write([this.#progress(head), ...this.#appends(head, events), ...ops], events);
  }

  end(entries: readonly JournalEntry[], ops: readonly WriteOp[]): Promise<void> {
    if (this.#broken) return Promise.reject(this.#broken);
    const events = this.#advance(entries);
    const head = this.#head();
    const unmark = deleteLiveRunOp(this.#log.store, head.thread_key);
    return this.#write([this.#progress(head), unmark, ...this.#appends(head, events), ...ops], events);
  }

  publish(frames: () => string): void {
    if (this.#early === null) this.#tell(frames);
    else this.#early.push(frames);
  }

  #tell(frames: () => string): void {
    if (this.#bus.hasSubscribers(this.#log.topic)) this.#bus.publish(this.#log.topic, frames());
  }

  #head(): ThreadRow {
    const { head } = this.#log;
    if (head === null) throw new Error("a journal without a thread");
    return head;
  }

  #advance(entries: readonly JournalEntry[]): LogEvent[] {
    const { head, events } = appendAll(this.#head(), entries, this.#env.now());
    if (head.next_seq > eventsMax) throw new SvcError("storage_unavailable", { subject: "thread_full" });
    this.#log.head = head;
    return events;
  }

  #progress(head: ThreadRow): WriteOp {
    return progressOp(this.#log.store, { ...head, manifest: this.#manifest, model_id: this.#modelId });
  }

  #appends(head: ThreadRow, events: readonly LogEvent[]): WriteOp[] {
    return events.map((event) => appendOp(this.#log.store, head.thread_key, event));
  }

  /** What follows a run that is under way waits as long as it takes; only who waits for its beginning has a deadline. */
  async #write(ops: readonly WriteOp[], events: readonly LogEvent[], deadlineMs?: number): Promise<void> {
    const { store } = this.#log;
    try {
      if (store.inOrder) await store.write(ops, deadlineMs);
      else {
        this.#before = this.#before.then(() => store.write(ops, deadlineMs));
        await this.#before;
      }
    } catch (error) {
      const refusal = SvcError.from(error);
      this.break(refusal);
      throw refusal;
    }
    const last = events.at(-1);
    if (last) {
      this.#log.committedSeq = last.seq + 1;
      const { uid } = this.#head();
      this.#tell(() => events.map((event) => sessionEventFrame(uid, event)).join(""));
    }
    this.#tellEarly();
  }

  /** The first batch is durable: what was said meanwhile follows it. */
  #tellEarly(): void {
    const early = this.#early;
    if (early === null) return;
    this.#early = null;
    for (const frames of early) this.#tell(frames);
  }
}
