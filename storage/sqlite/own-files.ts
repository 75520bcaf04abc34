import { statSync } from "node:fs";
import { SvcError } from "../../bus/errors.ts";

/**
 * Files that are in use, as they were found. One that is removed or replaced stays open and can still be written to, but what is
 * written is lost, and whoever starts on the path does not know of us.
 */
export class OwnFiles {
  readonly #found: readonly { readonly path: string; readonly identity: string }[];

  constructor(paths: readonly string[]) {
    this.#found = paths.map((path) => ({ path, identity: identityOf(path) }));
  }

  /** Refuses with storage_unavailable when at one of the paths is not what was there at first. Costs two microseconds for each. */
  check(): void {
    for (const { path, identity } of this.#found)
      if (identityOf(path) !== identity)
        throw new SvcError("storage_unavailable", {}, { cause: new Error(`${path} was removed or replaced`) });
  }
}

/** What tells a file from others, empty for none. Not found by opening: a file that is closed loses the locks of its process. */
function identityOf(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats ? `${stats.dev}:${stats.ino}` : "";
}
