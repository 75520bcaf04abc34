import { type Address, splitThreadId, threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { doneMark, keepAlive } from "../../bus/frames/frames.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { ThreadPosition } from "../../bus/protocol/thread.ts";
import type { Ticket } from "../../bus/queues/fair-queue.ts";
import type { SlotMember } from "../../bus/slot-map.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { BacklogReader } from "../backlog/backlogs.ts";
import { ReplayMaker } from "../backlog/replay.ts";
import { cut } from "../backlog/shared-pages.ts";
import type { HttpContext } from "../context.ts";
import type { Heard } from "../early-listener.ts";
import type { EventStream } from "../exchange/sse.ts";
import { heldThread } from "../lease.ts";
import { type Asked, openQuestions, seesApprovals } from "../open-questions.ts";
import { activeRun, SnapshotMaker, type SnapshotOf, snapshotState } from "../snapshot.ts";
import type { ThreadListener } from "../thread-fan-out.ts";
import { AskedFrames } from "./asked-frames.ts";

/** Adapts a reattached stream to one durable run. */
export interface OneRun {
  /** Frames of the run from its first event on, received by an early listener; null if the backlog must be read. */
  readonly early: Heard | null;
  /**
   * Called before the backlog is sent. `first` is the sequence number of the run's first event; `behind` the one after its last, null while
   * it runs.
   */
  span(): Promise<{ readonly first: number; readonly behind: number | null }>;
  /** Returns the frames of the conversation that the stream should get. */
  heard(frames: string): string;
  /**
   * Called after the backlog was sent and after each later frame. `cursor` is the sequence number of the next event that the client has not
   * seen.
   */
  caughtUp(cursor: number | null): void;
}

/** Delay before the stream asks the replacement of a lost actor. */
const againMs = 100;

/**
 * GET /chat/stream/{thread_id}: sends a snapshot, or the events after the client's cursor. The uncommitted output of a live run and all
 * later frames follow.
 * The order of the steps prevents lost and repeated frames. First subscribe, then ask the thread for the position of its log. Then read the
 * store up to that position, and pass on the buffered frames.
 */
export class Reattachment implements ThreadListener, SlotMember {
  slot = -1;
  readonly #context: HttpContext;
  readonly #address: Address<"thread">;
  readonly #stream: EventStream;
  /** The sequence number of the next event that the client has not seen; null until a snapshot was sent, or to send all of one run. */
  #cursor: number | null;
  /** Live frames buffered while the backlog is sent; null when frames are passed on at once. */
  #held: string | null = "";
  #heldBytes = 0;
  #heldCursor: number | null = null;
  #ticket: Ticket | null = null;
  #reader: BacklogReader | null = null;
  /** True if the actor was lost or the branch rewound while the backlog was sent. */
  #stale = false;
  /** True if the client shows a branch that is no longer active. */
  #isRewound = false;
  readonly #asked: AskedFrames;
  readonly #withApprovals: boolean;
  /** Null while the thread does not exist. */
  #threadKey: number | null = null;
  /** Null for a stream of the whole conversation. */
  readonly #oneRun: OneRun | null;

  constructor(
    context: HttpContext,
    principal: Principal,
    suffix: string,
    cursor: number | null,
    stream: EventStream,
    oneRun: OneRun | null = null,
  ) {
    this.#context = context;
    this.#oneRun = oneRun;
    this.#address = threadAddress(principal.tenant_id, suffix);
    this.#withApprovals = seesApprovals(principal);
    this.#asked = new AskedFrames(this.#withApprovals);
    this.#stream = stream;
    this.#cursor = cursor;
    stream.onClose(() => {
      context.fanOut.leave(this.#address, this);
      context.reattached.delete(this);
      this.#reader?.close();
      this.#ticket?.leave();
    });
    context.reattached.add(this);
    const early = oneRun?.early ?? null;
    if (early === null) void this.#follow();
    else this.#goOnFrom(early);
  }

  #goOnFrom({ text, cursor }: Heard): void {
    this.#context.fanOut.join(this.#address, this);
    this.#cursor = cursor;
    this.#held = null;
    this.#pass(text, cursor);
  }

  frames(text: string, cursor: number | null): void {
    if (this.#held === null) {
      this.#pass(text, cursor ?? this.#cursor);
      if (cursor !== null) this.#cursor = cursor;
    } else {
      this.#held += text;
      this.#heldBytes += Buffer.byteLength(text);
      if (cursor !== null) this.#heldCursor = cursor;
      // A client that does not read its backlog must not buffer live frames without bound.
      this.#stream.hold(this.#heldBytes);
    }
  }

  #pass(text: string, cursor: number | null): void {
    const heard = this.#asked.heard(text);
    this.#stream.write(this.#oneRun?.heard(heard) ?? heard);
    this.#oneRun?.caughtUp(cursor);
  }

  forget(): void {
    this.#held = "";
    this.#heldBytes = 0;
    this.#heldCursor = null;
    this.#stream.hold(0);
  }

  rewound(): void {
    this.#isRewound = true;
    if (this.#held === null) {
      this.forget();
      void this.#follow();
    } else {
      this.#stale = true;
    }
  }

  lost(): void {
    if (this.#held === null) {
      // The backlog is read again from the cursor, which advances with every event that is passed on.
      this.forget();
      this.#followLater();
    } else {
      this.#stale = true;
    }
  }

  /** Ends the stream after the idle time if no run is live; called periodically. */
  endWhenIdle(): void {
    const { env, settings } = this.#context;
    // The stream of one run ends with the run.
    if (this.#oneRun !== null || this.#held !== null) return;
    if (env.monotonic() - this.#stream.lastFrameAt >= settings.streamResumeIdleSeconds * 1000)
      void this.#endWithoutRun();
  }

  /** Asks the thread first, because a tool may work longer than the idle time without output. */
  async #endWithoutRun(): Promise<void> {
    const { env, bus } = this.#context;
    const { run_id } = await bus.ask(this.#address, "attach", {}).catch(() => ({ run_id: null }));
    if (run_id === null) this.#stream.end(doneMark);
    else this.#stream.lastFrameAt = env.monotonic();
  }

  #followLater(): void {
    this.#context.env.timer(againMs, () => void this.#follow());
  }

  /** Sends the backlog, then switches to live frames. Starts again if the actor was lost in between; never runs twice at once. */
  async #follow(): Promise<void> {
    const { fanOut, log, backlogs } = this.#context;
    if (this.#stream.closed) return;
    this.#stale = false;
    const ticket = backlogs.ticket(splitThreadId(this.#address.key).tenantId);
    this.#ticket = ticket;
    try {
      // Subscribe only at the front of the queue, because live frames are buffered from then on.
      if (!(await ticket.turn()) || this.#stream.closed) return;
      fanOut.join(this.#address, this);
      const { live, ...at } = await fanOut.position(this.#address, this);
      const span = (await this.#oneRun?.span()) ?? null;
      const endSeq = span?.behind ?? null;
      this.#cursor ??= span?.first ?? null;
      const position = { ...at, next_seq: Math.min(at.next_seq, endSeq ?? at.next_seq) };
      await this.#sendBacklog(ticket, { ...position, isLive: live !== null });
      if (this.#stale) return this.#followLater();
      // Live output and questions after the end of the run belong to another run.
      if (live !== null && endSeq === null) await this.#sendLive(ticket, live);
      const asked = endSeq === null ? await this.#openQuestions() : [];
      if (this.#stale) return this.#followLater();
      this.#stream.write(this.#asked.open(asked, position.next_seq));
      this.#stream.hold(0);
      const cursor = this.#heldCursor ?? this.#cursor;
      this.#pass(this.#held ?? "", cursor);
      this.#cursor = cursor;
      this.#held = null;
      this.#heldCursor = null;
    } catch (error) {
      const refused = SvcError.from(error);
      if (refused.code === "internal_error") log.error({ err: error, thread: this.#address.key }, "reattach failed");
      fanOut.leave(this.#address, this);
      // The actor's node is being replaced or is busy. The client waits on the open stream, or reconnects with its cursor.
      if (!this.#stream.midFrame) this.#followLater();
      // The client discards the partial frame and reconnects to get all of it.
      else this.#stream.end("");
    } finally {
      ticket.leave();
      this.#ticket = null;
    }
  }

  /** Returns the open questions of the thread, which the log does not hold in full. */
  async #openQuestions(): Promise<Asked[]> {
    if (this.#threadKey === null || this.#stream.closed) return [];
    const store = this.#context.store.tenant(splitThreadId(this.#address.key).tenantId);
    return openQuestions(store, { thread_key: this.#threadKey }, this.#withApprovals);
  }

  /** Sends the snapshot, or the events from the cursor up to the position of the log; after a rewind, also the snapshot. */
  async #sendBacklog(ticket: Ticket, { durable_run, ...position }: BacklogPosition): Promise<void> {
    const { store, backlogs } = this.#context;
    const { next_seq } = position;
    const threadId = this.#address.key;
    const { tenantId, suffix } = splitThreadId(threadId);
    const tenant = store.tenant(tenantId);
    const thread = (await threadBySuffix(tenant, suffix)) ?? null;
    this.#threadKey = thread?.thread_key ?? null;
    const from = this.#isRewound ? null : this.#cursor;
    if (this.#stream.closed) return;
    if (from === next_seq) {
      // A comment flushes the head, so that a client that missed nothing sees that it is connected.
      this.#stream.comment(keepAlive);
    } else if (from !== null && from < next_seq && thread !== null) {
      const state = JSON.stringify([threadId, thread.uid, from, next_seq]);
      await this.#sendAll(
        backlogs.read(ticket, state, () => new ReplayMaker(tenant, thread, from, next_seq)),
        true,
      );
    }
    // The events of one run stay valid after a rewind to another branch.
    if (this.#oneRun !== null) {
      this.#isRewound = false;
    } else if (from === null || from > next_seq || from <= (thread?.meta.rewound_at ?? -1)) {
      this.#isRewound = false;
      const before = `id: ${next_seq}\ndata: {"event":"snapshot","type":"snapshot","data":`;
      const held = thread === null ? null : await heldThread(tenant, thread);
      const of = {
        ...position,
        ...held,
        activeRun: await activeRun(tenant, { durable_run }),
        threadId,
        thread,
        before,
        after: ',"text":""}\n\n',
      };
      await this.#sendAll(
        backlogs.read(ticket, snapshotState(of), () => new SnapshotMaker(tenant, of)),
        false,
      );
    }
    this.#cursor = next_seq;
  }

  /** Sends a backlog at the pace of the client and the queue. It is one frame, or with `wholeFrames` each page ends at a frame boundary. */
  async #sendAll(reader: BacklogReader, wholeFrames: boolean): Promise<void> {
    this.#reader = reader;
    try {
      while (!reader.atEnd) {
        await this.#drained();
        const piece = await reader.next();
        // The client disconnected.
        if (piece === null) return;
        await this.#sendPart(piece, !(reader.atEnd || (wholeFrames && reader.atPageEnd)));
        if (wholeFrames && reader.atPageEnd && reader.from !== null) this.#cursor = reader.from;
      }
    } finally {
      reader.close();
      // A stream may be open for days, and a reader holds the maker of its pages.
      this.#reader = null;
    }
  }

  async #sendLive(ticket: Ticket, live: Buffer): Promise<void> {
    const parts = cut(live);
    for (const [at, part] of parts.entries()) {
      await this.#drained();
      if (!(await ticket.turn())) return;
      await this.#sendPart(part, at < parts.length - 1);
    }
  }

  /** Waits once more, because other frames may have been written since the turn in the queue. */
  async #sendPart(part: Uint8Array, unfinished: boolean): Promise<void> {
    await this.#drained();
    this.#stream.writePart(part, unfinished);
  }

  /** Resolves once the client took all that was written, so that a long backlog is not buffered for a slow reader. */
  async #drained(): Promise<void> {
    while (!this.#stream.drained && !this.#stream.closed)
      await new Promise<void>((resolve) => this.#stream.whenDrained(resolve));
  }
}

/** The position of a thread's log that a listener is shown. */
type BacklogPosition = Omit<SnapshotOf, "threadId" | "thread"> & Pick<ThreadPosition, "durable_run">;
