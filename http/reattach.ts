import { type Address, splitThreadId, threadAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { doneMark, keepAlive } from "../bus/frames/frames.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import type { ThreadPosition } from "../bus/protocol/thread.ts";
import type { Ticket } from "../bus/queues/fair-queue.ts";
import type { SlotMember } from "../bus/slot-map.ts";
import { threadBySuffix } from "../storage/tables/threads.ts";
import { AskedFrames } from "./asked-frames.ts";
import type { BacklogReader } from "./backlog/backlogs.ts";
import { ReplayMaker } from "./backlog/replay.ts";
import { cut } from "./backlog/shared-pages.ts";
import type { HttpContext } from "./context.ts";
import type { Heard } from "./early-listener.ts";
import type { EventStream } from "./exchange/sse.ts";
import { heldThread } from "./lease.ts";
import { type Asked, openQuestions, seesApprovals } from "./open-questions.ts";
import { activeRun, SnapshotMaker, type SnapshotOf, snapshotState } from "./snapshot.ts";
import type { ThreadListener } from "./thread-fan-out.ts";

/** What a stream of one durable run does beside those of its conversation. */
export interface OneRun {
  /** What was heard of it by somebody who listens up to now, from its first event on; null where its backlog has to be read. */
  readonly early: Heard | null;
  /**
   * Called before its backlog is sent: the sequence number of its first event, and that behind its last, null while it goes on.
   */
  span(): Promise<{ readonly first: number; readonly behind: number | null }>;
  /** What of the frames of the conversation is for the stream. */
  heard(frames: string): string;
  /**
   * Called when all that was said has been sent, and when frames were heard, with the sequence number of the next event that the client has
   * not seen.
   */
  caughtUp(cursor: number | null): void;
}

/** How long a reader waits before it asks the successor of an actor that is gone. */
const againMs = 100;

/**
 * GET /chat/stream/{thread_id}: a snapshot, or what came after the client's cursor, then what a live run has said since its last
 * commit, then everything that happens. Nothing is lost and nothing comes twice: the listener joins first, the thread answers
 * where its log stands, the store is read up to there, and only then is what was heard meanwhile passed on (decisions 6a, 7).
 */
export class Reattachment implements ThreadListener, SlotMember {
  slot = -1;
  readonly #context: HttpContext;
  readonly #address: Address<"thread">;
  readonly #stream: EventStream;
  /** The sequence number of the next event that the client has not seen; null until a snapshot was sent, or for all of one run. */
  #cursor: number | null;
  /** Frames heard while the backlog is being sent; null when frames are passed on at once. */
  #held: string | null = "";
  #heldBytes = 0;
  #heldCursor: number | null = null;
  #ticket: Ticket | null = null;
  #reader: BacklogReader | null = null;
  /** The actor was lost, or the backlog has become another one, while the backlog was being sent. */
  #stale = false;
  /** The client holds what is no longer the active branch. */
  #isRewound = false;
  readonly #asked: AskedFrames;
  readonly #withApprovals: boolean;
  /** Null while the thread is not there. */
  #threadKey: number | null = null;
  /** Null for a stream of all that happens. */
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
      // Who takes nothing of the backlog would let what happens meanwhile pile up.
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
      // What follows is asked for from the cursor, which moves with every event that is passed on.
      this.forget();
      this.#followLater();
    } else {
      this.#stale = true;
    }
  }

  /** Ends the stream when nothing has happened for the set time and no run is live; to be called now and then. */
  endWhenIdle(): void {
    const { env, settings } = this.#context;
    // That of a run ends with the run.
    if (this.#oneRun !== null || this.#held !== null) return;
    if (env.monotonic() - this.#stream.lastFrameAt >= settings.streamResumeIdleSeconds * 1000)
      void this.#endWithoutRun();
  }

  /** A tool may be at work for longer than that without a word. */
  async #endWithoutRun(): Promise<void> {
    const { env, bus } = this.#context;
    const { run_id } = await bus.ask(this.#address, "attach", {}).catch(() => ({ run_id: null }));
    if (run_id === null) this.#stream.end(doneMark);
    else this.#stream.lastFrameAt = env.monotonic();
  }

  #followLater(): void {
    this.#context.env.timer(againMs, () => void this.#follow());
  }

  /** Sends the backlog and goes over to what happens. Begins again when the actor is lost meanwhile, never twice at a time. */
  async #follow(): Promise<void> {
    const { fanOut, log, backlogs } = this.#context;
    if (this.#stream.closed) return;
    this.#stale = false;
    const ticket = backlogs.ticket(splitThreadId(this.#address.key).tenantId);
    this.#ticket = ticket;
    try {
      // Nothing is heard before it is this one's turn: it would have to be kept as long.
      if (!(await ticket.turn()) || this.#stream.closed) return;
      fanOut.join(this.#address, this);
      const { live, ...at } = await fanOut.position(this.#address, this);
      const span = (await this.#oneRun?.span()) ?? null;
      const endSeq = span?.behind ?? null;
      this.#cursor ??= span?.first ?? null;
      const position = { ...at, next_seq: Math.min(at.next_seq, endSeq ?? at.next_seq) };
      await this.#sendBacklog(ticket, { ...position, isLive: live !== null });
      if (this.#stale) return this.#followLater();
      // What is said and asked behind the end of a run is another's.
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
      // A worker is being replaced, or busy. The client waits on an open stream; if it gives up, it comes back with its cursor.
      if (!this.#stream.midFrame) this.#followLater();
      // What it has of a frame it drops, and comes back for the whole.
      else this.#stream.end("");
    } finally {
      ticket.leave();
      this.#ticket = null;
    }
  }

  /** What the thread asks at the moment: no event of the log says all of it. */
  async #openQuestions(): Promise<Asked[]> {
    if (this.#threadKey === null || this.#stream.closed) return [];
    const store = this.#context.store.tenant(splitThreadId(this.#address.key).tenantId);
    return openQuestions(store, { thread_key: this.#threadKey }, this.#withApprovals);
  }

  /** The snapshot, or the events from the cursor on, up to where the thread said its log stands; then, after a rewind, the snapshot. */
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
      // The head leaves with the first bytes: who has missed nothing learns by a comment that it is connected.
      this.#stream.comment(keepAlive);
    } else if (from !== null && from < next_seq && thread !== null) {
      const state = JSON.stringify([threadId, thread.uid, from, next_seq]);
      await this.#sendAll(
        backlogs.read(ticket, state, () => new ReplayMaker(tenant, thread, from, next_seq)),
        true,
      );
    }
    // The events of one run are what they are, on whatever branch.
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

  /** Sends a backlog, as fast as the client takes it and the queue lets it. It is one frame, or its pages are `wholeFrames`. */
  async #sendAll(reader: BacklogReader, wholeFrames: boolean): Promise<void> {
    this.#reader = reader;
    try {
      while (!reader.atEnd) {
        await this.#drained();
        const piece = await reader.next();
        // Nobody is there to read the rest for.
        if (piece === null) return;
        await this.#sendPart(piece, !(reader.atEnd || (wholeFrames && reader.atPageEnd)));
        if (wholeFrames && reader.atPageEnd && reader.from !== null) this.#cursor = reader.from;
      }
    } finally {
      reader.close();
      // A stream may be open for days, and a reader holds what makes its pages.
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

  /** Something else may have been written since it was this one's turn. */
  async #sendPart(part: Uint8Array, unfinished: boolean): Promise<void> {
    await this.#drained();
    this.#stream.writePart(part, unfinished);
  }

  /** Resolves when the client has taken what was written, so that a long backlog does not pile up for a slow reader. */
  async #drained(): Promise<void> {
    while (!this.#stream.drained && !this.#stream.closed)
      await new Promise<void>((resolve) => this.#stream.whenDrained(resolve));
  }
}

/** Where a thread stands that is shown to a listener. */
type BacklogPosition = Omit<SnapshotOf, "threadId" | "thread"> & Pick<ThreadPosition, "durable_run">;
