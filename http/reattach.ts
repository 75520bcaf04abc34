import { type Address, runAddress, splitThreadId, threadAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { doneMark, keepAlive, turnReplayFrames } from "../bus/frames/frames.ts";
import type { RunStatus } from "../bus/protocol/run.ts";
import { sessionEventFrame } from "../storage/frames/session-event.ts";
import { readEvents } from "../storage/tables/events.ts";
import { threadBySuffix } from "../storage/tables/threads.ts";
import type { HttpContext } from "./context.ts";
import type { EventStream } from "./exchange/sse.ts";
import { snapshotPieces } from "./snapshot.ts";
import type { ThreadListener } from "./thread-hubs.ts";

/** How long a reader waits before it asks the successor of an actor that is gone. */
const againMs = 100;

/**
 * GET /chat/stream/{thread_id}: a snapshot, or what came after the client's cursor, then what a live run has said since its last
 * commit, then everything that happens. Nothing is lost and nothing comes twice: the listener joins first, the thread answers
 * where its log stands, the store is read up to there, and only then is what was heard meanwhile passed on (decisions 6a, 7).
 */
export class Reattachment implements ThreadListener {
  readonly #context: HttpContext;
  readonly #address: Address<"thread">;
  readonly #stream: EventStream;
  /** The sequence number of the next event that the client has not seen; null until a snapshot was sent. */
  #cursor: number | null;
  /** Frames heard while the past is being sent; null when frames are passed on at once. */
  #held: string | null = "";
  #heldBytes = 0;
  #heldCursor: number | null = null;
  /** The actor was lost while the past was being sent. */
  #stale = false;

  constructor(context: HttpContext, tenantId: string, suffix: string, cursor: number | null, stream: EventStream) {
    this.#context = context;
    this.#address = threadAddress(tenantId, suffix);
    this.#stream = stream;
    this.#cursor = cursor;
    stream.onClose(() => {
      context.hubs.leave(this.#address, this);
      context.reattached.delete(this);
    });
    context.reattached.add(this);
    void this.#follow();
  }

  frames(text: string, cursor: number | null): void {
    if (this.#held === null) {
      this.#stream.write(text);
      if (cursor !== null) this.#cursor = cursor;
    } else {
      this.#held += text;
      this.#heldBytes += Buffer.byteLength(text);
      if (cursor !== null) this.#heldCursor = cursor;
      // Who takes nothing of the past would let what happens meanwhile pile up.
      this.#stream.hold(this.#heldBytes);
    }
  }

  lost(): void {
    if (this.#held === null) {
      // What follows is asked for from the cursor, which moves with every event that is passed on.
      this.#holdBack();
      this.#followLater();
    } else {
      this.#stale = true;
    }
  }

  /** Ends the stream when nothing has happened for the set time and no run is live; to be called now and then. */
  async endWhenIdle(): Promise<void> {
    const { env, settings, bus } = this.#context;
    if (this.#held !== null || env.monotonic() - this.#stream.lastFrameAt < settings.streamResumeIdleSeconds * 1000)
      return;
    // Asked before it is ended: a tool may be at work for longer than that without a word.
    const { run_id } = await bus.ask(this.#address, "attach", {}).catch(() => ({ run_id: null }));
    if (run_id === null) this.#stream.end(doneMark);
    else this.#stream.lastFrameAt = env.monotonic();
  }

  /** Frames are held back from now on; what was held before is forgotten. */
  #holdBack(): void {
    this.#held = "";
    this.#heldBytes = 0;
    this.#heldCursor = null;
    this.#stream.hold(0);
  }

  #followLater(): void {
    this.#context.env.timer(againMs, () => void this.#follow());
  }

  /** Sends the past and goes over to what happens. Begins again when the actor is lost meanwhile, never twice at a time. */
  async #follow(): Promise<void> {
    const { hubs, log } = this.#context;
    if (this.#stream.closed) return;
    this.#stale = false;
    hubs.join(this.#address, this);
    try {
      const { next_seq, live } = await this.#position();
      await this.#sendPast(next_seq, live !== null);
      if (this.#stale) return this.#followLater();
      if (live !== null) this.#stream.write(turnReplayFrames(live.text, live.truncated));
      this.#stream.hold(0);
      this.#stream.write(this.#held ?? "");
      this.#cursor = this.#heldCursor ?? this.#cursor;
      this.#held = null;
      this.#heldCursor = null;
    } catch (error) {
      const refused = SvcError.from(error);
      if (refused.code === "internal_error") log.error({ err: error, thread: this.#address.key }, "reattach failed");
      hubs.leave(this.#address, this);
      // A worker is being replaced, or busy. The client waits on an open stream; if it gives up, it comes back with its cursor.
      this.#followLater();
    }
  }

  /** Where the log stands and what the live run has said since. What was heard before is in one of both. */
  async #position(): Promise<{ next_seq: number; live: RunStatus["live"] }> {
    const { bus } = this.#context;
    const { next_seq, run_id } = await bus.ask(this.#address, "attach", {}, { onReply: () => this.#holdBack() });
    if (run_id === null) return { next_seq, live: null };
    const { tenantId, suffix } = splitThreadId(this.#address.key);
    let heard: number | null = null;
    const onReply = (): void => {
      heard = this.#heldCursor;
      this.#holdBack();
    };
    const { live, since_seq } = await bus.ask(runAddress(tenantId, suffix, run_id), "status", {}, { onReply });
    const upTo = Math.max(next_seq, heard ?? 0);
    // A run says nothing while it waits for an append: its text is in the log when the log has gone on without its knowing.
    return { next_seq: upTo, live: live !== null && upTo > since_seq ? { text: "", truncated: false } : live };
  }

  /** The snapshot, or the events from the cursor on, up to where the thread said its log stands. */
  async #sendPast(next_seq: number, isLive: boolean): Promise<void> {
    const { store } = this.#context;
    const { tenantId, suffix } = splitThreadId(this.#address.key);
    const tenant = store.tenant(tenantId);
    const thread = (await threadBySuffix(tenant, suffix)) ?? null;
    const from = this.#cursor;
    this.#cursor = next_seq;
    if (from === null || from > next_seq) {
      await this.#write(`id: ${next_seq}\ndata: {"event":"snapshot","type":"snapshot","data":`);
      for await (const piece of snapshotPieces(tenant, this.#address.key, thread, next_seq, isLive)) {
        // Nobody is there to read the rest for.
        if (this.#stream.closed) return;
        await this.#write(piece);
      }
      await this.#write(',"text":""}\n\n');
      return;
    }
    // The head leaves with the first bytes: who has missed nothing learns by a comment that it is connected.
    if (from === next_seq) this.#stream.comment(keepAlive);
    for (let seq = from; thread !== null && seq < next_seq && !this.#stream.closed; ) {
      const page = await readEvents(tenant, thread.thread_key, seq, next_seq);
      const last = page.at(-1);
      if (!last) return;
      await this.#write(page.map((event) => sessionEventFrame(thread.uid, event)).join(""));
      seq = last.seq + 1;
    }
  }

  /** Writes a piece of the past when the one before was taken, so that a long past does not pile up for a slow reader. */
  async #write(text: string): Promise<void> {
    if (!this.#stream.drained) await new Promise<void>((resolve) => this.#stream.whenDrained(resolve));
    this.#stream.write(text);
  }
}
