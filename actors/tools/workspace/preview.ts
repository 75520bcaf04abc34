import type { ToolContext } from "../tool.ts";
import { readAtMost } from "./file-content.ts";
import { ToolRefusal } from "./refusal.ts";
import { unifiedDiff } from "./unified-diff.ts";
import { inParent } from "./workspace.ts";
import { parsePath, refuseGitPaths } from "./workspace-path.ts";

/**
 * What a call would make of a file, as a unified diff for a person to read. Null where the call would be refused, or the file is no
 * text: then there is nothing to show. `change` is given null for a file that is not there.
 */
export async function previewChange(
  path: string,
  bytesMax: number,
  context: ToolContext,
  change: (file: Buffer | null) => Buffer | null | Promise<Buffer | null>,
): Promise<string | null> {
  try {
    const names = parsePath(path);
    refuseGitPaths(names);
    const before = await readIfThere(names, bytesMax, context);
    const after = await change(before);
    if (after === null || before?.includes(0) || after.includes(0)) return null;
    return unifiedDiff(path, before?.toString("utf8") ?? null, after.toString("utf8"));
  } catch (error) {
    if (error instanceof ToolRefusal) return null;
    throw error;
  }
}

/** The bytes of a file, null for one that is not there. Refuses what has more than `bytesMax`. */
export async function readIfThere(names: string[], bytesMax: number, context: ToolContext): Promise<Buffer | null> {
  try {
    return await inParent(context, names, false, async (directory, name) => {
      const { handle } = await directory.file(name);
      try {
        const bytes = await readAtMost(handle, bytesMax);
        if (bytes === null) throw new ToolRefusal("invalid_arguments", "too large to be shown");
        return bytes;
      } finally {
        await handle.close();
      }
    });
  } catch (error) {
    if (error instanceof ToolRefusal && error.code === "not_found") return null;
    throw error;
  }
}
