import { Type } from "../../../bus/type.ts";
import { defineTool } from "../tool.ts";
import { decodeText, readAtMost, readLines, textBytesMax } from "./file-content.ts";
import { answer, ToolRefusal } from "./refusal.ts";
import { inParent } from "./workspace.ts";
import { parsePath } from "./workspace-path.ts";

/** Returns the text of a file, or of a range of its lines. */
export const readFile = defineTool({
  name: "read_file",
  description:
    `Reads a text file of the workspace. A file over ${textBytesMax} bytes is read in windows of lines, with offset and limit; ` +
    `a window over ${textBytesMax} bytes is cut there and says so in its last line.`,
  parameters: Type.Object(
    {
      path: Type.String({ description: "File, from the workspace's root, as in src/main.ts.", maxLength: 4096 }),
      offset: Type.Optional(
        Type.Integer({ description: "First line to read; lines count from 1.", minimum: 1, maximum: 1_000_000_000 }),
      ),
      limit: Type.Optional(
        Type.Integer({ description: "How many lines to read.", minimum: 1, maximum: 1_000_000_000 }),
      ),
    },
    { additionalProperties: false },
  ),
  effect: "read",
  risk: "reads",
  workspace: true,
  execute: (args, context) =>
    answer(
      () =>
        inParent(context, parsePath(args.path), false, async (directory, name) => {
          const { handle, stats } = await directory.file(name);
          try {
            if (args.offset === undefined && args.limit === undefined) {
              const bytes = await readAtMost(handle, textBytesMax);
              if (bytes === null)
                throw new ToolRefusal(
                  "invalid_arguments",
                  `${args.path}: has ${stats.size} bytes and at most ${textBytesMax} are read at once: give offset and limit`,
                );
              return decodeText(bytes, args.path, false);
            }
            const lines = await readLines(
              handle,
              args.offset ?? 1,
              args.limit ?? Number.POSITIVE_INFINITY,
              textBytesMax,
              context.signal,
            );
            const text = decodeText(lines.bytes, args.path, !lines.complete);
            return lines.complete ? text : `${text}\n[truncated at ${textBytesMax} bytes]`;
          } finally {
            await handle.close();
          }
        }),
      "file",
    ),
});
