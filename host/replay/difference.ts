import { isDeepStrictEqual } from "node:util";

/** A difference between the replay and the record. */
export interface Difference {
  /** Name of the value, such as `messages[3]`. */
  readonly what: string;
  /** The recorded value; null if absent. */
  readonly expected: unknown;
  /** The replayed value; null if absent. */
  readonly found: unknown;
}

/** The first difference and its position. */
export interface Divergence extends Difference {
  /** Number of the model call that differs, or of the last call before the difference; 0 before the first. */
  readonly call: number;
  /** The expected event of the log; null if the difference is not about an event. */
  readonly seq: number | null;
}

/** Compares two values; empty if they are equal. */
export function compareValues(what: string, expected: unknown, found: unknown): Difference[] {
  return isDeepStrictEqual(plain(expected), plain(found))
    ? []
    : [{ what, expected: expected ?? null, found: found ?? null }];
}

/** Compares two lists item by item. */
export function compareItems(what: string, expected: readonly unknown[], found: readonly unknown[]): Difference[] {
  const length = Math.max(expected.length, found.length);
  return Array.from({ length }, (_, at) => compareValues(`${what}[${at}]`, expected[at], found[at])).flat();
}

/** Compares two lists given as JSON text; null is no list. */
export function compareLists(what: string, expected: string | null, found: string | null): Difference[] {
  if (expected === found) return [];
  const different = compareItems(what, listOf(expected), listOf(found));
  // Equal values with different JSON text.
  return different.length === 0 ? [{ what, expected, found }] : different;
}

function listOf(text: string | null): readonly unknown[] {
  return text === null ? [] : (JSON.parse(text) as unknown[]);
}

/** Drops undefined fields, as JSON does. */
function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}
