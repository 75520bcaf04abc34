import { behindMax, type Detector, reachMax } from "./detector.ts";

/** What a detector made of patterns looks for. */
export interface Shape {
  readonly kind: string;
  /** Matches the characters with which a match can begin. */
  readonly first: RegExp;
  /** The character before a match must not match this. Default: letters, digits and _. */
  readonly after?: RegExp;
  /**
   * Candidates, with the flag y. They see `reachMax` characters. They are tried in order, and the first valid one counts.
   */
  readonly candidates: readonly RegExp[];
  /** Matches the text from the beginning of a candidate to the end of the text, if the candidate may continue; with the flag y. */
  readonly open: RegExp;
  /** Checks a candidate; `before` is the text in front of it. Default: every candidate is valid. */
  readonly valid?: (candidate: string, before: string) => boolean;
}

const word = /[\p{L}\p{N}_]/u;

/** Returns the detector of a shape. */
export function sticky({ kind, first, after = word, candidates, open, valid }: Shape): Detector {
  const isFirst = (code: number): boolean => first.test(String.fromCharCode(code));
  const isInside = (text: string, at: number): boolean => at > 0 && after.test(text.charAt(at - 1));
  return {
    kind,
    first: isFirst,
    match(text, at) {
      if (isInside(text, at)) return -1;
      // A candidate that reads further would depend on how a stream is divided.
      const near = text.slice(at, at + reachMax);
      for (const pattern of candidates) {
        pattern.lastIndex = 0;
        const found = pattern.exec(near)?.[0];
        if (found === undefined || found === "") continue;
        if (valid === undefined || valid(found, text.slice(Math.max(0, at - behindMax), at))) return at + found.length;
      }
      return -1;
    },
    mayBegin(text, at) {
      if (isInside(text, at) || text.length - at >= reachMax) return false;
      open.lastIndex = at;
      return open.test(text);
    },
  };
}

/** The digits of a text. */
export function digitsOf(text: string): string {
  return text.replace(/\D/g, "");
}
