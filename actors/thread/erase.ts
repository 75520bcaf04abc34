import { commandsAddress, isHiddenSuffix, isJobSuffix, threadAddress, workspaceAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import { SvcError } from "../../bus/errors.ts";
import { rewoundMark } from "../../bus/frames/frames.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import { requestMs, type TenantStore } from "../../storage/store/store.ts";
import { deleteApprovalsOp } from "../../storage/tables/approvals.ts";
import { dropArtifactsOfThreadOps } from "../../storage/tables/artifacts.ts";
import { dropFilesOfThreadOps } from "../../storage/tables/files.ts";
import { deleteJobRunsOfThreadOp } from "../../storage/tables/job-runs.ts";
import { deletePinOp } from "../../storage/tables/manifest-pins.ts";
import { deleteMemoriesOps } from "../../storage/tables/memories.ts";
import { deletePlansOps } from "../../storage/tables/plans.ts";
import { deleteQuarantineOps } from "../../storage/tables/quarantine.ts";
import { deleteInputsOp } from "../../storage/tables/queued-inputs.ts";
import { deleteBudgetsOps } from "../../storage/tables/run-budgets.ts";
import { commandOwners, deleteCommandsOp } from "../../storage/tables/shell-commands.ts";
import { deleteLeasesOp, liveLeases } from "../../storage/tables/thread-leases.ts";
import { deleteThreadOp, type ThreadRow, tasksOfThread } from "../../storage/tables/threads.ts";
import { disownOp, eraseOps, eraseUnowned, isShort, type UnownedLog } from "../../storage/tables/unowned-logs.ts";
import { deleteWaitsOp } from "../../storage/tables/waits.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { holderOf, type ThreadState } from "./thread-state.ts";

/** Max time for an aborted task to write its last batch. */
const abortMs = 30_000;
/** Max time to delete a task, or the files of a thread. */
const longMs = 600_000;
/** Tasks per page. */
const taskPage = 64;

/**
 * Deletes the thread with all its data (decision 105: log, runs, waits, tasks, files, artifacts, quarantine; audit and usage stay), workspace files
 * first. It disappears with the first batch. A long log follows in pages, and the rest after a crash is deleted later.
 */
export async function eraseThread(
  state: ThreadState,
  { idle_since }: { readonly idle_since?: number },
  context: ActorContext<ThreadDeps>,
): Promise<{ deleted: boolean }> {
  const { key, bus } = context;
  const { head, store } = state;
  const run_id = holderOf(state);
  if (run_id !== undefined) throw new SvcError("run_in_progress", { subject: run_id });
  if (head !== null && idle_since !== undefined && (await isUsedSince(store, head, idle_since)))
    return { deleted: false };
  if (head !== null) await eraseTasks(state, bus);
  await endCommands(store, key, bus);
  // Delete files before rows, so that a repeated request deletes what is left after a failure.
  if (context.deps.settings.workspaceRoot !== null)
    await bus.ask(workspaceAddress(state.tenantId, state.suffix), "erase", {}, { deadlineMs: longMs });
  if (head === null) return { deleted: false };
  state.summary?.cancel();
  const { thread_key, next_seq, epoch } = head;
  const log: UnownedLog = { thread_key, events: next_seq, runs: epoch + 1 };
  const first = [
    deleteApprovalsOp(store, key, thread_key),
    deleteWaitsOp(store, thread_key),
    ...deleteBudgetsOps(store, thread_key),
    deleteInputsOp(store, thread_key),
    ...dropFilesOfThreadOps(store, thread_key),
    ...dropArtifactsOfThreadOps(store, thread_key),
    deleteCommandsOp(store, key),
    deleteLeasesOp(store, thread_key),
    ...deletePlansOps(store, key),
    ...(head.meta.pinned ? [deletePinOp(store, thread_key)] : []),
    ...deleteQuarantineOps(store, thread_key),
    // A request erases what was remembered of the thread; memories outlive the retention of threads.
    ...(idle_since === undefined ? deleteMemoriesOps(store, thread_key) : []),
    ...(isJobSuffix(state.suffix) ? [deleteJobRunsOfThreadOp(store, state.suffix)] : []),
    deleteThreadOp(store, head),
  ];
  try {
    await store.write([...first, ...(isShort(log) ? eraseOps(store, log) : [disownOp(store, log)])], requestMs);
  } finally {
    // Also after a failure, because the outcome may be unknown.
    context.discard();
  }
  if (bus.hasSubscribers(state.topic)) bus.publish(state.topic, rewoundMark);
  if (!isHiddenSuffix(state.suffix))
    tellNews(bus, state.tenantId, () => ({ kind: "thread", thread_id: key, change: "deleted" }));
  if (!isShort(log)) await eraseUnowned(store, log);
  return { deleted: true };
}

/** Ends the background commands of a thread, which would write into its workspace. */
async function endCommands(store: TenantStore, thread_id: string, bus: Bus): Promise<void> {
  for (const owner of await commandOwners(store, thread_id)) {
    const [host = ""] = owner.split(":");
    await bus.ask(commandsAddress(host), "forget", { thread_id }, { deadlineMs: abortMs });
  }
}

/** True if an event was appended at or after a time, or a client holds a lease. */
async function isUsedSince(store: TenantStore, head: ThreadRow, since: number): Promise<boolean> {
  // A thread without messages has the time 0.
  const { updated_at, created_at, thread_key } = head;
  return (updated_at || created_at) >= since || (await liveLeases(store, thread_key)).length > 0;
}

/**
 * Deletes the tasks of a thread. All are aborted before any is deleted, so that no background or orphaned task starts another
 * one after the deletion.
 */
async function eraseTasks({ store, threadId, tenantId }: ThreadState, bus: Bus): Promise<void> {
  for (const isLast of [false, true])
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page: string[] = await tasksOfThread(store, threadId, after, taskPage);
      for (const suffix of page) {
        const address = threadAddress(tenantId, suffix);
        await bus.ask(address, "abort", { reason: "client" }, { deadlineMs: abortMs });
        if (isLast) await bus.ask(address, "erase", {}, { deadlineMs: longMs });
      }
      after = page.length < taskPage ? undefined : page.at(-1);
    }
}
