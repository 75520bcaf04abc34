import { type Address, topicOf } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { eventId } from "../../../storage/tables/events.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import type { RunEnding, RunRow } from "../../../storage/tables/runs.ts";
import { type LogEntry, numberEntries, seqOfEntry } from "../../log/entry.ts";
import type {
  AtEnd,
  BeginRun,
  FencingToken,
  KeptByThread,
  LogPosition,
  OpenedLog,
  OpenThread,
  TakeInputs,
  TakenInputs,
  TakenRun,
} from "../../log/messages.ts";
import { uncountedBytes } from "../../runtime/context-memory.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import type { EventLog, OpenAsked } from "./event-log.ts";

/** Options of a write. It has no deadline of its own, because the store has one. */
const written = { deadlineMs: Number.POSITIVE_INFINITY, prompt: true };
/** Max attempts to suspend a run whose message finds a full queue, and the pause before another one. */
const suspendAttempts = 10;
const suspendPauseMs = 1_000;
/** Max attempts to open a log whose thread actor loses its state. */
const openAttempts = 3;

/** The event log of a run on a thread. The thread actor writes it. Entries get their sequence numbers when they are sent. */
export class EventLogClient implements EventLog {
  readonly threadId: string;
  readonly #bus: Bus;
  readonly #env: Env;
  readonly #runId: string;
  readonly #address: Address<"thread">;
  readonly #topic: string;
  /** Epoch of the fencing token of a resumed or durable run; null for any other. */
  #epoch: number | null = null;
  #uid = "";
  #nextSeq = 0;
  #leafSeq = -1;
  #durableSeq = 0;
  /** Number of events by other writers since the run opened the log. */
  #notes = 0;
  #begun: Promise<unknown> = Promise.resolve();
  /** Null for a run that is not durable. */
  #durableRun: DurableRun | null = null;
  /** Frames that were published before the first batch was durable; null afterwards. */
  #early: (() => string)[] | null = [];
  /** Buffered entries for the next append, in the order of their sequence numbers. */
  #buffered: BufferedEntries[] = [];

  constructor(bus: Bus, address: Address<"thread">, runId: string, env: Env) {
    this.#bus = bus;
    this.#env = env;
    this.#runId = runId;
    this.#address = address;
    this.#topic = topicOf(address);
    this.threadId = address.key;
  }

  onWritten: ((work: string, start: number, statements: number) => void) | null = null;

  get nextSeq(): number {
    return this.#nextSeq;
  }

  get durableSeq(): number {
    return this.#durableSeq;
  }

  get hasBegun(): boolean {
    return this.#early === null;
  }

  leafIdAfter(count: number): string {
    const seq = count === 0 ? this.#leafSeq : this.#nextSeq + count - 1;
    return seq < 0 ? "" : eventId(this.#uid, seq);
  }

  async open({ makeRoom, ...rest }: OpenAsked): Promise<Exclude<OpenedLog, { readonly kind: "large" }>> {
    let granted = uncountedBytes;
    for (let attempt = 1; ; attempt++) {
      try {
        const asked = { run_id: this.#runId, granted, ...rest };
        const opened = await this.#bus.ask(this.#address, "open", asked, { prompt: true });
        if (opened.kind === "open") this.#opened(opened.thread);
        if (opened.kind !== "large") return opened;
        granted = opened.bytes;
        await makeRoom(granted);
      } catch (error) {
        const lost = error instanceof SvcError && error.code === "actor_lost";
        if (!lost || attempt >= openAttempts) throw error;
      }
    }
  }

  begin(first: Omit<BeginRun, "run_id">): Promise<RunRow | null> {
    const begun = this.#begin(first);
    this.#begun = begun;
    return begun;
  }

  async #begin(first: Omit<BeginRun, "run_id">): Promise<RunRow | null> {
    this.#sent(first.entries);
    const expected = this.#expected();
    const asked = { run_id: this.#runId, ...first };
    const start = this.#env.now();
    const { run, ...position } = await this.#bus.ask(this.#address, "begin", asked, written);
    this.onWritten?.("begin", start, first.entries.length + first.ops.length);
    if (first.accepted === "begun") this.#epoch = run?.epoch ?? null;
    this.#durable(position, expected, first.entries);
    const early = this.#early ?? [];
    this.#early = null;
    for (const frames of early) this.publish(frames);
    return run;
  }

  async append(entries: readonly LogEntry[], ops: readonly WriteOp[] = [], kept?: KeptByThread): Promise<number> {
    const buffered = this.#buffered;
    if (buffered.length === 0) return this.#append(entries, ops, kept);
    this.#buffered = [];
    const all = [...buffered.flatMap((before) => before.entries), ...entries];
    try {
      const end = await this.#append(all, [...buffered.flatMap((before) => before.ops), ...ops], kept, entries);
      let at = end - all.length;
      for (const before of buffered) {
        at += before.entries.length;
        before.written(at);
      }
      return end;
    } catch (error) {
      for (const before of buffered) before.failed(error);
      throw error;
    }
  }

  buffer(entries: readonly LogEntry[], ops: readonly WriteOp[] = []): Promise<number> {
    this.#sent(entries);
    return new Promise((written, failed) => {
      const buffered = { entries, ops, written, failed };
      this.#buffered.push(buffered);
      this.#env.defer(() => {
        if (this.#buffered.includes(buffered)) this.#sendBuffered();
      });
    });
  }

  /** Sends the buffered entries before the next message. */
  #sendBuffered(): void {
    if (this.#buffered.length > 0) this.append([]).catch(() => {});
  }

  /** Appends entries. Only those of `own` have no sequence number yet. */
  async #append(
    entries: readonly LogEntry[],
    ops: readonly WriteOp[],
    kept: KeptByThread | undefined,
    own = entries,
  ): Promise<number> {
    this.#checkFencingToken();
    const ready = this.#ready(own);
    if (ready !== null) await ready;
    const expected = this.#expected();
    const durableRun = this.#durableRun;
    const asked = {
      ...this.#fencingToken,
      entries,
      ops: durableRun === null ? ops : [...ops, ...durableRun.opsWith(entries)],
      kept,
    };
    const start = this.#env.now();
    const position = await this.#bus.ask(this.#address, "append", asked, written);
    this.onWritten?.("append", start, entries.length + asked.ops.length);
    this.#durable(position, expected, entries);
    return position.durable_seq;
  }

  async takeInputs(asked: Omit<TakeInputs, keyof FencingToken>): Promise<TakenInputs> {
    this.#sendBuffered();
    this.#checkFencingToken();
    // The thread accepts this only after the run has begun.
    if (this.#early !== null) await this.#begun;
    const expected = this.#expected();
    const taken = await this.#bus.ask(this.#address, "take_inputs", { ...this.#fencingToken, ...asked }, written);
    this.#durable(taken, expected);
    return taken;
  }

  async end(
    entries: readonly LogEntry[],
    ops: () => readonly WriteOp[],
    ending: RunEnding,
    unless: AtEnd | null,
  ): Promise<boolean> {
    this.#sendBuffered();
    this.#checkFencingToken();
    const ready = this.#ready([]);
    if (ready !== null) await ready;
    for (;;) {
      const last = { ...this.#fencingToken, entries, ops: ops(), ending, next_seq: this.#nextSeq, unless };
      const start = this.#env.now();
      const ended = await this.#bus.ask(this.#address, "end", last, written);
      this.onWritten?.("end", start, entries.length + last.ops.length);
      if (ended.kind === "queued") return false;
      if (ended.kind === "moved") {
        // A log never gets shorter. Without this check the loop would not end.
        if (ended.next_seq <= this.#nextSeq) throw new SvcError("actor_lost");
        this.#moved(ended.next_seq - this.#nextSeq);
        continue;
      }
      this.#sent(entries);
      this.#durable(ended, this.#expected(), entries);
      return true;
    }
  }

  /** Resumes a suspended run. `slot` is true if the run has a slot, or needs none. */
  async take(owner: string, slot: boolean): Promise<TakenRun> {
    const asked = { run_id: this.#runId, owner, slot };
    const taken = await this.#bus.ask(this.#address, "take", asked, { prompt: true });
    if (taken.kind !== "taken") return taken;
    this.#epoch = taken.epoch;
    this.#opened(taken.thread);
    this.#early = null;
    return taken;
  }

  async suspend(spent: RunSpent, ops: readonly WriteOp[]): Promise<void> {
    this.#sendBuffered();
    for (let attempt = 1; ; attempt++) {
      this.#checkFencingToken();
      try {
        await this.#bus.ask(this.#address, "suspend", { ...this.#fencingToken, spent, ops }, written);
        return;
      } catch (error) {
        const isFull = error instanceof SvcError && error.code === "mailbox_full";
        if (!isFull || attempt >= suspendAttempts) throw error;
        await new Promise<void>((resolve) => void this.#env.timer(suspendPauseMs, resolve));
      }
    }
  }

  /** Each append has stored the usage up to it. */
  async writeUsage(): Promise<void> {}

  cutOff(ops: readonly WriteOp[]): void {
    this.#bus.ask(this.#address, "append", { ...this.#fencingToken, entries: [], ops }, written).catch(() => {});
  }

  /** Adds the progress of a durable run to all writes, until the run is interrupted. */
  follow(durableRun: DurableRun): void {
    this.#durableRun = durableRun;
  }

  release(): void {
    this.#bus.tell(this.#address, "release", this.#fencingToken);
  }

  publish(frames: () => string): void {
    if (this.#early !== null) this.#early.push(frames);
    else if (this.#bus.hasSubscribers(this.#topic)) this.#bus.publish(this.#topic, frames());
  }

  get #fencingToken(): FencingToken {
    return { run_id: this.#runId, epoch: this.#epoch };
  }

  /** Refuses with actor_lost after the run was interrupted, because another process may have resumed it. */
  #checkFencingToken(): void {
    if (this.#durableRun?.isCut) throw new SvcError("actor_lost");
  }

  /**
   * Numbers the entries. If the thread has subscribers, it waits for the first batch, because early frames must precede the next
   * entries. Without subscribers the early frames are dropped: a later subscriber reads the log.
   */
  #ready(entries: readonly LogEntry[]): Promise<unknown> | null {
    this.#sent(entries);
    if (this.#early === null) return null;
    if (this.#bus.hasSubscribers(this.#topic)) return this.#begun;
    this.#early.length = 0;
    return null;
  }

  #opened({ uid, next_seq, leaf_seq }: Pick<OpenThread, "uid" | "next_seq" | "leaf_seq">): void {
    this.#uid = uid;
    this.#nextSeq = next_seq;
    this.#durableSeq = next_seq;
    this.#leafSeq = leaf_seq;
  }

  #sent(entries: readonly LogEntry[]): void {
    if (entries.length === 0) return;
    numberEntries(entries, this.#nextSeq);
    this.#nextSeq += entries.length;
    this.#leafSeq = this.#nextSeq - 1;
  }

  /** The expected position of the log after everything sent so far, without the events of other writers. */
  #expected(): number {
    return this.#nextSeq - this.#notes;
  }

  /** Records that a batch is durable. `expected` was the expected position when it was sent. */
  #durable({ durable_seq }: LogPosition, expected: number, entries: readonly LogEntry[] = []): void {
    this.#durableSeq = Math.max(this.#durableSeq, durable_seq);
    // Another writer may have appended before these entries.
    const [first] = entries;
    const start = durable_seq - entries.length;
    if (first !== undefined && seqOfEntry(first) !== start) numberEntries(entries, start);
    this.#moved(durable_seq - expected - this.#notes);
  }

  /** Shifts the position by the number of events from other writers. */
  #moved(notes: number): void {
    if (notes <= 0) return;
    this.#notes += notes;
    this.#nextSeq += notes;
    this.#leafSeq = this.#nextSeq - 1;
  }
}

/** Entries that are buffered for the next append. */
interface BufferedEntries {
  readonly entries: readonly LogEntry[];
  readonly ops: readonly WriteOp[];
  written(seq: number): void;
  failed(error: unknown): void;
}
