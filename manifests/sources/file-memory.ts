/** State of a file. */
export interface FileStats {
  /** Changes with the file, unless two changes fall in one tick of the file system's clock. */
  readonly stamp: string;
  /** Time of the last change of the file or its metadata, in epoch milliseconds. */
  readonly changedAt: number;
}

/** Longest clock tick of common file systems, that of FAT. */
const tickMsMax = 2_000;

/** Caches a value made from a file's content until the content changes. */
export class FileMemory<T> {
  readonly #make: (bytes: Uint8Array) => T;
  #stamp = "";
  /** True if the file was old enough at the read that a later change has another time. */
  #isSettled = false;
  #bytes: Uint8Array | null = null;
  #made!: () => T;

  constructor(make: (bytes: Uint8Array) => T) {
    this.#make = make;
  }

  /**
   * Returns the value made from the content, or throws the error of `make`; both are cached. Errors of `read` are not
   * cached.
   */
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

/** Runs `make` now; every call returns its result or throws its error. */
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
