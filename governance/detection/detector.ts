/** Max characters of a match, with the two characters after it that a detector may read. */
export const reachMax = 130;
/** Max characters before a match that a detector may read. */
export const behindMax = 64;

/**
 * Finds one kind of personal data. The answers for a position depend on a bounded part of the text around it, so that a stream and
 * the whole text have the same matches. Both functions do bounded work.
 */
export interface Detector {
  /** Upper-case letters, digits and _. A match is replaced by it, as in <EMAIL>. */
  readonly kind: string;
  /** True if a match can begin with this UTF-16 code unit. */
  first(code: number): boolean;
  /**
   * Returns the end of the match that begins at `at`; -1 for none. Reads at most `behindMax` characters before `at` and `reachMax`
   * from it.
   */
  match(text: string, at: number): number;
  /**
   * False if no text after the end of `text` changes the answer of `match` at `at`. Asked only within `reachMax` characters of the
   * end. If absent, it is always true, and streams are held back accordingly.
   */
  mayBegin?(text: string, at: number): boolean;
}
