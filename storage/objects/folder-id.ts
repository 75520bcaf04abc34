import { link, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { flushFolder, writeDurably } from "./durable-files.ts";

/**
 * Returns the id in a file of a folder, which is created with the id `fresh` if it is absent. Of several processes on a
 * shared folder, one creates it, and all return its id. `drafts` is a folder on the same file system.
 */
export async function identifyFolder(folder: string, name: string, fresh: string, drafts: string): Promise<string> {
  const file = join(folder, name);
  const draft = join(drafts, fresh);
  const found = await readFile(file, "utf8").catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  });
  if (found !== null) return found.trim();
  await writeDurably(draft, Buffer.from(`${fresh}\n`));
  try {
    // Unlike a rename, a link never replaces the file of another process.
    await link(draft, file);
    await flushFolder(folder);
    return fresh;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    return (await readFile(file, "utf8")).trim();
  } finally {
    await unlink(draft).catch(() => {});
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "";
}
