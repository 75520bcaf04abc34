import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates a directory and its missing parents, each with owner-only rights. Throws if that fails. Node's recursive
 * mkdir never returns on file systems without directories to create, such as /proc.
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
