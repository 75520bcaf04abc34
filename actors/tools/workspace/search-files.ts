import { Type } from "../../../bus/type.ts";
import { defineTool } from "../tool.ts";
import type { Directory } from "./directory.ts";
import { readAtMost } from "./file-content.ts";
import { answer, ToolRefusal } from "./refusal.ts";
import { Survey } from "./survey.ts";
import { literalQuery, queryCharsMax, regexQuery, type TextQuery } from "./text-query.ts";
import { passBy, walk } from "./walk.ts";
import { inDirectory, inParent } from "./workspace.ts";
import { isGitDirectory, parseDirectoryPath } from "./workspace-path.ts";

const hitsMax = 50;
const fileBytesMax = 256_000;
/** Max steps of a regular expression on one line, about 5 ms at worst; the rest of a longer line is not searched. */
const stepsPerLineMax = 75_000;
/** Max characters of a line in a hit. */
const shownCharsMax = 300;
/** Steps between two yields to the event loop, and in the whole call. */
const stepsPerTurn = stepsPerLineMax;
const stepsMax = 400_000_000;
/** Fixed cost of a line in steps. */
const lineSteps = 50;

interface Search {
  readonly query: TextQuery;
  readonly regex: boolean;
  readonly hits: string[];
  readonly max: number;
  readonly survey: Survey;
  steps: number;
  stepsAtTurn: number;
  largeFiles: number;
  longLines: number;
}

/** Finds lines of text in files. */
export const searchFiles = defineTool({
  name: "search_files",
  description:
    "Searches the lines of the workspace's text files for a text (case counts), or for a regular expression of RE2's syntax. Gives " +
    `\`path:line: text\` for each hit, at most ${hitsMax}. Passes by files over ${fileBytesMax} bytes, files that are not text, links, and .git.`,
  parameters: Type.Object(
    {
      query: Type.String({
        description: "The text to find within a line, or the regular expression.",
        minLength: 1,
        maxLength: queryCharsMax,
      }),
      path: Type.Optional(
        Type.String({
          description: "Directory or file to search. Leave it out for the whole workspace.",
          maxLength: 4096,
        }),
      ),
      regex: Type.Optional(
        Type.Boolean({
          description: "True when query is a regular expression; begin it with (?i) to ignore case.",
          default: false,
        }),
      ),
      max_hits: Type.Optional(
        Type.Integer({
          description: `How many hits to give at most; ${hitsMax} when left out.`,
          minimum: 1,
          maximum: hitsMax,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  effect: "read",
  risk: "reads",
  workspace: true,
  execute: (args, context) =>
    answer(async () => {
      const names = parseDirectoryPath(args.path);
      const regex = args.regex === true;
      const query = regex ? await regexQuery(args.query) : literalQuery(args.query);
      const max = args.max_hits ?? hitsMax;
      const counts = { steps: 0, stepsAtTurn: 0, largeFiles: 0, longLines: 0 };
      const survey = new Survey(context);
      const search: Search = { query, regex, hits: [], max, survey, ...counts };
      const below = async (directory: Directory | null) => {
        if (directory === null) return;
        const walker = {
          enter: (name: string) => (isGitDirectory(name) ? null : true),
          file: async (label: string, name: string, _carried: true, holder: Directory) => {
            await searchFile(search, holder, name, label).catch(passBy);
            survey.checkSignal();
            return isOpen(search);
          },
        };
        await walk(directory, true, walker, survey);
      };
      if (names.length === 0) await inDirectory(context, names, false, below);
      else
        await inParent(context, names, false, async (parent, name) => {
          if ((await parent.look(name))?.isFile()) return await searchOneFile(search, parent, name);
          const directory = await parent.directory(name);
          try {
            await below(directory);
          } finally {
            await directory.close();
          }
        });
      return [...report(search), ...survey.skipped("give a path")].join("\n");
    }, "file"),
});

async function searchOneFile(search: Search, parent: Directory, name: string): Promise<void> {
  const label = parent.labelOf(name);
  await searchFile(search, parent, name, label);
  if (search.largeFiles > 0)
    throw new ToolRefusal("invalid_arguments", `${label}: has over ${fileBytesMax} bytes: read it in windows instead`);
}

/** Adds the hits in one file. */
async function searchFile(search: Search, directory: Directory, name: string, label: string): Promise<void> {
  const { handle, stats } = await directory.file(name);
  let bytes: Buffer | null = null;
  try {
    if (stats.size <= fileBytesMax) bytes = await readAtMost(handle, fileBytesMax);
  } finally {
    await handle.close();
  }
  if (bytes === null) search.largeFiles++;
  else if (bytes.includes(0)) return;
  else if (search.regex) await searchLines(search, bytes.toString(), label);
  else searchText(search, bytes.toString(), label);
}

/** Searches for a literal: over the whole text, computing line numbers only for matches. */
function searchText(search: Search, text: string, label: string): void {
  search.steps += text.length;
  let line = 1;
  let lineStart = 0;
  let from = 0;
  while (from < text.length && search.hits.length <= search.max) {
    const found = search.query.find(from === 0 ? text : text.slice(from));
    if (found === -1) return;
    const at = from + found;
    for (let next = text.indexOf("\n", lineStart); next !== -1 && next < at; next = text.indexOf("\n", lineStart)) {
      line++;
      lineStart = next + 1;
    }
    const end = lineEnd(text, at);
    addHit(search, label, line, text.slice(lineStart, end), at - lineStart);
    from = end + 1;
  }
}

/** Searches for a regular expression line by line, yielding in between. */
async function searchLines(search: Search, text: string, label: string): Promise<void> {
  const charsMax = lineCharsMax(search.query);
  let line = 0;
  for (let start = 0; start < text.length && isOpen(search); ) {
    line++;
    const end = lineEnd(text, start);
    const whole = text.slice(start, text[end - 1] === "\r" && end > start ? end - 1 : end);
    const seen = whole.length > charsMax ? whole.slice(0, charsMax) : whole;
    if (seen !== whole) search.longLines++;
    const steps = lineSteps + seen.length * search.query.stepsPerChar;
    if (search.steps + steps - search.stepsAtTurn > stepsPerTurn) {
      search.stepsAtTurn = search.steps;
      await search.survey.breathe();
    }
    search.steps += steps;
    const at = search.query.find(seen);
    if (at !== -1) addHit(search, label, line, whole, at);
    start = end + 1;
  }
}

function lineCharsMax(query: TextQuery): number {
  return Math.floor(stepsPerLineMax / query.stepsPerChar);
}

/** False if there are enough hits or the work limit is reached. */
function isOpen(search: Search): boolean {
  return search.hits.length <= search.max && search.steps < stepsMax && !search.survey.isOver();
}

function addHit(search: Search, label: string, line: number, text: string, at: number): void {
  const start = text.length <= shownCharsMax ? 0 : Math.max(0, Math.min(at - 100, text.length - shownCharsMax));
  const end = Math.min(text.length, start + shownCharsMax);
  const shown = text
    .slice(start, end)
    .toWellFormed()
    .replace(/[^\P{Cc}\t]/gu, " ")
    .trimEnd();
  search.hits.push(`${label}:${line}: ${start > 0 ? "…" : ""}${shown}${end < text.length ? "…" : ""}`);
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}

/** Returns the hits and notes about what was not searched. */
function report(search: Search): string[] {
  const lines = search.hits.slice(0, search.max);
  if (lines.length === 0) lines.push("[no matches]");
  if (search.hits.length > search.max) lines.push(`[truncated at ${search.max} hits]`);
  if (search.steps >= stepsMax) lines.push("[stopped: too much text for one search: give a path]");
  if (search.largeFiles > 0) lines.push(`[passed by files over ${fileBytesMax} bytes: ${search.largeFiles}]`);
  if (search.longLines > 0)
    lines.push(`[searched only the first ${lineCharsMax(search.query)} characters of long lines: ${search.longLines}]`);
  return lines;
}
