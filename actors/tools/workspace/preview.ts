import type { ToolContext } from "../tool.ts";
import { readAtMost } from "./file-content.ts";
import { ToolRefusal } from "./refusal.ts";
import { unifiedDiff } from "./unified-diff.ts";
import { inParent } from "./workspace.ts";
import { parsePath, refuseGitPaths } from "./workspace-path.ts";

/**
 * Returns the effect of a call on a file as a unified diff for a person. Null if the call would be refused or the file is
 * binary. `change` receives null for a missing file.
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

/** Returns the bytes of a file; null if it is missing. Refuses more than `bytesMax` bytes. */
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
