import { soundText } from "../../../bus/sound-text.ts";

/** Max bytes of each stream in one result; of more, the beginning and the end are kept. */
export const streamBytesMax = 64 * 1024;

/** Marks the place of bytes that were left out. */
const mark = "\n[truncated]\n";

/** The bytes of one stream of a command, which its spawner has cut. */
export class StreamParts {
  readonly #parts: Buffer[] = [];

  /** Adds the next bytes. */
  add(bytes: Buffer): void {
    this.#parts.push(bytes);
  }

  /** Returns the text; `skipped` is the number of bytes that were left out after the first half. */
  text(skipped: number): string {
    const bytes = Buffer.concat(this.#parts);
    if (skipped === 0) return decode(bytes);
    const half = streamBytesMax / 2;
    return `${decode(bytes.subarray(0, half))}${mark}${decode(bytes.subarray(half))}`;
  }
}

/** Decodes output. Bytes that are no UTF-8 become U+FFFD; so do NUL characters, which no log can hold. */
function decode(bytes: Uint8Array): string {
  return soundText(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
}
