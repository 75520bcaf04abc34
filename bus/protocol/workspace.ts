import type { Principal } from "./principal.ts";

/**
 * Messages to the workspace of one thread, by which users view and change files between its runs. Paths have the same
 * form as in tools. All refuse with workspace_not_configured, workspace_unavailable, workspace_io_error, invalid_path,
 * reserved_path and not_found, and if the manifest is invalid.
 */
export interface WorkspaceMessages {
  /** Returns the entries, up to a limit. */
  tree: { body: AskWorkspace & { readonly limit: number }; reply: WorkspaceTree };
  /** Returns a file's content. Refuses with not_a_file and too_large. */
  read: { body: AskFile; reply: WorkspaceFile };
  /** Creates or replaces a file, with its missing folders. Refuses with not_a_file, too_large and workspace_changed. */
  write: {
    body: ChangeFile & { readonly content: string };
    reply: { readonly bytes: number; readonly sha256: string };
  };
  /** Deletes a file. Refuses with not_a_file and workspace_changed. */
  delete: { body: ChangeFile; reply: Record<string, never> };
  /**
   * Deletes a folder with its contents; returns the number of files. Refuses with not_a_folder and workspace_changed.
   */
  delete_folder: { body: AskFile; reply: { readonly files: number } };
  /**
   * Deletes all files that belong to the thread alone, before the thread is deleted. Refuses with workspace_io_error
   * only.
   */
  erase: { body: Record<string, never>; reply: Record<string, never> };
  /** Moves a file. Refuses with not_a_file, target_exists and workspace_changed. */
  rename: { body: ChangeFile & { readonly to_path: string }; reply: { readonly sha256: string | null } };
  /** Moves a folder. Refuses with not_a_folder and target_exists. */
  rename_folder: { body: AskFile & { readonly to_path: string }; reply: Record<string, never> };
}

/** The workspace and the caller of a request. */
export interface AskWorkspace {
  /** The manifest that locates the files, for a thread that has not run yet; null for none. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** A request about a path. */
export interface AskFile extends AskWorkspace {
  readonly path: string;
}

/** A change of a file, optionally only of a known version. */
export interface ChangeFile extends AskFile {
  /** In lower case; null to accept any version, or none. */
  readonly expected_sha256: string | null;
}

/** The contents of a workspace. */
export interface WorkspaceTree {
  readonly scope: "thread" | "tenant" | "deployment";
  readonly manifest: string | null;
  /** Each folder precedes its contents. */
  readonly entries: readonly WorkspaceEntry[];
  /** True if there are more entries. */
  readonly truncated: boolean;
}

/** A file or folder of a workspace. */
export type WorkspaceEntry =
  | { readonly path: string; readonly type: "dir" }
  | { readonly path: string; readonly type: "file"; readonly bytes: number };

/** A file and its content. */
export interface WorkspaceFile {
  readonly bytes: number;
  readonly sha256: string;
  readonly encoding: "utf-8" | "base64";
  readonly content: string;
}
