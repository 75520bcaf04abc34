import { statSync } from "node:fs";
import { SvcError } from "../../bus/errors.ts";

/**
 * Detects that open files were removed or replaced. Such a file can still be written, but the data is lost, and another
 * process on the same path does not see this one.
 */
export class OwnFiles {
  readonly #found: readonly { readonly path: string; readonly identity: string }[];

  constructor(paths: readonly string[]) {
    this.#found = paths.map((path) => ({ path, identity: identityOf(path) }));
  }

  /**
   * Refuses with storage_unavailable if a path no longer names the file that was opened. Costs two microseconds per
   * path.
   */
  check(): void {
    for (const { path, identity } of this.#found)
      if (identityOf(path) !== identity)
        throw new SvcError("storage_unavailable", {}, { cause: new Error(`${path} was removed or replaced`) });
  }
}

/**
 * Returns device and inode of a file, or "" if absent. Uses stat and not open, because closing a file releases the
 * locks of the process on it.
 */
function identityOf(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats ? `${stats.dev}:${stats.ino}` : "";
}
