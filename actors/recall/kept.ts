import { SlotMap } from "../../bus/slot-map.ts";

/** Milliseconds until an unused text is dropped. */
const keptMs = 3_600_000;
/** Max bytes of all texts. */
const bytesMax = 64 * 1024 * 1024;
/** Bytes added for each text. */
const overhead = 128;

interface Entry {
  readonly text: string;
  readonly bytes: number;
  readonly until: number;
}

/**
 * A cache of texts by key: at most 64 MiB, each for an hour after its last use. The least recently used text is dropped first.
 */
export class Kept {
  readonly #entries = new SlotMap<Entry>();
  readonly #now: () => number;
  #bytes = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  get isEmpty(): boolean {
    this.#drop((entry) => entry.until <= this.#now());
    return this.#entries.size === 0;
  }

  add(key: string, text: string): void {
    this.#take(key);
    const bytes = 2 * (key.length + text.length) + overhead;
    if (bytes > bytesMax) return;
    this.#entries.set(key, { text, bytes, until: this.#now() + keptMs });
    this.#bytes += bytes;
    this.#drop((entry) => this.#bytes > bytesMax || entry.until <= this.#now());
  }

  find(key: string): string | null {
    const entry = this.#take(key);
    if (entry === undefined || entry.until <= this.#now()) return null;
    this.add(key, entry.text);
    return entry.text;
  }

  /** Drops entries from the oldest on, as long as `isDue` returns true. */
  #drop(isDue: (oldest: Entry) => boolean): void {
    for (const [key, entry] of this.#entries) {
      if (!isDue(entry)) return;
      this.#take(key);
    }
  }

  #take(key: string): Entry | undefined {
    const entry = this.#entries.take(key);
    if (entry !== undefined) this.#bytes -= entry.bytes;
    return entry;
  }
}
