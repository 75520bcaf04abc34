import type { ToolCall } from "../../storage/tables/events.ts";

// Collects the workspace files that the calls of a branch name.

const reading: ReadonlySet<string> = new Set(["read_file", "list_dir", "search_files", "glob"]);
const modifying: ReadonlySet<string> = new Set(["write_file", "edit_file", "multi_edit", "delete_file", "rename_file"]);

/** Max file names reported for one branch. */
const filesMax = 200;

/** Collects the files that calls read and modified, without duplicates, in the order of the calls. */
export class FileCalls {
  readonly #read = new Set<string>();
  readonly #modified = new Set<string>();
  /** True if a call used the workspace. */
  used = false;

  take(calls: readonly ToolCall[]): void {
    for (const { name, args } of calls) {
      const modifies = modifying.has(name);
      if (!modifies && !reading.has(name)) continue;
      this.used = true;
      if (!modifies && name !== "read_file") continue;
      for (const path of pathsOf(args)) (modifies ? this.#modified : this.#read).add(path);
    }
  }

  get readFiles(): string[] {
    return [...this.#read].slice(0, filesMax);
  }

  get modifiedFiles(): string[] {
    return [...this.#modified].slice(0, filesMax);
  }
}

/** Returns the paths of a call: one file, or source and target. A model wrote the arguments, so any type is possible. */
function pathsOf(args: unknown): string[] {
  if (args === null || typeof args !== "object") return [];
  const { path, to_path, new_path } = args as Record<string, unknown>;
  return [path, to_path, new_path].filter(
    (each) => typeof each === "string" && each !== "" && each.length <= 4096,
  ) as string[];
}
