import type { Principal } from "./principal.ts";

/**
 * The files of one conversation, as people see and change them beside its runs. Paths are those that tools take. All refuse with
 * workspace_not_configured, workspace_unavailable, workspace_io_error, invalid_path, reserved_path, not_found, and with what the manifest is
 * refused with.
 */
export interface WorkspaceMessages {
  /** What there is, as far as a request looks. */
  tree: { body: AskWorkspace & { readonly limit: number }; reply: WorkspaceTree };
  /** A file's content. Refuses with not_a_file and too_large. */
  read: { body: AskFile; reply: WorkspaceFile };
  /** Creates or replaces a file, with the folders that it needs. Refuses with not_a_file, too_large and workspace_changed. */
  write: {
    body: ChangeFile & { readonly content: string };
    reply: { readonly bytes: number; readonly sha256: string };
  };
  /** Deletes a file. Refuses with not_a_file and workspace_changed. */
  delete: { body: ChangeFile; reply: Record<string, never> };
  /** Deletes a folder with everything in it, and says how many files that were. Refuses with not_a_folder and workspace_changed. */
  delete_folder: { body: AskFile; reply: { readonly files: number } };
  /** Deletes all files that are the conversation's alone: it is about to be deleted. Refuses with workspace_io_error and nothing else. */
  erase: { body: Record<string, never>; reply: Record<string, never> };
  /** Moves a file. Refuses with not_a_file, target_exists and workspace_changed. */
  rename: { body: ChangeFile & { readonly to_path: string }; reply: { readonly sha256: string | null } };
  /** Moves a folder. Refuses with not_a_folder and target_exists. */
  rename_folder: { body: AskFile & { readonly to_path: string }; reply: Record<string, never> };
}

/** Whose workspace is meant, and who asks. */
export interface AskWorkspace {
  /** The manifest that says where the files are, while the conversation has run under none; null for none. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** What is asked about something under a path. */
export interface AskFile extends AskWorkspace {
  readonly path: string;
}

/** A change of a file that may have to be the one that somebody has seen. */
export interface ChangeFile extends AskFile {
  /** In small letters; null for any file, or none. */
  readonly expected_sha256: string | null;
}

/** What there is in a workspace. */
export interface WorkspaceTree {
  readonly scope: "thread" | "tenant" | "deployment";
  readonly manifest: string | null;
  /** Each folder before what is in it. */
  readonly entries: readonly WorkspaceEntry[];
  /** There is more. */
  readonly truncated: boolean;
}

/** Something in a workspace. */
export type WorkspaceEntry =
  | { readonly path: string; readonly type: "dir" }
  | { readonly path: string; readonly type: "file"; readonly bytes: number };

/** A file as it is. */
export interface WorkspaceFile {
  readonly bytes: number;
  readonly sha256: string;
  readonly encoding: "utf-8" | "base64";
  readonly content: string;
}
