/** Bytes of one line; answers over HTTP have the same limit. */
const lineBytesMax = 5 * 1024 * 1024;
/** Parts of a line that wait unjoined. Each takes memory, however short. */
const partsMax = 256;
const lineFeed = 10;

/** Splits a stream of bytes into lines of UTF-8. */
export class Lines {
  #parts: Buffer[] = [];
  #length = 0;

  /** Takes the next bytes and returns the lines that they complete. Null if a line is too long. */
  take(bytes: Buffer): string[] | null {
    const lines: string[] = [];
    let from = 0;
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, from)) {
      if (this.#length + end - from > lineBytesMax) return null;
      const part = bytes.subarray(from, end);
      const whole = this.#parts.length === 0 ? part : Buffer.concat([...this.#parts, part]);
      lines.push(whole.toString("utf8").trim());
      this.#parts = [];
      this.#length = 0;
      from = end + 1;
    }
    const rest = bytes.subarray(from);
    this.#length += rest.length;
    if (this.#length > lineBytesMax) return null;
    if (rest.length > 0) this.#parts.push(rest);
    if (this.#parts.length > partsMax) this.#parts = [Buffer.concat(this.#parts)];
    return lines;
  }
}
