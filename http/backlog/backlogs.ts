import type { Env } from "../../bus/env.ts";
import { FairQueue, type Ticket } from "../../bus/queues/fair-queue.ts";
import { SlotMap } from "../../bus/slot-map.ts";
import { type PageMaker, pieceBytes, SharedBacklog, SharedPages, type WantedPage } from "./shared-pages.ts";

// The backlog is the past events of a thread, for clients that connect late. All readers of one backlog share its pages. Few pages are
// encoded at a time, and a reader gets a piece only after it took the one before. Work and memory are therefore those of a few readers. All
// others wait in a fair queue; none is refused.

/** Max pages made at once, and max started per turn of the event loop. */
const making = { atOnce: 4, perLoop: 2, oneEach: false } as const;
/** Max pieces sent per turn of the event loop: with the pages made, some milliseconds of work. */
const piecesPerLoop = 16;
/** Max bytes of pages cached for later readers. */
const keptBytesMax = 32 * 1024 * 1024;

/** Max backlogs without a reader that stay cached, because a queued reader may ask for them. */
const unreadMax = 256;

/** The backlogs that are read on this HTTP thread, and the queue of their readers. */
export class Backlogs {
  readonly #queue: FairQueue;
  readonly #pages: SharedPages;
  readonly #shared = new SlotMap<SharedBacklog>();
  /** Shared backlogs without a reader, by the same names, least recently read first. */
  readonly #unread = new SlotMap<SharedBacklog>();

  /**
   * `bytesMax` bounds the bytes that wait for clients on this thread. Up to half of it may be pieces of backlogs, and up to a quarter
   * cached pages.
   */
  constructor(env: Env, bytesMax: number) {
    const atOnce = Math.max(1, Math.floor(bytesMax / 2 / pieceBytes));
    this.#queue = new FairQueue(env, { atOnce, perLoop: piecesPerLoop, oneEach: true }, () => this.#forget(0));
    this.#pages = new SharedPages(new FairQueue(env, making), Math.min(keptBytesMax, bytesMax / 4));
  }

  /** Bytes of pages cached for later readers. */
  get bytes(): number {
    return this.#pages.bytes;
  }

  /** Number of readers that wait for their turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Returns the number of pages made since the last call. */
  takeMadeCount(): number {
    const { madeCount } = this.#pages;
    this.#pages.madeCount = 0;
    return madeCount;
  }

  /** Returns a ticket in the queue of readers. */
  ticket(tenant: string): Ticket {
    return this.#queue.ticket(tenant);
  }

  /**
   * Reads a backlog. `state` is its cache key: all readers with the same key get the same bytes, made by the `maker` of the first one. The
   * reader waits at `ticket`, which the caller owns and must leave.
   */
  read(ticket: Ticket, state: string, maker: () => PageMaker): BacklogReader {
    let backlog = this.#shared.get(state);
    if (!backlog) {
      backlog = new SharedBacklog(ticket.tenant, maker());
      this.#shared.set(state, backlog);
    }
    const shared = backlog;
    shared.readers++;
    this.#unread.take(state);
    return new BacklogReader(ticket, shared, this.#pages, () => {
      if (--shared.readers > 0) return;
      this.#unread.set(state, shared);
      this.#forget(unreadMax);
    });
  }

  /** Drops the least recently read backlogs without a reader, until at most `most` remain. */
  #forget(most: number): void {
    for (const [state, backlog] of this.#unread) {
      if (this.#unread.size <= most) return;
      this.#unread.take(state);
      this.#shared.take(state);
      this.#pages.forget(backlog);
    }
  }
}

/** Reads a backlog from its beginning to its end. */
export class BacklogReader {
  readonly #ticket: Ticket;
  readonly #backlog: SharedBacklog;
  readonly #pages: SharedPages;
  readonly #onClose: () => void;
  #from: number | null;
  #at = 0;
  #wanted: WantedPage | null = null;
  #closed = false;

  constructor(ticket: Ticket, backlog: SharedBacklog, pages: SharedPages, onClose: () => void) {
    this.#ticket = ticket;
    this.#backlog = backlog;
    this.#from = backlog.maker.first;
    this.#pages = pages;
    this.#onClose = onClose;
  }

  /** True if the last returned piece was the last of its page. */
  get atPageEnd(): boolean {
    return this.#at === 0;
  }

  /** The start of the page that is read next; null after the last page. */
  get from(): number | null {
    return this.#from;
  }

  /** True if the last returned piece was the last of the backlog. */
  get atEnd(): boolean {
    return this.#from === null;
  }

  /** Returns the next piece; null after the last one or after `close`. Call it once the client took the piece before. */
  async next(): Promise<Uint8Array | null> {
    if (this.#closed || this.#from === null || !(await this.#ticket.turn()) || this.#closed) return null;
    this.#wanted = this.#pages.want(this.#backlog, this.#from);
    const page = await this.#wanted.page;
    this.#wanted = null;
    if (this.#closed || page === null) return null;
    const piece = page.pieces[this.#at++] ?? null;
    if (this.#at < page.pieces.length) return piece;
    this.#from = page.next;
    this.#at = 0;
    return piece;
  }

  /** Stops reading and drops a pending page. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#wanted?.cancel();
    this.#onClose();
  }
}
