import { splitThreadId, threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskWorkspace, Checkout, CheckoutFiles } from "../../bus/protocol/workspace.ts";
import { admit } from "../../governance/auth/inbound.ts";
import { checkoutOf } from "../../storage/tables/repo-checkouts.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { CheckoutKey, OpenOrder } from "../checkouts/checkouts.ts";
import { checkoutFiles, checkoutView, viewOf } from "../checkouts/view.ts";
import { stateOf } from "../checkouts/work-tree.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { WorkspaceDeps } from "./place.ts";

// The repository of a thread, as people open, look at and remove it.

const dayMs = 86_400_000;

/** Begins to clone a repository. */
export async function openRepo(
  asked: AskWorkspace & OpenOrder,
  context: ActorContext<WorkspaceDeps>,
): Promise<Checkout> {
  const key = await keyOf(asked, context);
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
  const { checkouts, bus, audit } = context.deps;
  const key = await keyOf(asked, context);
  const { row, folders } = await checkouts.of(key);
  const attached = await bus.ask(threadAddress(key.tenantId, key.thread), "attach", {});
  // A clone is given up, other work is not.
  if (attached.run_id !== null || (row.state !== "cloning" && checkouts.isBusy(folders)))
    throw new SvcError("checkout_busy");
  await checkouts.remove(key, row.root === row.thread ? row.checkout_id : undefined);
  audit.record(key.tenantId, {
    ...{ event_type: "thread_repo_removed", status: "ok", manifest_id: "", principal_subj: asked.principal.sub },
    payload: { thread_id: context.key },
  });
  return {};
}

/** Deletes the files of a lost clone, and those of a checkout that was not used for long. */
export async function tidyRepo({ key: id, deps, env }: ActorContext<WorkspaceDeps>): Promise<Record<string, never>> {
  const { checkouts, settings, store } = deps;
  const { tenantId, suffix: thread } = splitThreadId(id);
  const row = await checkoutOf(store.tenant(tenantId), thread);
  if (row === undefined || row.root !== row.thread) return {};
  const key = { tenantId, thread };
  if (row.state === "failed") await checkouts.eraseFiles(tenantId, row, "failed", row.error ?? "");
  if (row.state !== "ready") return {};
  const days = settings.repoCheckoutTtlDays * ((await isDirty(key, deps)) ? 4 : 1);
  if (row.used_at < env.now() - days * dayMs)
    await checkouts.eraseFiles(tenantId, row, "expired", `the checkout was not used for ${days} days`);
  return {};
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
