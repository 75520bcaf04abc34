/** What a look at a file has found. */
export interface FileStats {
  /** Differs after a change of the file, unless that comes within the same tick of the file system's clock. */
  readonly stamp: string;
  /** When the file or its status changed last, in epoch milliseconds. */
  readonly changedAt: number;
}

/** The longest tick that file systems count times in: FAT's. */
const tickMsMax = 2_000;

/** What was made of the content of one file, for as long as the content is the same. */
export class FileMemory<T> {
  readonly #make: (bytes: Uint8Array) => T;
  #stamp = "";
  /** The file was so old when it was read that another change would have another time. */
  #isSettled = false;
  #bytes: Uint8Array | null = null;
  #made!: () => T;

  constructor(make: (bytes: Uint8Array) => T) {
    this.#make = make;
  }

  /** What is made of the content, made once; or the error that making it threw. What `read` throws is thrown, and not kept. */
  get(stats: FileStats, now: number, read: () => Uint8Array): T {
    if (this.#stamp !== stats.stamp || !this.#isSettled) {
      const bytes = read();
      if (this.#bytes === null || Buffer.compare(this.#bytes, bytes) !== 0) this.#made = once(() => this.#make(bytes));
      this.#bytes = bytes;
      this.#stamp = stats.stamp;
      this.#isSettled = now - stats.changedAt > tickMsMax;
    }
    return this.#made();
  }
}

/** Runs `make` now; every call gets its result or its error. */
function once<T>(make: () => T): () => T {
  try {
    const made = make();
    return () => made;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}
