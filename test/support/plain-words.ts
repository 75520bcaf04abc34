import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

// Counts riddles in comments, test names and documents: sentences with a bare pronoun for a subject, and idioms that the house rules
// avoid. The patterns are a measure, not a grammar. Run as a program, the file stores the current counts.

const root = new URL("../../", import.meta.url);
const stored = new URL("../plain-words.json", import.meta.url);

const verbs = {
  what: "is|are|was|were|has|have|had|comes?|came|goes|went|may|must|can|could|would|will|does|did|said|says|asks?|asked|waits?|waited|left|leaves?|needs?|stands?|takes?|took|wants?|fits?",
  who: "is|are|was|has|have|had|asks?|asked|waits?|comes?|came|goes|may|must|can|reads?|writes?|takes?|listens?|leaves?|sends?",
};

const patterns: readonly RegExp[] = [
  new RegExp(
    `(?:^|[.;:,(]\\s*|\\b(?:and|or|that|of|for|by|to|with|from|than|as|but|what|where|when|while|if|so that|is)\\s+)(?:what|whoever|whatever)\\s+(?:\\w+\\s+){0,4}?(?:${verbs.what})\\b`,
    "i",
  ),
  new RegExp(
    `(?:^|[.;:,(]\\s*|\\b(?:and|or|of|for|by|to|with|from|than|but)\\s+)who\\s+(?:\\w+\\s+){0,3}?(?:${verbs.who})\\b`,
    "i",
  ),
  /\b(?:somebody|nobody|who else|anybody)\b/i,
  /\b(?:is|are|was|were|be|been|being)\s+(?:told|put aside|taken up|held against|given back|said)\b/i,
  /\b(?:goes|go|went|going)\s+on\b/i,
  /\b(?:takes?|took|taken)\s+up\b/i,
  /\b(?:meanwhile|all the same|in the place of|of which)\b/i,
  /\b(?:stands?|stood)\s+(?:in|on|at|for|still|there|beside|behind|between)\b/i,
  /\b(?:beside|behind)\s+(?:it|them|that|this|the|a|an|what|who)\b/i,
];

/** A comment, test name or sentence that matches a pattern. */
export interface Riddle {
  readonly path: string;
  readonly line: number;
  readonly words: string;
}

/** Every riddle of the files that git tracks. The changelog and the corpus of recorded turns are left out. */
export function riddles(): Riddle[] {
  // The generated client/api.d.ts repeats the texts of routes.
  const tracked = ["*.ts", "*.md", ":!client/api.d.ts"];
  const paths = execFileSync("git", ["ls-files", ...tracked], { cwd: root, encoding: "utf8" })
    .trim()
    .split("\n");
  return paths
    .filter((path) => !/CHANGELOG|^test\/golden\//.test(path) && existsSync(new URL(path, root)))
    .flatMap((path) => prosesOf(path, readFileSync(new URL(path, root), "utf8")))
    .filter(({ words }) => patterns.some((pattern) => pattern.test(words)));
}

/** The last stored counts of riddles, by file. */
export function storedCounts(): Readonly<Record<string, number>> {
  return JSON.parse(readFileSync(stored, "utf8")) as Record<string, number>;
}

function prosesOf(path: string, text: string): Riddle[] {
  const lines = text.split("\n");
  return path.endsWith(".md") ? sentencesOf(path, lines) : [...commentsOf(path, lines), ...testNamesOf(path, lines)];
}

/** Sentences of a document outside of code, tables and headings. */
function sentencesOf(path: string, lines: readonly string[]): Riddle[] {
  const found: Riddle[] = [];
  let isCode = false;
  for (const [at, line] of lines.entries()) {
    if (/^\s*```/.test(line)) isCode = !isCode;
    else if (!isCode && !/^\s*[|#]/.test(line))
      for (const words of line.split(/(?<=[.!?])\s+/)) found.push({ path, line: at + 1, words });
  }
  return found;
}

/** Comments; adjacent lines are one comment. */
function commentsOf(path: string, lines: readonly string[]): Riddle[] {
  const found: Riddle[] = [];
  for (let at = 0; at < lines.length; at++) {
    const first = at;
    const isBlock = /^\s*\/\*/.test(lines[at] ?? "");
    if (!isBlock && !/^\s*\/\//.test(lines[at] ?? "")) continue;
    if (isBlock) while (at < lines.length - 1 && !(lines[at] ?? "").includes("*/")) at++;
    else while (/^\s*\/\//.test(lines[at + 1] ?? "")) at++;
    const words = lines.slice(first, at + 1).map((line) => line.replace(/^\s*(?:\/\/|\/?\*+\/?)\s?|\*\/\s*$/g, ""));
    found.push({ path, line: first + 1, words: words.join(" ").trim() });
  }
  return found;
}

function testNamesOf(path: string, lines: readonly string[]): Riddle[] {
  if (!path.startsWith("test/")) return [];
  return lines.flatMap((line, at) => {
    const words = /\b(?:test|it|describe)\(\s*["'`](.+?)["'`]\s*,/.exec(line)?.[1];
    return words === undefined ? [] : [{ path, line: at + 1, words }];
  });
}

if (import.meta.main) {
  const counts = new Map<string, number>();
  for (const { path } of riddles()) counts.set(path, (counts.get(path) ?? 0) + 1);
  writeFileSync(stored, `${JSON.stringify(Object.fromEntries([...counts].sort()), null, 2)}\n`);
}
