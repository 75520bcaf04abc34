import { Type } from "../../../bus/type.ts";
import { defineTool } from "../tool.ts";
import { firstPlaces, fits, nextPlaces, parsePattern } from "./path-pattern.ts";
import { answer, ToolRefusal } from "./refusal.ts";
import { Survey } from "./survey.ts";
import { walk } from "./walk.ts";
import { inDirectory } from "./workspace.ts";
import { parseDirectoryPath } from "./workspace-path.ts";

const resultsMax = 500;

/** Finds files by their paths. */
export const glob = defineTool({
  name: "glob",
  description:
    "Finds files of the workspace whose path fits a pattern: * is any characters of one name, ? is one of them, and ** as a whole name " +
    "is any number of directories, as in src/**/*.ts. Gives one path a line, sorted. Links are passed by, and so is .git unless the " +
    "pattern names it. A pattern has at most 8 of * and ? and 4 of **.",
  parameters: Type.Object(
    {
      pattern: Type.String({
        description: "The pattern, from path on: without a leading slash, .. , braces and brackets.",
        minLength: 1,
        maxLength: 1024,
      }),
      path: Type.Optional(
        Type.String({ description: "Directory to search. Leave it out for the workspace's root.", maxLength: 4096 }),
      ),
      max_results: Type.Optional(
        Type.Integer({
          description: `How many paths to give at most; ${resultsMax} when left out.`,
          minimum: 1,
          maximum: resultsMax,
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
      const { base, parts } = parsePattern(args.pattern);
      const names = [...parseDirectoryPath(args.path), ...parseDirectoryPath(base.join("/"))];
      const max = args.max_results ?? resultsMax;
      const found: string[] = [];
      const survey = new Survey(context);
      const search = inDirectory(context, names, false, async (directory) => {
        if (directory === null) return;
        const walker = {
          enter(name: string, places: readonly number[]) {
            const next = nextPlaces(parts, places, name);
            return next.some((place) => place < parts.length) ? next : null;
          },
          file(label: string, name: string, places: readonly number[]) {
            if (fits(parts, nextPlaces(parts, places, name))) found.push(label);
            return found.length <= max;
          },
        };
        await walk(directory, firstPlaces(parts), walker, survey);
      });
      // A pattern whose fixed part names a missing directory has no matches, like any other.
      await search.catch((error) => {
        if (base.length === 0 || !(error instanceof ToolRefusal) || error.code !== "not_found") throw error;
      });
      const lines = found.slice(0, max).sort();
      if (found.length > max) lines.push(`[truncated at ${max}]`);
      lines.push(...survey.skipped("give a path"));
      return lines.length === 0 ? "[no matches]" : lines.join("\n");
    }),
});
