import type { Static } from "typebox";
import type { Env } from "../../../bus/env.ts";
import { Type } from "../../../bus/type.ts";
import { eachMatch } from "./byte-search.ts";
import { ToolRefusal } from "./refusal.ts";

/** Parameters of one text replacement. */
export const editProperties = {
  old_string: Type.String({
    description:
      "The exact text to replace, with its spaces and line ends. It must be in the file once, or see replace_all.",
    minLength: 1,
  }),
  new_string: Type.String({ description: "The text to put in its place." }),
  replace_all: Type.Optional(
    Type.Boolean({ description: "True to replace every match. Otherwise more than one is refused.", default: false }),
  ),
};

const editSchema = Type.Object(editProperties);
/** One text replacement, validated. */
export type Edit = Static<typeof editSchema>;

/**
 * Returns the file's bytes after the edit. Refuses if the text is missing, occurs more than once without replace_all, or if the
 * result exceeds `bytesMax`. `label` begins each refusal.
 */
export async function applyEdit(file: Buffer, edit: Edit, bytesMax: number, label: string, env: Env): Promise<Buffer> {
  if (edit.old_string === edit.new_string)
    throw new ToolRefusal("invalid_arguments", `${label}: old_string and new_string are the same`);
  const wanted = Buffer.from(edit.old_string);
  const given = Buffer.from(edit.new_string);
  let matches = 0;
  await eachMatch(file, wanted, env, () => {
    matches++;
    return edit.replace_all === true || matches < 2;
  });
  if (matches === 0) throw new ToolRefusal("not_found", `${label}: old_string is not in the file${hint(file, wanted)}`);
  if (matches > 1 && !edit.replace_all)
    throw new ToolRefusal(
      "invalid_arguments",
      `${label}: old_string is in the file more than once: give more of the text around it, or set replace_all`,
    );
  const size = file.length + matches * (given.length - wanted.length);
  if (size > bytesMax)
    throw new ToolRefusal("invalid_arguments", `${label}: the file would have ${size} bytes and may have ${bytesMax}`);
  return await replaceMatches(file, wanted, given, size, env);
}

async function replaceMatches(file: Buffer, wanted: Buffer, given: Buffer, size: number, env: Env): Promise<Buffer> {
  const result = Buffer.allocUnsafe(size);
  let read = 0;
  let written = 0;
  await eachMatch(file, wanted, env, (at) => {
    written += file.copy(result, written, read, at);
    written += given.copy(result, written);
    read = at + wanted.length;
    return true;
  });
  file.copy(result, written, read);
  return result;
}

/** Line ends are the only cause of a missing match that a model cannot see. */
function hint(file: Buffer, wanted: Buffer): string {
  if (wanted.includes("\n") && !wanted.includes("\r\n") && file.includes("\r\n"))
    return ": the file's lines end with \\r\\n, and old_string's with \\n";
  return "";
}
