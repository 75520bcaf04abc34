import type { Env } from "../../bus/env.ts";
import { FairQueue, type Ticket } from "../../bus/queues/fair-queue.ts";
import { SlotMap } from "../../bus/slot-map.ts";
import { type PageMaker, pieceBytes, SharedBacklog, SharedPages, type WantedPage } from "./shared-pages.ts";

// What threads have said, for those who come late to it. However many read at once: of each backlog there is one, the pages of
// which are made once for all, few at a time, and are handed out piece by piece, each when the one before was taken. So work and
// memory are those of a few readers, and everybody else waits in the queue: nobody is refused.

/** Pages that are made at a time, and begun before the event loop goes on to other things. */
const making = { atOnce: 4, perLoop: 2, oneEach: false } as const;
/** Pieces that are handed out before the event loop goes on to other things: with what is made, some milliseconds of work. */
const piecesPerLoop = 16;
/** Bytes of pages that are kept for those who have not had them yet, at most. */
const keptBytesMax = 32 * 1024 * 1024;

/** Backlogs that nobody reads at the moment, of which somebody in the queue may ask for one. */
const unreadMax = 256;

/** The backlogs that are read on this http thread, and the queue of those who read. */
export class Backlogs {
  readonly #queue: FairQueue;
  readonly #pages: SharedPages;
  readonly #shared = new SlotMap<SharedBacklog>();
  /** By the same names, the one that was read last at the end. */
  readonly #unread = new SlotMap<SharedBacklog>();

  /** `bytesMax` bounds what waits for clients on this thread; half of it may be pieces of backlogs, and a quarter pages. */
  constructor(env: Env, bytesMax: number) {
    const atOnce = Math.max(1, Math.floor(bytesMax / 2 / pieceBytes));
    this.#queue = new FairQueue(env, { atOnce, perLoop: piecesPerLoop, oneEach: true }, () => this.#forget(0));
    this.#pages = new SharedPages(new FairQueue(env, making), Math.min(keptBytesMax, bytesMax / 4));
  }

  /** Bytes that are kept for those who have not had them yet. */
  get bytes(): number {
    return this.#pages.bytes;
  }

  /** Readers that wait for their turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Pages that were made since this was asked last. */
  takeMadeCount(): number {
    const { madeCount } = this.#pages;
    this.#pages.madeCount = 0;
    return madeCount;
  }

  /** A ticket in the queue of those who read. */
  ticket(tenant: string): Ticket {
    return this.#queue.ticket(tenant);
  }

  /**
   * Reads a backlog. `state` names it: whoever gives the same name reads the same bytes, of the one that `maker` was asked for
   * first. The reader takes its turns at the ticket, which stays the caller's.
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

  /** Of those that nobody reads, keeps only so many. */
  #forget(most: number): void {
    for (const [state, backlog] of this.#unread) {
      if (this.#unread.size <= most) return;
      this.#unread.take(state);
      this.#shared.take(state);
      this.#pages.forget(backlog);
    }
  }
}

/** Somebody who reads a backlog from its beginning to its end. */
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

  /** True when the piece that was given is the last of its page. */
  get atPageEnd(): boolean {
    return this.#at === 0;
  }

  /** Where the page begins that is read next; null behind the last. */
  get from(): number | null {
    return this.#from;
  }

  /** True when the piece that was given is the last of all. */
  get atEnd(): boolean {
    return this.#from === null;
  }

  /** The next piece; null behind the last one, or when the reader was closed. To be asked for when the one before was taken. */
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

  /** Reads no more. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#wanted?.cancel();
    this.#onClose();
  }
}
