import { Type } from "../../../bus/type.ts";
import { defineTool, type ToolContext } from "../tool.ts";
import { applyEdit, editProperties } from "./edit.ts";
import { readAtMost, textBytesMax } from "./file-content.ts";
import { findChange, foreseeChange } from "./foresee.ts";
import { previewChange } from "./preview.ts";
import { answer, checkSignal, ToolRefusal } from "./refusal.ts";
import { alone, inParent } from "./workspace.ts";
import { parsePath, refuseGitPaths } from "./workspace-path.ts";
import { wrote } from "./write-file.ts";

const fileBytesMax = 4_000_000;

/** Replaces text in a file and leaves every other byte unchanged. */
export const editFile = defineTool({
  name: "edit_file",
  description:
    "Replaces one exact text in a file of the workspace; every other byte stays. Refused when the text is not there, or is there more " +
    `than once without replace_all. The file has at most ${fileBytesMax} bytes. Paths inside .git, and .gitattributes, are refused.`,
  parameters: Type.Object(
    {
      path: Type.String({ description: "File, from the workspace's root, as in src/main.ts.", maxLength: 4096 }),
      ...editProperties,
    },
    { additionalProperties: false },
  ),
  effect: "once",
  risk: "writes",
  workspace: true,
  execute: (args, context) =>
    answer(() =>
      rewrite(args.path, fileBytesMax, context, (file) => applyEdit(file, args, fileBytesMax, args.path, context.env)),
    ),
  preview: (args, context) =>
    previewChange(
      args.path,
      textBytesMax,
      context,
      (file) => file && applyEdit(file, args, fileBytesMax, args.path, context.env),
    ),
  foresee: (args, context) =>
    foreseeChange(
      args.path,
      fileBytesMax,
      context,
      (file) => file && applyEdit(file, args, fileBytesMax, args.path, context.env),
    ),
  find: (args, foreseen, context) =>
    findChange(args.path, fileBytesMax, foreseen, context, (bytes) => wrote(args.path, bytes)),
});

/** Replaces the content of a file of at most `bytesMax` bytes by the result of `change`. Returns the tool's text. */
export async function rewrite(
  path: string,
  bytesMax: number,
  context: ToolContext,
  change: (file: Buffer) => Promise<Buffer>,
): Promise<string> {
  const names = parsePath(path);
  refuseGitPaths(names);
  checkSignal(context.signal);
  return await alone(context, names, () =>
    inParent(context, names, false, async (directory, name) => {
      const { handle, stats } = await directory.file(name);
      let file: Buffer | null;
      try {
        file = await readAtMost(handle, bytesMax);
      } finally {
        await handle.close();
      }
      if (file === null)
        throw new ToolRefusal("invalid_arguments", `${path}: has ${stats.size} bytes and may have ${bytesMax}`);
      const bytes = await change(file);
      checkSignal(context.signal);
      await directory.replace(name, bytes, stats, context.env.id());
      return wrote(path, bytes.length);
    }),
  );
}
