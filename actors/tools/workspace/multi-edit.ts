import { Type } from "../../../bus/type.ts";
import { defineTool, type ToolContext } from "../tool.ts";
import { applyEdit, type Edit, editProperties } from "./edit.ts";
import { rewrite } from "./edit-file.ts";
import { textBytesMax } from "./file-content.ts";
import { findChange, foreseeChange } from "./foresee.ts";
import { previewChange } from "./preview.ts";
import { answer, checkSignal } from "./refusal.ts";
import { wrote } from "./write-file.ts";

const editsMax = 50;

/** Makes several edits of one file, in order, or none of them. */
export const multiEdit = defineTool({
  name: "multi_edit",
  description:
    "Makes several edits of one file of the workspace in order, each on what the one before it left; when one is refused, none is " +
    `made. At most ${editsMax} edits; the file has at most ${textBytesMax} bytes. Paths inside .git, and .gitattributes, are refused.`,
  parameters: Type.Object(
    {
      path: Type.String({ description: "File, from the workspace's root, as in src/main.ts.", maxLength: 4096 }),
      edits: Type.Array(Type.Object(editProperties, { additionalProperties: false }), {
        description: "The edits, in the order in which they are made.",
        minItems: 1,
        maxItems: editsMax,
      }),
    },
    { additionalProperties: false },
  ),
  effect: "once",
  risk: "writes",
  workspace: true,
  execute: (args, context) =>
    answer(() => rewrite(args.path, textBytesMax, context, (file) => applyEdits(file, args, context))),
  preview: (args, context) =>
    previewChange(args.path, textBytesMax, context, (file) => file && applyEdits(file, args, context)),
  foresee: (args, context) =>
    foreseeChange(args.path, textBytesMax, context, (file) => file && applyEdits(file, args, context)),
  find: (args, foreseen, context) =>
    findChange(args.path, textBytesMax, foreseen, context, (bytes) => wrote(args.path, bytes)),
});

async function applyEdits(
  file: Buffer,
  { path, edits }: { readonly path: string; readonly edits: readonly Edit[] },
  { signal, env }: ToolContext,
): Promise<Buffer> {
  let bytes = file;
  for (const [at, edit] of edits.entries()) {
    checkSignal(signal);
    bytes = await applyEdit(bytes, edit, textBytesMax, `${path}: edit ${at + 1}`, env);
  }
  return bytes;
}
