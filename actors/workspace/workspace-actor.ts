import { splitThreadId } from "../../bus/address.ts";
import type { Env } from "../../bus/env.ts";
import type { CheckoutKey } from "../checkouts/checkouts.ts";
import { publish, surveyOf } from "../checkouts/publication.ts";
import { closeWorktree, mergeWorktree, openWorktree } from "../checkouts/worktrees.ts";
import { defineActor } from "../runtime/define.ts";
import { deleteFile, readFile, renameFile, writeFile } from "./files.ts";
import { deleteFolder, eraseFiles, renameFolder } from "./folders.ts";
import { inPlace, type WorkspaceDeps } from "./place.ts";
import { openRepo, removeRepo, repoFiles, repoState, tidyRepo } from "./repo.ts";
import { readTree } from "./tree.ts";

/**
 * Serves the files of one thread to clients. It is placed on the node of the thread's runs, so that it and their tools lock the
 * same files.
 */
export const workspaceActor = defineActor<"workspace", null, WorkspaceDeps & { readonly env: Env }>({
  kind: "workspace",
  mailboxLimit: 32,
  // Checkouts has its own order of work on each repository.
  interleaves: [
    ...(["tree", "read", "repo_open", "repo_state", "repo_files", "repo_remove", "repo_tidy"] as const),
    ...(["repo_survey", "repo_publish", "worktree_open", "worktree_close", "worktree_merge"] as const),
  ],
  reserved: [],
  passivateAfterMs: 30_000,
  load: () => null,
  idle: () => true,
  crashed: () => {},
  on: {
    tree: (_state, asked, context) => inPlace(asked, context, (place) => readTree(place, asked.limit)),
    read: (_state, asked, context) => inPlace(asked, context, (place) => readFile(place, asked)),
    write: (_state, asked, context) => inPlace(asked, context, (place) => writeFile(place, asked)),
    delete: (_state, asked, context) => inPlace(asked, context, (place) => deleteFile(place, asked)),
    delete_folder: (_state, asked, context) => inPlace(asked, context, (place) => deleteFolder(place, asked)),
    erase: (_state, _asked, context) => eraseFiles(context),
    rename: (_state, asked, context) => inPlace(asked, context, (place) => renameFile(place, asked)),
    repo_open: (_state, asked, context) => openRepo(asked, context),
    repo_state: (_state, asked, context) => repoState(asked, context),
    repo_files: (_state, asked, context) => repoFiles(asked, context),
    repo_remove: (_state, asked, context) => removeRepo(asked, context),
    repo_tidy: (_state, _asked, context) => tidyRepo(context),
    repo_survey: (_state, asked, { key, deps }) => surveyOf(deps.checkouts, checkoutKey(key), asked),
    repo_publish: (_state, asked, { key, deps }) =>
      publish(deps.checkouts, checkoutKey(key), asked, (reference) => deps.secrets.resolve(reference)),
    worktree_open: (_state, asked, { key, deps }) => openWorktree(deps.checkouts, checkoutKey(key), asked),
    worktree_close: (_state, asked, { key, deps }) => closeWorktree(deps.checkouts, checkoutKey(key), asked),
    worktree_merge: (_state, asked, { key, deps }) => mergeWorktree(deps.checkouts, checkoutKey(key), asked),
    rename_folder: (_state, asked, context) => inPlace(asked, context, (place) => renameFolder(place, asked)),
  },
});

function checkoutKey(key: string): CheckoutKey {
  const { tenantId, suffix } = splitThreadId(key);
  return { tenantId, thread: suffix };
}
