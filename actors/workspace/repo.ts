import { splitThreadId, taskIdOf, threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ThreadPosition } from "../../bus/protocol/thread.ts";
import type { AskWorkspace, Checkout, CheckoutFiles } from "../../bus/protocol/workspace.ts";
import { admit } from "../../governance/auth/inbound.ts";
import { checkoutOf, checkoutsOfRoot } from "../../storage/tables/repo-checkouts.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { CheckoutKey, OpenOrder } from "../checkouts/checkouts.ts";
import { checkoutFiles, checkoutView, viewOf } from "../checkouts/view.ts";
import { stateOf } from "../checkouts/work-tree.ts";
import { closeWorktree } from "../checkouts/worktrees.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { WorkspaceDeps } from "./place.ts";

// The repository of a thread, as people open, look at and remove it.

const dayMs = 86_400_000;
/** A worktree that was not used for this long is looked at: its run may have ended without closing it. */
export const idleWorktreeMs = 2 * 3_600_000;

/** Begins to clone a repository. Refuses with checkout_busy while a run works: its files would change under it. */
export async function openRepo(
  asked: AskWorkspace & OpenOrder,
  context: ActorContext<WorkspaceDeps>,
): Promise<Checkout> {
  const key = await keyOf(asked, context);
  if ((await positionOf(key, key.thread, context.deps)).run_id !== null) throw new SvcError("checkout_busy");
  return viewOf(await context.deps.checkouts.open(key, asked, asked.principal));
}

/** Returns the state of the checkout. */
export async function repoState(asked: AskWorkspace, context: ActorContext<WorkspaceDeps>): Promise<Checkout> {
  return checkoutView(context.deps.checkouts, await keyOf(asked, context));
}

/** Returns the files of the checkout. */
export async function repoFiles(
  asked: AskWorkspace & { readonly prefix: string; readonly limit: number },
  context: ActorContext<WorkspaceDeps>,
): Promise<CheckoutFiles> {
  return checkoutFiles(context.deps.checkouts, await keyOf(asked, context), asked.prefix, asked.limit);
}

/** Deletes the checkout. Refuses with checkout_busy while a run or git works in it. */
export async function removeRepo(
  asked: AskWorkspace,
  context: ActorContext<WorkspaceDeps>,
): Promise<Record<string, never>> {
  const { checkouts, audit } = context.deps;
  const key = await keyOf(asked, context);
  const { row, folders } = await checkouts.of(key);
  const { run_id } = await positionOf(key, key.thread, context.deps);
  // A clone is given up, other work is not.
  if (run_id !== null || (row.state !== "cloning" && checkouts.isBusy(folders))) throw new SvcError("checkout_busy");
  await checkouts.remove(key, row.root === row.thread ? row.checkout_id : undefined);
  audit.record(key.tenantId, {
    ...{ event_type: "thread_repo_removed", status: "ok", manifest_id: "", principal_subj: asked.principal.sub },
    payload: { thread_id: context.key },
  });
  return {};
}

/**
 * Deletes the files of a lost clone, and those of a checkout that was not used for long. Commits the work of tasks whose run has ended, so
 * that they can be merged.
 */
export async function tidyRepo({ key: id, deps, env }: ActorContext<WorkspaceDeps>): Promise<Record<string, never>> {
  const { checkouts, settings, store } = deps;
  const { tenantId, suffix: thread } = splitThreadId(id);
  const row = await checkoutOf(store.tenant(tenantId), thread);
  if (row === undefined || row.root !== row.thread) return {};
  const key = { tenantId, thread };
  if (row.state === "failed") await checkouts.eraseFiles(tenantId, row, "failed", row.error ?? "");
  if (row.state !== "ready" || (await isAtWork(key, thread, deps))) return {};
  const worktrees = (await checkoutsOfRoot(store.tenant(tenantId), thread)).filter((one) => one.root !== one.thread);
  for (const worktree of worktrees) {
    if (worktree.state === "held") continue;
    // A task in the background outlives the run that has started it.
    if (worktree.used_at >= env.now() - idleWorktreeMs || (await isAtWork(key, worktree.thread, deps))) return {};
    await closeWorktree(checkouts, key, { task_id: taskIdOf(worktree.thread) ?? "" });
  }
  const isKept = worktrees.length > 0 || (await isDirty(key, deps));
  const days = settings.repoCheckoutTtlDays * (isKept ? 4 : 1);
  if (row.used_at < env.now() - days * dayMs)
    await checkouts.eraseFiles(tenantId, row, "expired", `the checkout was not used for ${days} days`);
  return {};
}

function positionOf({ tenantId }: CheckoutKey, thread: string, { bus }: WorkspaceDeps): Promise<ThreadPosition> {
  return bus.ask(threadAddress(tenantId, thread), "attach", {});
}

/** True while a run of a thread works, and while a durable one is suspended. */
async function isAtWork(key: CheckoutKey, thread: string, deps: WorkspaceDeps): Promise<boolean> {
  const { run_id, durable_run } = await positionOf(key, thread, deps);
  return run_id !== null || durable_run !== null;
}

async function isDirty(key: CheckoutKey, { checkouts }: WorkspaceDeps): Promise<boolean> {
  const { folders } = await checkouts.of(key);
  const { git } = checkouts;
  return checkouts.alone(folders, async () => (await stateOf(git, folders)).changes.size > 0).catch(() => true);
}

/** Returns the thread of a request, after the manifest of its newest run has admitted the caller. */
async function keyOf({ principal }: AskWorkspace, { key, deps }: ActorContext<WorkspaceDeps>): Promise<CheckoutKey> {
  const { tenantId, suffix } = splitThreadId(key);
  const thread = await threadBySuffix(deps.store.tenant(tenantId), suffix);
  if (thread?.manifest != null) {
    const agent = await deps.manifests.resolve(tenantId, thread.manifest, suffix);
    admit(principal, agent.inbound);
  }
  return { tenantId, thread: suffix };
}
