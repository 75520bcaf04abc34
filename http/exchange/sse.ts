import { doneMark, keepAlive } from "../../bus/frames/frames.ts";
import type { Channel } from "../../bus/protocol/channel.ts";
import { type SlotMember, SlotSet } from "../../bus/slot-map.ts";

// Event streams and their slow readers. What a client does not take waits here, at most 1 MiB behind the piece that is being
// sent, and 256 MiB in the whole process; then the stream is closed, and the client comes back with its cursor (decision 10).

/** The writing end of a response, as far as streams need it. */
export interface StreamSink {
  /** Writes a piece; false when the client is behind, and then `drained` is called later. */
  write(piece: string | Uint8Array): boolean;
  end(text: string): void;
  /** Drops the connection. */
  close(): void;
}

/** Bytes that may wait behind the piece that is being sent. */
const queuedBytesMax = 1024 * 1024;
/** Silence after which a comment is sent. */
const keepAliveMs = 15_000;

/** One open event stream. */
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
  /** What was written last is the beginning of a frame: nothing but its rest may follow. */
  #midFrame = false;
  #closed = false;
  #onClose: (() => void) | null = null;
  #onDrained: (() => void) | null = null;
  #onShutdown: (() => void) | null = null;
  /** Monotonic milliseconds: of the last write, and of the last that was more than a comment. */
  lastWriteAt: number;
  lastFrameAt: number;

  constructor(sink: StreamSink, registry: StreamRegistry) {
    this.#sink = sink;
    this.#registry = registry;
    this.lastWriteAt = registry.now();
    this.lastFrameAt = this.lastWriteAt;
    registry.opened(this);
  }

  /** True when nothing can be written any more. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Bytes that this client has not taken yet. */
  get waiting(): number {
    return this.#queuedBytes + this.#sendingBytes + this.#heldBytes;
  }

  /** True when everything that was written has been taken by the connection. */
  get drained(): boolean {
    return !this.#blocked;
  }

  /** True when the frame that was written last goes on. */
  get midFrame(): boolean {
    return this.#midFrame;
  }

  /** Calls back once when the stream is over, however it ends. */
  onClose(work: () => void): void {
    this.#onClose = work;
  }

  /** Lets the stream be ended by this when the server stops, where [DONE] would say that what it tells of is over. */
  onShutdown(work: () => void): void {
    this.#onShutdown = work;
  }

  /** The server stops. */
  shutDown(): void {
    this.#onShutdown?.();
    this.end(doneMark);
  }

  /** Calls back once when the connection has taken everything, or when the stream is over. */
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
   * Writes a part of what is too long to be written at once, when everything before it was taken. `unfinished` says that the frame
   * goes on in the next part; until its last, nothing else is to be written.
   */
  writePart(bytes: Uint8Array, unfinished: boolean): void {
    if (this.#closed || this.#ending) return;
    this.lastFrameAt = this.#registry.now();
    this.#midFrame = unfinished;
    this.#send(bytes);
  }

  /** Writes what is not a frame: a comment. In the middle of a frame it would spoil it. */
  comment(text: string): void {
    if (!this.#closed && !this.#ending && !this.#midFrame) this.#put(text);
  }

  #put(text: string): void {
    if (this.#blocked) this.#queue(text);
    else this.#send(text);
  }

  /** Books what waits for this client elsewhere until it can be written: all of it, and 0 when it was. It is bounded like the rest. */
  hold(bytes: number): void {
    if (this.#closed) return;
    this.#registry.waiting += bytes - this.#heldBytes;
    this.#heldBytes = bytes;
    this.#keepWithinBounds();
  }

  /** Writes the rest and ends the stream when it was taken. Behind the beginning of a frame it is left out: it would become a part of it. */
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

  /** The client has taken what was being sent. */
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

  /** The connection is gone. */
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

  /** Books what is being sent. */
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

/** The stream as a channel: whoever asks whether it is writable holds back what its client has no room for. */
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

/** Every open stream of an http thread. */
export class StreamRegistry {
  /** Bytes that wait in all streams together. */
  waiting = 0;
  /** Bytes that wait for several streams at once, beside those. */
  shared: () => number = () => 0;
  /** Streams dropped because nobody read them. */
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
   * Drops the stream with the most waiting when the bound is passed. Called whenever something was added: that was one stream's,
   * so the one with the most has enough.
   */
  keepWithinBound(): void {
    if (this.waiting + this.shared() <= this.#waitingMax) return;
    let largest: EventStream | null = null;
    for (const stream of this.#streams) if (largest === null || stream.waiting > largest.waiting) largest = stream;
    largest?.drop();
  }

  /** Sends a comment on every stream that has been silent; to be called every few seconds. */
  keepAlive(): void {
    const silentSince = this.now() - keepAliveMs;
    for (const stream of this.#streams) if (stream.lastWriteAt <= silentSince) stream.comment(keepAlive);
  }

  /** Ends every stream: the server stops. */
  endAll(): void {
    for (const stream of this.#streams) stream.shutDown();
  }
}
