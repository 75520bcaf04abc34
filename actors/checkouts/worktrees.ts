import { mkdir, rename, rm } from "node:fs/promises";
import { taskSuffix } from "../../bus/address.ts";
import type { RepoAnswer, WorktreeOrder } from "../../bus/protocol/workspace.ts";
import {
  type CheckoutRow,
  checkoutOf,
  checkoutsOfRoot,
  deleteCheckoutOp,
  openWorktreeOp,
  setCheckoutStateOp,
  worktreesMax,
} from "../../storage/tables/repo-checkouts.ts";
import type { CheckoutKey, Checkouts, OpenCheckout } from "./checkouts.ts";
import { asideEnd, type CheckoutFolders, foldersOf, makeParent } from "./folders.ts";
import { answered, refused } from "./publication.ts";
import { diffStat, treeOf } from "./work-tree.ts";
import { writeChanges } from "./write-changes.ts";

// A task in a worktree works on files of its own, which begin as those of the run that starts it (decision 257). Its changes become one
// commit on svc/task/<id>, which that run merges or discards. A worktree of git would have a `.git` file, so this is another folder with an
// index of its own.

const author = { name: "svc", email: "svc@localhost" };

/** Returns the branch of a task. */
function taskBranch(taskId: string): string {
  return `svc/task/${taskId}`;
}

const refOf = (taskId: string): string => `refs/heads/${taskBranch(taskId)}`;
/** The commit with the files with which a task begins. */
const startOf = (taskId: string): string => `refs/svc/start/${taskId}`;

/** Makes the worktree of a task. `isMade` is false if the thread has no repository. */
export async function openWorktree(
  checkouts: Checkouts,
  key: CheckoutKey,
  { task_id }: WorktreeOrder,
): Promise<RepoAnswer<{ readonly isMade: boolean }>> {
  const own = checkouts.deps.store.tenant(key.tenantId);
  if ((await checkoutOf(own, key.thread)) === undefined) return { ok: true, value: { isMade: false } };
  return answered(checkouts, key, async (open) => {
    const { row: root } = open;
    if (root.root !== root.thread) return refused("permission_denied", "a task in a worktree begins no other worktree");
    const { git, deps } = checkouts;
    // A run that was interrupted starts its task again. A worktree that was not whole by then is made anew.
    const old = await rowOf(checkouts, key, task_id);
    if (old !== undefined && old.state !== "opening") return { ok: true, value: { isMade: true } };
    if (old !== undefined) await dropWorktree(checkouts, key, open, old, task_id);
    const now = deps.env.now();
    const row: CheckoutRow = {
      ...root,
      ...{ thread: taskSuffix(task_id), state: "opening", branch: taskBranch(task_id), published: null },
      ...{ checkout_id: deps.env.id(), created_at: now, used_at: now },
    };
    // All worktrees of the thread are made by this actor, one after the other.
    if ((await checkoutsOfRoot(own, root.thread)).length > worktreesMax)
      return refused(
        "rate_limited",
        `${worktreesMax} tasks of this conversation hold work; merge or discard one with merge_task first`,
      );
    await own.write([openWorktreeOp(own, row)]);
    const folders = foldersOf(key.tenantId, row, root, deps.settings);
    try {
      const start = await startCommit(checkouts, open, now);
      await git.run(open.folders, ["update-ref", startOf(task_id), start]);
      await git.run(open.folders, ["update-ref", refOf(task_id), start]);
      const aside = { ...folders, workTree: folders.workTree + asideEnd };
      await makeParent(aside.workTree);
      await mkdir(aside.workTree, { mode: 0o700 });
      await git.run(aside, ["read-tree", start]);
      await git.run(aside, ["checkout-index", "--all", "--force", "--quiet", "--index"]);
      await rename(aside.workTree, folders.workTree);
      await own.write([setCheckoutStateOp(own, row, "working", null, now)]);
      return { ok: true, value: { isMade: true } };
    } catch (error) {
      await dropWorktree(checkouts, key, open, row, task_id);
      throw error;
    }
  });
}

/** Commits the changes of a task to its branch and deletes its files. A task without changes leaves nothing. */
export async function closeWorktree(
  checkouts: Checkouts,
  key: CheckoutKey,
  { task_id }: WorktreeOrder,
): Promise<RepoAnswer<{ readonly branch: string | null; readonly stat: string }>> {
  return answered(checkouts, key, async (open) => {
    const row = await wholeRow(checkouts, key, open, task_id);
    if (row === undefined) return { ok: true, value: { branch: null, stat: "" } };
    return { ok: true, value: await close(checkouts, key, open, row, task_id) };
  });
}

/** Merges the branch of a task that has ended into the files of the thread, or discards it. */
export async function mergeWorktree(
  checkouts: Checkouts,
  key: CheckoutKey,
  { task_id, discard }: WorktreeOrder & { readonly discard: boolean },
): Promise<RepoAnswer<{ readonly stat: string; readonly conflicts: readonly string[] }>> {
  return answered(checkouts, key, async (open) => {
    const row = await wholeRow(checkouts, key, open, task_id);
    if (row === undefined) return refused("not_found", `no task ${task_id} of this conversation holds work`);
    // Files that git cannot read can still be discarded.
    if (discard) {
      await dropWorktree(checkouts, key, open, row, task_id);
      return { ok: true, value: { stat: "", conflicts: [] } };
    }
    if (row.state === "working") await close(checkouts, key, open, row, task_id);
    const { git } = checkouts;
    const { folders } = open;
    const before = await treeOf(git, folders);
    const start = await git.text(folders, ["rev-parse", startOf(task_id)]);
    const ours = await commitTree(checkouts, folders, before, start, checkouts.deps.env.now());
    // 1: the merge has conflicts, which the tree shows in the usual marks.
    const merged = await git.list(
      { ...folders, workTree: null },
      ["merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", ours, refOf(task_id)],
      { accepts: [1] },
    );
    const [after = "", ...conflicts] = merged;
    const obstacle = await writeChanges(checkouts, key, open, before, after);
    if (obstacle?.why === "taken")
      return refused(
        "invalid_arguments",
        `${obstacle.path} is in the way of the merge; move or delete it and merge again`,
      );
    if (obstacle !== null)
      return refused(
        "invalid_arguments",
        `the name ${obstacle.path} is not UTF-8; rename the file in the task, or discard it`,
      );
    const stat = await diffStat(git, folders, before, after);
    await dropWorktree(checkouts, key, open, row, task_id);
    return { ok: true, value: { stat, conflicts: conflicts.filter((path) => path !== "") } };
  });
}

async function rowOf(checkouts: Checkouts, { tenantId, thread }: CheckoutKey, taskId: string) {
  const row = await checkoutOf(checkouts.deps.store.tenant(tenantId), taskSuffix(taskId));
  return row?.root === thread ? row : undefined;
}

/** Returns the row of a task; undefined if there is none. Deletes the remains of a worktree that is not whole. */
async function wholeRow(checkouts: Checkouts, key: CheckoutKey, open: OpenCheckout, taskId: string) {
  const row = await rowOf(checkouts, key, taskId);
  if (row?.state !== "opening") return row;
  await dropWorktree(checkouts, key, open, row, taskId);
  return undefined;
}

async function close(
  checkouts: Checkouts,
  key: CheckoutKey,
  open: OpenCheckout,
  row: CheckoutRow,
  taskId: string,
): Promise<{ readonly branch: string | null; readonly stat: string }> {
  const { git, deps } = checkouts;
  const folders = foldersOf(key.tenantId, row, open.row, deps.settings);
  const start = await git.text(open.folders, ["rev-parse", startOf(taskId)]);
  const startTree = await git.text(open.folders, ["rev-parse", `${start}^{tree}`]);
  if (row.state === "working") {
    const tree = await treeOf(git, folders);
    if (tree === startTree) {
      await dropWorktree(checkouts, key, open, row, taskId);
      return { branch: null, stat: "" };
    }
    const commit = await commitTree(checkouts, folders, tree, start, deps.env.now());
    await git.run(open.folders, ["update-ref", refOf(taskId), commit]);
    const own = deps.store.tenant(key.tenantId);
    await own.write([setCheckoutStateOp(own, row, "held", null, deps.env.now())]);
    await checkouts.eraseWorkTree(key.tenantId, row.thread);
    await rm(folders.index, { force: true });
  }
  return { branch: taskBranch(taskId), stat: await diffStat(git, open.folders, start, refOf(taskId)) };
}

/** Returns a commit with the files of the thread as they are now. */
async function startCommit(checkouts: Checkouts, { folders }: OpenCheckout, now: number): Promise<string> {
  const tree = await treeOf(checkouts.git, folders);
  return commitTree(checkouts, folders, tree, "HEAD", now);
}

function commitTree({ git }: Checkouts, folders: CheckoutFolders, tree: string, parent: string, at: number) {
  return git.text(folders, ["commit-tree", tree, "-p", parent], {
    input: "work of an agent",
    author: { ...author, at },
  });
}

/** Deletes what a task has left: its files, its branch and its row. The row is marked first, so that a later call completes the deletion. */
async function dropWorktree(
  checkouts: Checkouts,
  { tenantId }: CheckoutKey,
  { row: root, folders }: OpenCheckout,
  row: CheckoutRow,
  taskId: string,
): Promise<void> {
  const { git, deps } = checkouts;
  const own = deps.store.tenant(tenantId);
  await own.write([setCheckoutStateOp(own, row, "opening", null, deps.env.now())]);
  await checkouts.eraseWorkTree(tenantId, row.thread);
  await rm(foldersOf(tenantId, row, root, deps.settings).index, { force: true });
  for (const ref of [refOf(taskId), startOf(taskId)])
    await git.run({ ...folders, workTree: null }, ["update-ref", "-d", ref]);
  await own.write([deleteCheckoutOp(own, row)]);
}
