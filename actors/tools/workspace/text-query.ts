import type { RE2JS } from "re2js";
import { ToolRefusal } from "./refusal.ts";

/** Characters of a query. */
export const queryCharsMax = 200;
/** Instructions of a compiled regular expression: what one character of text may cost. */
const programMax = 250;
/** What may be compiled at all, by a guess beforehand: compiling takes time too. */
const expansionMax = 2000;

/** Ranges of a class that end beyond ASCII, where case does not count: each is compiled letter by letter, some ten milliseconds. */
const foldedRangesMax = 2;

/** A question that is asked of every line. */
export interface TextQuery {
  /** Where the first match in the line begins, -1 when there is none. */
  find(line: string): number;
  /** Upper bound of the engine's steps for one character. */
  readonly stepsPerChar: number;
}

/** Text that is looked for as it is. */
export function literalQuery(query: string): TextQuery {
  if (/[\r\n]/.test(query))
    throw new ToolRefusal("invalid_arguments", "query is more than one line, and lines are searched one by one");
  return { find: (line) => line.indexOf(query), stepsPerChar: 1 };
}

/**
 * A regular expression in RE2's syntax: its work is at most the text's length times its own size, with no way to go back and try
 * again. Refuses what does not compile or is too large.
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
      // Only the answer yes or no comes from the fast automaton.
      if (!regex.test(line)) return -1;
      const matcher = regex.matcher(line);
      return matcher.find() ? matcher.start() : 0;
    },
    stepsPerChar,
  };
}

/** The package is loaded with the first expression: most threads never see one, and it has tables of all of Unicode. */
async function compile(query: string): Promise<RE2JS> {
  const { RE2JS, RE2JSException } = await import("re2js");
  try {
    return RE2JS.compile(query);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new ToolRefusal("invalid_arguments", `invalid regular expression: ${error.message}`);
  }
}

/** How many ranges of classes have an end that is no sign of ASCII, in an expression that asks for both cases anywhere. */
function foldedRanges(query: string): number {
  if (!/\(\?[A-Za-z]*i/.test(query)) return 0;
  return query.match(/-(?:\\[^dDsSwWpP]|\P{ASCII})/gu)?.length ?? 0;
}

/**
 * About how long the expression gets when counted repeats are written out, as the engine does; at least a third of the compiled
 * size. Repeats of one character add, those of groups multiply all, as if they were nested.
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
