import { hash } from "node:crypto";
import type { Foreseen, Found, ToolContext } from "../tool.ts";
import { readIfThere } from "./preview.ts";
import { ToolRefusal } from "./refusal.ts";
import { parsePath, refuseGitPaths } from "./workspace-path.ts";

/** Returns the expected effect of `change` on a file of at most `bytesMax` bytes; `change` receives null for a missing file. */
export async function foreseeChange(
  path: string,
  bytesMax: number,
  context: ToolContext,
  change: (file: Buffer | null) => Buffer | null | Promise<Buffer | null>,
): Promise<Foreseen> {
  const file = path.toLowerCase();
  try {
    const names = parsePath(path);
    refuseGitPaths(names);
    const before = await readIfThere(names, bytesMax, context);
    return { file, before: digestOf(before), after: digestOf(await change(before)) };
  } catch (error) {
    if (error instanceof ToolRefusal) return { file, before: null, after: null };
    throw error;
  }
}

/**
 * Returns whether the file has its expected content or the one before. `textOf` renders the tool's text from the number of bytes.
 */
export async function findChange(
  path: string,
  bytesMax: number,
  { before, after }: Foreseen,
  context: ToolContext,
  textOf: (bytes: number) => string,
): Promise<Found> {
  if (after === null) return null;
  try {
    const file = await readIfThere(parsePath(path), bytesMax, context);
    const digest = digestOf(file);
    if (digest === after) return { text: textOf(file?.length ?? 0) };
    return digest === before ? "not_made" : null;
  } catch (error) {
    if (error instanceof ToolRefusal) return null;
    throw error;
  }
}

function digestOf(file: Buffer | null): string | null {
  return file === null ? null : hash("sha256", file);
}
