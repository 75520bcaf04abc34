import type { FairQueue, Ticket } from "../../bus/queues/fair-queue.ts";
import { SlotMap } from "../../bus/slot-map.ts";

// Pages of what threads have said, as bytes. A page is made once for all who ask for it, however many they are, and kept while there
// is room and somebody may ask again; who comes late to one that had to go has it made again.

/** Bytes that are written at once. */
export const pieceBytes = 64 * 1024;

/** Some of a backlog, in pieces of at most `pieceBytes`, each with memory of its own. */
export interface Page {
  readonly pieces: readonly Uint8Array[];
  /** Where the page behind it begins; null behind the last. */
  readonly next: number | null;
}

/** How the pages of a backlog are made. Pages are asked for in their order, and again at any time. */
export interface PageMaker {
  /** Where the first page begins. */
  readonly first: number;
  make(from: number): Promise<{ readonly text: string; readonly next: number | null }>;
}

/** A page that somebody waits for; null when it was given up. */
export interface WantedPage {
  readonly page: Promise<Page | null>;
  /** Gives it up: what nobody wants is not made. */
  cancel(): void;
}

interface Kept {
  /** Another one each time that the page was asked for. */
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

/** A backlog that is the same for all who read it. */
export class SharedBacklog {
  readonly tenant: string;
  readonly maker: PageMaker;
  readers = 0;
  /** Nobody will ask for it any more. */
  forgotten = false;
  readonly kept = new Map<number, Kept>();
  readonly making = new Map<number, Making>();

  constructor(tenant: string, maker: PageMaker) {
    this.tenant = tenant;
    this.maker = maker;
  }
}

/** Makes pages and keeps them, within its bound. */
export class SharedPages {
  /** Of all pages that are kept. */
  bytes = 0;
  /** Pages that were made. */
  madeCount = 0;
  readonly #queue: FairQueue;
  readonly #bytesMax: number;
  /** The one that was not asked for the longest first. */
  readonly #kept = new SlotMap<Kept>();
  #asked = 0;

  constructor(queue: FairQueue, bytesMax: number) {
    this.#queue = queue;
    this.#bytesMax = bytesMax;
  }

  /** The page of a backlog that begins there. */
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

  /** Keeps nothing of a backlog that nobody reads any more. */
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

/** Pieces that can be let go of one by one: a part of a buffer would keep all of it. */
export function cut(bytes: Buffer): Uint8Array[] {
  if (bytes.length <= pieceBytes) return [bytes];
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(Buffer.from(bytes.subarray(at, at + pieceBytes)));
  return pieces;
}

function bytesOf({ pieces }: Page): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}
