import type { WriteOp } from "../../../storage/store/store.ts";
import { endTasksOps } from "../../../storage/tables/abandoned-waits.ts";
import { abandonOps, leaveOps } from "../../../storage/tables/approvals.ts";
import { tasksAside } from "../../../storage/tables/task-waits.ts";
import { closeWaitsOp, deleteWaitOp, deleteWaitsOfRunOp, waitsOfRun } from "../../../storage/tables/waits.ts";
import type { RunContext } from "../context/run-context.ts";
import { familyOf } from "./tool-execution.ts";

/** Open waits of a run that ends by a failure or a stop, before its calls have ended. */
export interface LeftWaits {
  /** Statements that close the waits, and the approval requests that no other call waits for. */
  readonly ops: readonly WriteOp[];
  /** Stops suspended tasks whose result no run needs any more. */
  stopTasks(): void;
}

/** Returns the waits that the run leaves open. Throws if the store fails. */
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
      ? // Without a thread, the ends of calls may be in the same batch, and have deleted their waits.
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
