import { TurnoverMap } from "../../bus/turnover.ts";
import type { FairLine, Place } from "./fair-line.ts";

// Pages of what threads have said, as bytes. A page is made once for all who ask for it, however many they are, and kept while there
// is room and somebody may ask again; who comes late to one that had to go has it made again.

/** Bytes that are written at once. */
export const pieceBytes = 64 * 1024;

/** Some of a past, in pieces of at most `pieceBytes`, each with memory of its own. */
export interface Page {
  readonly pieces: readonly Uint8Array[];
  /** Where the page behind it begins; null behind the last. */
  readonly next: number | null;
}

/** How the pages of a past are made. Pages are asked for in their order, and again at any time. */
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
  readonly past: SharedPast;
  readonly from: number;
  readonly page: Page;
  readonly bytes: number;
}

interface Making {
  readonly page: Promise<Page | null>;
  readonly place: Place;
  wantedBy: number;
}

/** A past that is the same for all who read it. */
export class SharedPast {
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
  readonly #line: FairLine;
  readonly #bytesMax: number;
  /** The one that was not asked for the longest first. */
  readonly #kept = new TurnoverMap<Kept>();
  #asked = 0;

  constructor(line: FairLine, bytesMax: number) {
    this.#line = line;
    this.#bytesMax = bytesMax;
  }

  /** The page of a past that begins there. */
  want(past: SharedPast, from: number): WantedPage {
    const kept = past.kept.get(from);
    if (kept) {
      this.#kept.take(kept.number);
      this.#toEnd(kept);
      return { page: Promise.resolve(kept.page), cancel() {} };
    }
    let making = past.making.get(from);
    if (!making) {
      const place = this.#line.place(past.tenant);
      making = { page: this.#make(past, from, place), place, wantedBy: 0 };
      past.making.set(from, making);
    }
    const wanted = making;
    wanted.wantedBy++;
    return {
      page: wanted.page,
      cancel() {
        wanted.wantedBy--;
        if (wanted.wantedBy > 0 || wanted.place.hasTurn) return;
        past.making.delete(from);
        wanted.place.leave();
      },
    };
  }

  /** Keeps nothing of a past that nobody reads any more. */
  forget(past: SharedPast): void {
    past.forgotten = true;
    for (const kept of past.kept.values()) this.#drop(kept);
  }

  async #make(past: SharedPast, from: number, place: Place): Promise<Page | null> {
    if (!(await place.turn())) return null;
    try {
      const { text, next } = await past.maker.make(from);
      this.madeCount++;
      const page = { pieces: cut(Buffer.from(text)), next };
      if (!past.forgotten) this.#keep({ number: "", past, from, page, bytes: bytesOf(page) });
      return page;
    } finally {
      past.making.delete(from);
      place.leave();
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
    kept.past.kept.set(kept.from, kept);
  }

  #toEnd(kept: Kept): void {
    kept.number = String(this.#asked++);
    this.#kept.set(kept.number, kept);
  }

  #drop(kept: Kept): void {
    this.#kept.take(kept.number);
    kept.past.kept.delete(kept.from);
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
