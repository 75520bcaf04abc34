import type { WriteOp } from "../../../storage/store/store.ts";
import { endTasksOps } from "../../../storage/tables/abandoned-waits.ts";
import { abandonOps, leaveOps } from "../../../storage/tables/approvals.ts";
import { tasksAside } from "../../../storage/tables/task-waits.ts";
import { closeWaitsOp, deleteWaitOp, deleteWaitsOfRunOp, waitsOfRun } from "../../../storage/tables/waits.ts";
import type { RunContext } from "../context/run-context.ts";
import { familyOf } from "./tool-execution.ts";

/** What a run leaves that ends for a failure of its own, or is stopped, and not by the ends of its calls. */
export interface LeftWaits {
  /** What closes its questions, and the requests that nobody else waits for. */
  readonly ops: readonly WriteOp[];
  /** Stops the tasks that are put aside and would come back to nobody. */
  stopTasks(): void;
}

/** What the run has asked and takes no answer to any more. Throws where the store does not say. */
export async function leftWaits(runContext: RunContext): Promise<LeftWaits> {
  const { run, store, spec } = runContext;
  if (!run.hasAsked) return { ops: [], stopTasks: () => {} };
  const { run_id, thread_suffix, thread_key, parent } = spec;
  const rootKey = parent?.root_key ?? thread_key;
  const waits = await waitsOfRun(store, run_id);
  const open = waits.filter(({ state }) => state === "open");
  const tasks = open.flatMap(({ kind, asked_as }) => (kind === "task" && asked_as !== null ? [asked_as] : []));
  const ops =
    thread_suffix === null
      ? // Without a thread the ends of calls may be on their way with the same batch: they have deleted what is asked for.
        [...open.flatMap((wait) => leaveDeleted(wait)), deleteWaitsOfRunOp(store, run_id)]
      : [
          ...abandonOps(store, open),
          closeWaitsOp(store, run_id),
          ...(tasks.length === 0 ? [] : await endTasksOps(store, rootKey, await tasksAside(store, rootKey, run_id))),
        ];
  return {
    ops,
    stopTasks() {
      for (const id of tasks) familyOf(runContext).stop(id);
    },
  };

  function leaveDeleted({ wait_id, approval_id }: (typeof open)[number]): WriteOp[] {
    return approval_id === null ? [] : leaveOps(store, approval_id, "aborted", deleteWaitOp(store, wait_id));
  }
}
