import type { RE2JS } from "re2js";
import { ToolRefusal } from "./refusal.ts";

/** Max characters of a query. */
export const queryCharsMax = 200;
/** Max instructions of a compiled regular expression, which bound the cost per character. */
const programMax = 250;
/** Max estimated size before compilation, because compiling takes time too. */
const expansionMax = 2000;

/** Max case-insensitive ranges beyond ASCII: each is compiled letter by letter, which takes about ten milliseconds. */
const foldedRangesMax = 2;

/** A query that is applied to every line. */
export interface TextQuery {
  /** Returns the start of the first match in the line; -1 for none. */
  find(line: string): number;
  /** Upper bound of the engine's steps per character. */
  readonly stepsPerChar: number;
}

/** Returns a query for a literal text. */
export function literalQuery(query: string): TextQuery {
  if (/[\r\n]/.test(query))
    throw new ToolRefusal("invalid_arguments", "query is more than one line, and lines are searched one by one");
  return { find: (line) => line.indexOf(query), stepsPerChar: 1 };
}

/**
 * Returns a query for a regular expression in RE2's syntax. Its work is at most the length of the text times its program size,
 * without backtracking. Refuses an invalid or too large one.
 */
export async function regexQuery(query: string): Promise<TextQuery> {
  const isSmall = expansion(query) <= expansionMax && foldedRanges(query) <= foldedRangesMax;
  const regex = isSmall ? await compile(query) : null;
  const stepsPerChar = regex?.programSize() ?? Number.POSITIVE_INFINITY;
  if (regex === null || stepsPerChar > programMax)
    throw new ToolRefusal(
      "invalid_arguments",
      "the regular expression is too large: repeat less, or search for a part of it",
    );
  return {
    find(line) {
      // The fast automaton only decides whether there is a match.
      if (!regex.test(line)) return -1;
      const matcher = regex.matcher(line);
      return matcher.find() ? matcher.start() : 0;
    },
    stepsPerChar,
  };
}

/** Loads the package with the first expression: most threads never need it, and it contains all Unicode tables. */
async function compile(query: string): Promise<RE2JS> {
  const { RE2JS, RE2JSException } = await import("re2js");
  try {
    return RE2JS.compile(query);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new ToolRefusal("invalid_arguments", `invalid regular expression: ${error.message}`);
  }
}

/** Returns the number of class ranges that end beyond ASCII in an expression with a case-insensitive part. */
function foldedRanges(query: string): number {
  if (!/\(\?[A-Za-z]*i/.test(query)) return 0;
  return query.match(/-(?:\\[^dDsSwWpP]|\P{ASCII})/gu)?.length ?? 0;
}

/**
 * Estimates the length of the expression with counted repeats expanded, as the engine does; at least a third of the compiled
 * size. Repeats of one character add; those of groups multiply, as if nested.
 */
export function expansion(query: string): number {
  let length = query.length;
  let factor = 1;
  for (const [, before, least, most] of query.matchAll(/(.)\{(\d+)(?:,(\d*))?\}/gs)) {
    const times = Math.max(1, Number(most || least));
    if (before === ")") factor *= times;
    else length += times;
  }
  return length * factor;
}
