// Finds many known strings in one pass (Wu-Manber). A window of eight characters moves over the text. A table maps the window's
// last three characters to the distance that it may skip. Without matches it reads about every sixth character, regardless of
// the number of strings. At a possible match, the sorted list of strings is narrowed character by character, like a trie.

const windowChars = 8;
const blockChars = 3;
const tableSize = 2 ** 15;

/** Strings shorter than the window are ignored, because they occur in ordinary words. */
export class ValueScanner {
  readonly #sorted: readonly string[];
  readonly #shifts: Uint8Array;

  constructor(values: Iterable<string>) {
    this.#sorted = [...new Set(values)].filter((value) => value.length >= windowChars).sort(byCodeUnits);
    this.#shifts = new Uint8Array(tableSize).fill(windowChars - blockChars + 1);
    for (const value of this.#sorted) {
      for (let end = blockChars; end <= windowChars; end++) {
        const block = blockOf(value, end - 1);
        this.#shifts[block] = Math.min(this.#shifts[block] as number, windowChars - end);
      }
    }
  }

  /** Appends `[start, end, start, end, …]` for every match in order, including overlapping ones. */
  find(text: string, places: number[]): void {
    if (this.#sorted.length === 0) return;
    const shifts = this.#shifts;
    let last = windowChars - 1;
    while (last < text.length) {
      const shift = shifts[blockOf(text, last)] as number;
      if (shift > 0) {
        last += shift;
        continue;
      }
      const start = last - windowChars + 1;
      const length = this.#longestAt(text, start);
      if (length > 0) places.push(start, start + length);
      last++;
    }
  }

  /** Returns the length of the longest known string at `start`; 0 if there is none. */
  #longestAt(text: string, start: number): number {
    const sorted = this.#sorted;
    let low = 0;
    let high = sorted.length;
    let longest = 0;
    for (let depth = 0; low < high; depth++) {
      // All of sorted[low..high) begin with the `depth` characters read so far; the shortest comes first.
      if ((sorted[low] as string).length === depth) {
        longest = depth;
        low++;
      }
      if (start + depth >= text.length) break;
      const code = text.charCodeAt(start + depth);
      // Keys of one provider share a long prefix; then no binary search is needed.
      if (low < high && (sorted[low] as string).charCodeAt(depth) !== code) {
        low = firstAtLeast(sorted, low, high, depth, code);
      }
      if (low < high && (sorted[high - 1] as string).charCodeAt(depth) !== code) {
        high = firstAtLeast(sorted, low, high, depth, code + 1);
      }
    }
    return longest;
  }
}

/** Returns the first index in [low, high) whose string has at least `code` at position `depth`. */
function firstAtLeast(sorted: readonly string[], low: number, high: number, depth: number, code: number): number {
  let from = low;
  let to = high;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((sorted[middle] as string).charCodeAt(depth) < code) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Returns the table index for the three characters that end at `last`. */
function blockOf(text: string, last: number): number {
  const mixed = (text.charCodeAt(last - 2) << 10) ^ (text.charCodeAt(last - 1) << 5) ^ text.charCodeAt(last);
  return mixed & (tableSize - 1);
}

function byCodeUnits(left: string, right: string): number {
  return left < right ? -1 : 1;
}
