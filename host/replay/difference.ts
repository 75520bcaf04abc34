import { isDeepStrictEqual } from "node:util";

/** Something that is not as it is on record. */
export interface Difference {
  /** What it is, such as `messages[3]`. */
  readonly what: string;
  /** As it is on record; null for nothing. */
  readonly expected: unknown;
  /** As it is now; null for nothing. */
  readonly found: unknown;
}

/** The first difference, and where it is. */
export interface Divergence extends Difference {
  /** The number of the model call: the one that differs, or the last one before; 0 before the first. */
  readonly call: number;
  /** The event of the log that should have been; null where it is not about one. */
  readonly seq: number | null;
}

/** What differs between two values under a name; empty for nothing. */
export function compareValues(what: string, expected: unknown, found: unknown): Difference[] {
  return isDeepStrictEqual(plain(expected), plain(found))
    ? []
    : [{ what, expected: expected ?? null, found: found ?? null }];
}

/** The same for each item of two lists. */
export function compareItems(what: string, expected: readonly unknown[], found: readonly unknown[]): Difference[] {
  const length = Math.max(expected.length, found.length);
  return Array.from({ length }, (_, at) => compareValues(`${what}[${at}]`, expected[at], found[at])).flat();
}

/** The same for two lists as JSON texts; null is no list. */
export function compareLists(what: string, expected: string | null, found: string | null): Difference[] {
  if (expected === found) return [];
  const different = compareItems(what, listOf(expected), listOf(found));
  // The same values, written otherwise.
  return different.length === 0 ? [{ what, expected, found }] : different;
}

function listOf(text: string | null): readonly unknown[] {
  return text === null ? [] : (JSON.parse(text) as unknown[]);
}

/** As JSON would carry it: what is undefined is not there. */
function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}
