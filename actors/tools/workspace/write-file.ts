import { Type } from "../../../bus/type.ts";
import { defineTool } from "../tool.ts";
import { refuseUnlessOwnFile } from "./directory.ts";
import { readAtMost, textBytesMax } from "./file-content.ts";
import { findChange, foreseeChange } from "./foresee.ts";
import { previewChange } from "./preview.ts";
import { answer, checkSignal, ToolRefusal } from "./refusal.ts";
import { alone, inParent } from "./workspace.ts";
import { parsePath, refuseGitPaths } from "./workspace-path.ts";

/** Creates or replaces a file, or appends to it. Its declared effect is that of appending, the stricter one. */
export const writeFile = defineTool({
  name: "write_file",
  description:
    "Creates or replaces a text file of the workspace, with the directories that it needs. With append, adds to its end. " +
    `The file has at most ${textBytesMax} bytes afterwards. Paths inside .git, and .gitattributes, are refused.`,
  parameters: Type.Object(
    {
      path: Type.String({ description: "File, from the workspace's root, as in src/main.ts.", maxLength: 4096 }),
      content: Type.String({ description: "The whole text, or the text to add." }),
      append: Type.Optional(
        Type.Boolean({ description: "True to add to the end of the file and keep what it has.", default: false }),
      ),
    },
    { additionalProperties: false },
  ),
  effect: "once",
  risk: "writes",
  workspace: true,
  execute: (args, context) =>
    answer(async () => {
      const names = parsePath(args.path);
      refuseGitPaths(names);
      const added = Buffer.from(args.content);
      refuseOver(added.length, args.path);
      checkSignal(context.signal);
      return await alone(context, names, () =>
        inParent(context, names, true, async (directory, name) => {
          const before = await directory.look(name);
          if (before !== null) refuseUnlessOwnFile(before, directory.labelOf(name));
          if (before === null || !args.append) {
            await directory.replace(name, added, before, context.env.id());
            return wrote(args.path, added.length);
          }
          const { handle, stats } = await directory.file(name);
          let old: Buffer | null;
          try {
            old = await readAtMost(handle, textBytesMax);
          } finally {
            await handle.close();
          }
          if (old === null) refuseOver(Number(stats.size) + added.length, args.path);
          const bytes = Buffer.concat([old as Buffer, added]);
          refuseOver(bytes.length, args.path);
          await directory.replace(name, bytes, stats, context.env.id());
          return wrote(args.path, bytes.length);
        }),
      );
    }),
  preview: (args, context) => previewChange(args.path, textBytesMax, context, (file) => written(file, args)),
  foresee: (args, context) => foreseeChange(args.path, textBytesMax, context, (file) => written(file, args)),
  find: (args, foreseen, context) =>
    findChange(args.path, textBytesMax, foreseen, context, (bytes) => wrote(args.path, bytes)),
});

/** Returns the file's content after a call; `file` is null for a missing file. */
function written(file: Buffer | null, { content, append }: { content: string; append?: boolean }): Buffer {
  return Buffer.concat(append && file !== null ? [file, Buffer.from(content)] : [Buffer.from(content)]);
}

/** Returns the text of a tool that wrote a file. */
export function wrote(path: string, bytes: number): string {
  return `wrote ${path} (${bytes} bytes)`;
}

function refuseOver(bytes: number, path: string): void {
  if (bytes > textBytesMax)
    throw new ToolRefusal("invalid_arguments", `${path}: would have ${bytes} bytes and may have ${textBytesMax}`);
}
