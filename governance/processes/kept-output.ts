const none = Buffer.alloc(0);

/** Bounds one stream: the first half of the bytes is passed on, the last half kept until the end, and those between are left out. */
export class KeptOutput {
  readonly #half: number;
  #passed = 0;
  #last: Buffer[] = [];
  #lastBytes = 0;
  /** Bytes that were left out. */
  skipped = 0;

  /** `bytesMax` null passes everything on. */
  constructor(bytesMax: number | null) {
    this.#half = bytesMax === null ? Number.POSITIVE_INFINITY : Math.floor(bytesMax / 2);
  }

  /** Takes the next bytes and returns those to pass on now. */
  take(bytes: Buffer): Buffer {
    const room = this.#half - this.#passed;
    if (bytes.length <= room) {
      this.#passed += bytes.length;
      return bytes;
    }
    this.#passed = this.#half;
    // A copy: the bytes may belong to a larger buffer.
    this.#keep(Buffer.from(bytes.subarray(room)));
    return room === 0 ? none : bytes.subarray(0, room);
  }

  /** Returns the bytes that were kept for the end. */
  rest(): Buffer {
    const rest = Buffer.concat(this.#last);
    this.#last = [];
    this.#lastBytes = 0;
    return rest;
  }

  #keep(bytes: Buffer): void {
    this.#last.push(bytes);
    this.#lastBytes += bytes.length;
    while (this.#lastBytes > this.#half) {
      const first = this.#last[0] as Buffer;
      const over = Math.min(this.#lastBytes - this.#half, first.length);
      if (over === first.length) this.#last.shift();
      else this.#last[0] = first.subarray(over);
      this.#lastBytes -= over;
      this.skipped += over;
    }
  }
}
