import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes sure that there is a directory, for its owner alone where it is made, and makes those above it that are missing. Throws
 * where it cannot be made; Node's own way of making several tries for ever on a file system that takes none, as /proc.
 */
export function makeDirectories(path: string): void {
  const above = dirname(path);
  if (above !== path && !isDirectory(above)) makeDirectories(above);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!isDirectory(path)) throw error;
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
