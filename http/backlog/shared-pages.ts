import type { FairQueue, Ticket } from "../../bus/queues/fair-queue.ts";
import { SlotMap } from "../../bus/slot-map.ts";

// Encoded pages of backlogs. All concurrent readers of a page share one encoding of it. The page stays cached while there is room and a
// reader may ask for it; after eviction it is made again.

/** Max bytes per write. */
export const pieceBytes = 64 * 1024;

/** A part of a backlog, in pieces of at most `pieceBytes`, each with its own memory. */
export interface Page {
  readonly pieces: readonly Uint8Array[];
  /** The start of the next page; null after the last. */
  readonly next: number | null;
}

/** Makes the pages of a backlog. Pages are requested in order, and any page may be requested again. */
export interface PageMaker {
  /** The start of the first page. */
  readonly first: number;
  make(from: number): Promise<{ readonly text: string; readonly next: number | null }>;
}

/** A requested page; its promise resolves to null after all requests were canceled. */
export interface WantedPage {
  readonly page: Promise<Page | null>;
  /** Cancels the request: a page that has no request left is not made. */
  cancel(): void;
}

interface Kept {
  /** Key in the eviction order; changes at each request for the page. */
  number: string;
  readonly backlog: SharedBacklog;
  readonly from: number;
  readonly page: Page;
  readonly bytes: number;
}

interface Making {
  readonly page: Promise<Page | null>;
  readonly ticket: Ticket;
  wantedBy: number;
}

/** A backlog with the same bytes for all its readers. */
export class SharedBacklog {
  readonly tenant: string;
  readonly maker: PageMaker;
  readers = 0;
  /** True once no reader will ask for it again. */
  forgotten = false;
  readonly kept = new Map<number, Kept>();
  readonly making = new Map<number, Making>();

  constructor(tenant: string, maker: PageMaker) {
    this.tenant = tenant;
    this.maker = maker;
  }
}

/** Makes pages and caches them within a bound of bytes. */
export class SharedPages {
  /** Bytes of all cached pages. */
  bytes = 0;
  madeCount = 0;
  readonly #queue: FairQueue;
  readonly #bytesMax: number;
  /** Least recently requested page first. */
  readonly #kept = new SlotMap<Kept>();
  #asked = 0;

  constructor(queue: FairQueue, bytesMax: number) {
    this.#queue = queue;
    this.#bytesMax = bytesMax;
  }

  /** Requests the page of a backlog that starts at `from`. */
  want(backlog: SharedBacklog, from: number): WantedPage {
    const kept = backlog.kept.get(from);
    if (kept) {
      this.#kept.take(kept.number);
      this.#toEnd(kept);
      return { page: Promise.resolve(kept.page), cancel() {} };
    }
    let making = backlog.making.get(from);
    if (!making) {
      const ticket = this.#queue.ticket(backlog.tenant);
      making = { page: this.#make(backlog, from, ticket), ticket, wantedBy: 0 };
      backlog.making.set(from, making);
    }
    const wanted = making;
    wanted.wantedBy++;
    return {
      page: wanted.page,
      cancel() {
        wanted.wantedBy--;
        if (wanted.wantedBy > 0 || wanted.ticket.hasTurn) return;
        backlog.making.delete(from);
        wanted.ticket.leave();
      },
    };
  }

  /** Drops the cached pages of a backlog without readers. */
  forget(backlog: SharedBacklog): void {
    backlog.forgotten = true;
    for (const kept of backlog.kept.values()) this.#drop(kept);
  }

  async #make(backlog: SharedBacklog, from: number, ticket: Ticket): Promise<Page | null> {
    if (!(await ticket.turn())) return null;
    try {
      const { text, next } = await backlog.maker.make(from);
      this.madeCount++;
      const page = { pieces: cut(Buffer.from(text)), next };
      if (!backlog.forgotten) this.#keep({ number: "", backlog, from, page, bytes: bytesOf(page) });
      return page;
    } finally {
      backlog.making.delete(from);
      ticket.leave();
    }
  }

  #keep(kept: Kept): void {
    for (const [, oldest] of this.#kept) {
      if (this.bytes + kept.bytes <= this.#bytesMax) break;
      this.#drop(oldest);
    }
    if (this.bytes + kept.bytes > this.#bytesMax) return;
    this.bytes += kept.bytes;
    this.#toEnd(kept);
    kept.backlog.kept.set(kept.from, kept);
  }

  #toEnd(kept: Kept): void {
    kept.number = String(this.#asked++);
    this.#kept.set(kept.number, kept);
  }

  #drop(kept: Kept): void {
    this.#kept.take(kept.number);
    kept.backlog.kept.delete(kept.from);
    this.bytes -= kept.bytes;
  }
}

/** Copies bytes into pieces that are freed one by one: a view of a buffer would keep all of it in memory. */
export function cut(bytes: Buffer): Uint8Array[] {
  if (bytes.length <= pieceBytes) return [bytes];
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(Buffer.from(bytes.subarray(at, at + pieceBytes)));
  return pieces;
}

function bytesOf({ pieces }: Page): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}
