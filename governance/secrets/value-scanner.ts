// Finds any of many known texts in one pass, after Wu and Manber: a window of eight characters moves over the text, and a table
// says for its last three how far it may move on because no known text holds them there. With nothing to find it looks at about
// every sixth character, however many texts are known. Where the window fits, the sorted list of texts is narrowed character by
// character, like a walk down a trie.

const windowChars = 8;
const blockChars = 3;
const tableSize = 2 ** 15;

/** Knows some texts. Those shorter than the window are left out: they would be found in ordinary words. */
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

  /** Adds `[start, end, start, end, …]` of every place where a known text stands, overlapping ones too, in order. */
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

  /** The length of the longest known text that begins here, 0 when none does. */
  #longestAt(text: string, start: number): number {
    const sorted = this.#sorted;
    let low = 0;
    let high = sorted.length;
    let longest = 0;
    for (let depth = 0; low < high; depth++) {
      // All of sorted[low..high) begin with the `depth` characters seen so far; the shortest stands first.
      if ((sorted[low] as string).length === depth) {
        longest = depth;
        low++;
      }
      if (start + depth >= text.length) break;
      const code = text.charCodeAt(start + depth);
      // Keys of one provider share a long beginning, and then nothing has to be searched.
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

/** The first place in [low, high) whose text has at `depth` a code unit of at least `code`. */
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

/** The table's place for the three characters that end at `last`. */
function blockOf(text: string, last: number): number {
  const mixed = (text.charCodeAt(last - 2) << 10) ^ (text.charCodeAt(last - 1) << 5) ^ text.charCodeAt(last);
  return mixed & (tableSize - 1);
}

function byCodeUnits(left: string, right: string): number {
  return left < right ? -1 : 1;
}
