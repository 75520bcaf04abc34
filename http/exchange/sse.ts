import { doneMark, keepAlive } from "../../bus/frames/frames.ts";
import type { Channel } from "../../bus/protocol/channel.ts";
import { type SlotMember, SlotSet } from "../../bus/slot-map.ts";

// Event streams and their slow readers. Frames that a client does not read are buffered. At most 1 MiB per stream waits in addition to the
// piece being sent, and 256 MiB in the whole process. Above that the stream is closed, and the client reconnects with its cursor.

/** The part of a response that streams write to. */
export interface StreamSink {
  /** Writes a piece; returns false if the client is slow to read, and `onDrained` is called later. */
  write(piece: string | Uint8Array): boolean;
  end(text: string): void;
  close(): void;
}

/** Max bytes buffered in addition to the piece being sent. */
const queuedBytesMax = 1024 * 1024;
/** A comment is sent after this time without a write. */
const keepAliveMs = 15_000;

/** One open event stream, with the bounded buffer of its client. */
export class EventStream implements SlotMember {
  slot = -1;
  readonly #sink: StreamSink;
  readonly #registry: StreamRegistry;
  #queued = "";
  #queuedBytes = 0;
  #sendingBytes = 0;
  #heldBytes = 0;
  #blocked = false;
  #ending = false;
  /** True if the last write ended inside a frame: only the rest of that frame may follow. */
  #midFrame = false;
  #closed = false;
  #onClose: (() => void) | null = null;
  #onDrained: (() => void) | null = null;
  #onShutdown: (() => void) | null = null;
  /** Monotonic milliseconds of the last write, and of the last write that was not a comment. */
  lastWriteAt: number;
  lastFrameAt: number;

  constructor(sink: StreamSink, registry: StreamRegistry) {
    this.#sink = sink;
    this.#registry = registry;
    this.lastWriteAt = registry.now();
    this.lastFrameAt = this.lastWriteAt;
    registry.opened(this);
  }

  /** True if nothing can be written any more. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Bytes that this client has not taken yet. */
  get waiting(): number {
    return this.#queuedBytes + this.#sendingBytes + this.#heldBytes;
  }

  /** True if the connection took all that was written. */
  get drained(): boolean {
    return !this.#blocked;
  }

  /** True if the frame written last is incomplete. */
  get midFrame(): boolean {
    return this.#midFrame;
  }

  /** Calls `work` once when the stream is over, however it ends. */
  onClose(work: () => void): void {
    this.#onClose = work;
  }

  /**
   * Sets the callback that ends the stream when the server stops. Streams whose run continues use it, because [DONE] would mean the run's
   * end.
   */
  onShutdown(work: () => void): void {
    this.#onShutdown = work;
  }

  /** Ends the stream because the server stops. */
  shutDown(): void {
    this.#onShutdown?.();
    this.end(doneMark);
  }

  /** Calls `work` once when the connection took everything, or when the stream is over. */
  whenDrained(work: () => void): void {
    if (this.#closed || !this.#blocked) work();
    else this.#onDrained = work;
  }

  write(text: string): void {
    if (this.#closed || this.#ending || text === "") return;
    this.lastFrameAt = this.#registry.now();
    this.#put(text);
  }

  /**
   * Writes a part of a long text after everything before it was taken. `unfinished` says that the frame continues in the next part; until
   * its last part, nothing else may be written.
   */
  writePart(bytes: Uint8Array, unfinished: boolean): void {
    if (this.#closed || this.#ending) return;
    this.lastFrameAt = this.#registry.now();
    this.#midFrame = unfinished;
    this.#send(bytes);
  }

  /** Writes a comment, except inside a frame, which it would corrupt. */
  comment(text: string): void {
    if (!this.#closed && !this.#ending && !this.#midFrame) this.#put(text);
  }

  #put(text: string): void {
    if (this.#blocked) this.#queue(text);
    else this.#send(text);
  }

  /** Sets the bytes that another buffer holds for this client; 0 once they were written. They count against the same bounds. */
  hold(bytes: number): void {
    if (this.#closed) return;
    this.#registry.waiting += bytes - this.#heldBytes;
    this.#heldBytes = bytes;
    this.#keepWithinBounds();
  }

  /**
   * Writes the rest and ends the stream once it was taken. After an incomplete frame the rest is dropped, because it would become a part of
   * that frame.
   */
  end(rest: string): void {
    if (this.#closed || this.#ending) return;
    const text = this.#midFrame ? "" : rest;
    if (this.#blocked) {
      this.#queue(text);
      this.#ending = true;
      return;
    }
    this.#over();
    this.#sink.end(text);
  }

  /** Called when the client took the piece that was being sent. */
  onDrained(): void {
    if (this.#closed) return;
    this.#blocked = false;
    this.#account(0);
    const queued = this.#queued;
    this.#registry.waiting -= this.#queuedBytes;
    this.#queued = "";
    this.#queuedBytes = 0;
    if (this.#ending) {
      this.#over();
      this.#sink.end(queued);
    } else if (queued !== "") {
      this.#send(queued);
    }
    if (!this.#blocked) this.#wake();
  }

  /** Called when the connection is gone. */
  onAborted(): void {
    this.#over();
  }

  /** Drops a client that does not read. */
  drop(): void {
    if (this.#closed) return;
    this.#over();
    this.#registry.dropped();
    this.#sink.close();
  }

  #send(piece: string | Uint8Array): void {
    this.lastWriteAt = this.#registry.now();
    if (this.#sink.write(piece)) return;
    this.#blocked = true;
    this.#account(Buffer.byteLength(piece));
  }

  #queue(text: string): void {
    const bytes = Buffer.byteLength(text);
    this.#queued += text;
    this.#queuedBytes += bytes;
    this.#registry.waiting += bytes;
    this.#keepWithinBounds();
  }

  /** Counts the bytes being sent. */
  #account(sendingBytes: number): void {
    this.#registry.waiting += sendingBytes - this.#sendingBytes;
    this.#sendingBytes = sendingBytes;
    this.#registry.keepWithinBound();
  }

  #keepWithinBounds(): void {
    if (this.#queuedBytes + this.#heldBytes > queuedBytesMax) this.drop();
    else this.#registry.keepWithinBound();
  }

  #over(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#registry.waiting -= this.waiting;
    this.#queued = "";
    this.#queuedBytes = 0;
    this.#sendingBytes = 0;
    this.#heldBytes = 0;
    this.#registry.closed(this);
    this.#wake();
    const onClose = this.#onClose;
    this.#onClose = null;
    onClose?.();
  }

  #wake(): void {
    const onDrained = this.#onDrained;
    this.#onDrained = null;
    onDrained?.();
  }
}

/** Returns the stream as a channel. Its `writable` is false while the client is slow to read, so that a producer can wait. */
export function channelOf(stream: EventStream): Channel {
  return {
    get writable() {
      return stream.drained;
    },
    onWritable: (work) => stream.whenDrained(work),
    send(text, last) {
      if (last) stream.end(text);
      else stream.write(text);
    },
  };
}

/** All open streams of an HTTP thread. */
export class StreamRegistry {
  /** Bytes buffered in all streams together. */
  waiting = 0;
  /** Returns the bytes buffered once for several streams; they count in addition to `waiting`. */
  shared: () => number = () => 0;
  /** Number of streams dropped because their client did not read. */
  droppedCount = 0;
  readonly #streams = new SlotSet<EventStream>();
  readonly #waitingMax: number;
  readonly now: () => number;

  constructor(waitingMax: number, now: () => number) {
    this.#waitingMax = waitingMax;
    this.now = now;
  }

  get size(): number {
    return this.#streams.size;
  }

  opened(stream: EventStream): void {
    this.#streams.add(stream);
  }

  closed(stream: EventStream): void {
    this.#streams.delete(stream);
  }

  dropped(): void {
    this.droppedCount++;
  }

  /**
   * Drops the stream with the most buffered bytes if the process bound is exceeded. One call per addition is enough: each addition belongs
   * to one stream, and the largest stream holds at least as much.
   */
  keepWithinBound(): void {
    if (this.waiting + this.shared() <= this.#waitingMax) return;
    let largest: EventStream | null = null;
    for (const stream of this.#streams) if (largest === null || stream.waiting > largest.waiting) largest = stream;
    largest?.drop();
  }

  /** Sends a comment on every silent stream; call it every few seconds. */
  keepAlive(): void {
    const silentSince = this.now() - keepAliveMs;
    for (const stream of this.#streams) if (stream.lastWriteAt <= silentSince) stream.comment(keepAlive);
  }

  /** Ends every stream when the server stops. */
  endAll(): void {
    for (const stream of this.#streams) stream.shutDown();
  }
}
