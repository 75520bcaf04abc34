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
  /** Begins to clone a repository into the checkout of the thread. */
  repo_open: { body: AskWorkspace & { readonly full_name: string; readonly ref: string | null }; reply: Checkout };
  /** Returns the state of the checkout. */
  repo_state: { body: AskWorkspace; reply: Checkout };
  /** Returns the files of the checkout. */
  repo_files: { body: AskWorkspace & { readonly prefix: string; readonly limit: number }; reply: CheckoutFiles };
  /** Deletes the checkout. Refuses with checkout_busy. */
  repo_remove: { body: AskWorkspace; reply: Record<string, never> };
  /** Deletes the files of a checkout whose clone was lost, or that was not used for long. */
  repo_tidy: { body: Record<string, never>; reply: Record<string, never> };
  /** Returns what a publication would contain. */
  repo_survey: { body: PublishSurvey; reply: RepoAnswer<PublishFacts> };
  /** Pushes a branch with the changes and opens a pull request; with `finds`, only completes what an earlier call has begun. */
  repo_publish: { body: PublishOrder; reply: RepoAnswer<Published> };
  /** Makes the worktree of a task; `isMade` is false without a repository. */
  worktree_open: { body: WorktreeOrder; reply: RepoAnswer<{ readonly isMade: boolean }> };
  /** Commits the changes of a task that has ended to its branch, and deletes its files. */
  worktree_close: { body: WorktreeOrder; reply: RepoAnswer<{ readonly branch: string | null; readonly stat: string }> };
  /** Merges the branch of a task into the files of the thread, or discards it. */
  worktree_merge: {
    body: WorktreeOrder & { readonly discard: boolean };
    reply: RepoAnswer<{ readonly stat: string; readonly conflicts: readonly string[] }>;
  };
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

/** The checkout of a thread. */
export interface Checkout {
  readonly state: "cloning" | "ready" | "failed" | "expired";
  readonly repo: string;
  readonly base: string;
  readonly private: boolean;
  readonly opened_by: string;
  readonly created_at: number;
  readonly error: string | null;
  readonly branch: string | null;
  readonly ahead: number | null;
  readonly dirty: boolean | null;
}

/** The files of a checkout. */
export interface CheckoutFiles {
  readonly state: "ready" | "failed" | "expired";
  readonly files: readonly CheckoutFile[];
  readonly truncated: boolean;
}

/** A file of a checkout. */
export interface CheckoutFile {
  readonly path: string;
  readonly kind: "file" | "symlink" | "missing";
  readonly size: number | null;
  readonly status: "clean" | "modified" | "added" | "deleted" | "untracked" | "conflicted";
}

/** The answer of work for a tool: a value, or a refusal in words for the model. */
export type RepoAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      readonly code: "not_found" | "permission_denied" | "invalid_arguments" | "provider_error" | "rate_limited";
      readonly text: string;
    };

/** A question about a publication. */
export interface PublishSurvey {
  /** The repository that the manifest names; null for that of the thread. */
  readonly repo: string | null;
  readonly allow_workflows: boolean;
}

/** The facts to which the approval of a publication is bound. */
export interface PublishFacts {
  readonly repo: string;
  /** The commit on which the changes are based. */
  readonly base_commit: string;
  /** The files, as a tree of git. */
  readonly tree: string;
  /** The lines that files have gained and lost, and the first lines of the changes. */
  readonly preview: string;
}

/** A publication. */
export interface PublishOrder extends PublishSurvey {
  /** The key of the call. */
  readonly key: string;
  readonly principal: Principal;
  readonly manifest: string;
  /** Reference to the token for callers without a connection, as secret:NAME. */
  readonly auth: string;
  /** The branch that the pull request is for. */
  readonly base: string;
  readonly branch: string;
  readonly title: string;
  readonly body: string;
  readonly draft: boolean;
  readonly base_commit: string;
  readonly tree: string;
  /** True for a call that was interrupted: it completes what it has begun, and begins nothing. */
  readonly finds: boolean;
}

/** A pull request, or nothing for a call that has begun none. */
export interface Published {
  readonly branch: string;
  readonly commit: string;
  readonly url: string;
  readonly number: number;
}

/** A task with a worktree. */
export interface WorktreeOrder {
  readonly task_id: string;
}

/** The contents of a workspace. */
export interface WorkspaceTree {
  readonly root_kind: "scoped" | "checkout";
  /** Null for a checkout. */
  readonly scope: "thread" | "tenant" | "deployment" | null;
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
