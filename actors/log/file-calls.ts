import type { ToolCall } from "../../storage/tables/events.ts";

// Which files of the workspace the calls of a branch name.

const reading: ReadonlySet<string> = new Set(["read_file", "list_dir", "search_files", "glob"]);
const modifying: ReadonlySet<string> = new Set(["write_file", "edit_file", "multi_edit", "delete_file", "rename_file"]);

/** Names of files that are told of one branch; the rest is left out. */
const filesMax = 200;

/** Gathers the files that calls have read and modified, each once and in the order in which the calls are given. */
export class FileCalls {
  readonly #read = new Set<string>();
  readonly #modified = new Set<string>();
  /** Whether a call has used the workspace at all. */
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

/** A call names one file, or where it was and where it is. Its arguments are a model's. */
function pathsOf(args: unknown): string[] {
  if (args === null || typeof args !== "object") return [];
  const { path, to_path, new_path } = args as Record<string, unknown>;
  return [path, to_path, new_path].filter(
    (each) => typeof each === "string" && each !== "" && each.length <= 4096,
  ) as string[];
}
