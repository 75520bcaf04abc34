import { matchGlob } from "../../../manifests/glob.ts";
import { ToolRefusal } from "./refusal.ts";
import { isGitDirectory } from "./workspace-path.ts";

// A path pattern is a list of name patterns. A walk carries the set of positions in that list that it may have reached in a
// directory. So each name is matched at most once against each part, whatever the number of **.

const wildcardsMax = 8;
const doubleStarsMax = 4;

/** A pattern split into parts. */
export interface PathPattern {
  /** The leading names without wildcards. */
  readonly base: readonly string[];
  /** The rest, at least one part. */
  readonly parts: readonly string[];
}

/** Parses a pattern of the glob tool; refuses an invalid one with the reason. */
export function parsePattern(pattern: string): PathPattern {
  if (/[\p{Cc}\p{Zl}\p{Zp}\\]/u.test(pattern)) refuse("the pattern has a backslash or control characters");
  if (pattern.includes("..")) refuse("the pattern has .. in it");
  if (pattern.startsWith("/")) refuse("the pattern begins with /: it starts at path, or at the workspace's root");
  if (/[{}[\]]/.test(pattern))
    refuse("the pattern has braces or brackets: call once for each alternative, or use ? or *");
  const parts = pattern.split("/");
  if (parts.some((part) => part === "" || part === ".")) refuse("the pattern has an empty name or a . in it");
  if (parts.some((part) => part.includes("**") && part !== "**"))
    refuse("the pattern has ** next to other characters: it stands for whole directories");
  if (parts.filter((part) => part === "**").length > doubleStarsMax)
    refuse(`the pattern has more than ${doubleStarsMax} of **`);
  const single = parts.filter((part) => part !== "**").join("");
  if (single.replace(/[^*?]/g, "").length > wildcardsMax) refuse(`the pattern has more than ${wildcardsMax} of * or ?`);
  // Only files are results, so ** at the end means all files below.
  if (parts.at(-1) === "**") parts.push("*");
  const wild = parts.findIndex((part) => /[*?]/.test(part));
  const split = wild === -1 ? parts.length - 1 : wild;
  return { base: parts.slice(0, split), parts: parts.slice(split) };
}

/** Returns the positions at the start of a walk. */
export function firstPlaces(parts: readonly string[]): number[] {
  return skipStars(parts, [0]);
}

/**
 * Returns the positions after a name. A position at the end of the parts means a match. Wildcards do not match `.git`. `counter`
 * is for tests.
 */
export function nextPlaces(
  parts: readonly string[],
  places: readonly number[],
  name: string,
  counter?: { steps: number },
): number[] {
  const next: number[] = [];
  for (const place of places) {
    const part = parts[place];
    if (part === undefined) continue;
    if (counter) counter.steps++;
    if (isGitDirectory(name) && part !== name) continue;
    if (part === "**") next.push(place);
    else if (matchGlob(part, name, counter)) next.push(place + 1);
  }
  return skipStars(parts, next);
}

/** True if a path that ends here matches. */
export function fits(parts: readonly string[], places: readonly number[]): boolean {
  return places.includes(parts.length);
}

/** Adds the positions after each `**`, which may match no directory; without duplicates. */
function skipStars(parts: readonly string[], places: readonly number[]): number[] {
  const all = new Set<number>();
  for (const place of places) {
    let at = place;
    all.add(at);
    while (parts[at] === "**") all.add(++at);
  }
  return [...all];
}

function refuse(text: string): never {
  throw new ToolRefusal("invalid_arguments", text);
}
