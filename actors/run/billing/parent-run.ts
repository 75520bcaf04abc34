import { type Address, runAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { ParentRun, SharedBudgets } from "../../../bus/protocol/task.ts";
import type { WorkflowStepRun } from "../../../bus/protocol/workflow.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { isOpenRun } from "../../../storage/tables/task-waits.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import { isPassing, patiently } from "./passing.ts";

// The parent run of a task, and the budgets of the runs above the task; see child-runs/tasks.ts.

/** How often a live parent run may answer that it does not know the task: its actor may have been moving to another node. */
const unknownMax = 2;

/** Returns the stored budgets above a run: those of a task, or that of the workflow whose step it is; null for none. */
export function sharedOf({ parent, workflow }: RunsAbove): SharedBudgets | null {
  return parent?.background ?? parent?.shared ?? workflow?.shared ?? null;
}

/** The runs above a run. */
interface RunsAbove {
  readonly parent?: ParentRun | null;
  readonly workflow?: WorkflowStepRun | null;
}

/**
 * Tells the parent run that its task has resumed. Returns false if the parent is gone, or the task is stopped. Rejects like `patiently`
 * while its store or thread is unavailable.
 */
export async function resumedUnder(
  parent: ParentRun,
  store: TenantStore,
  bus: Bus,
  cancellation: Cancellation,
): Promise<boolean> {
  // A durable parent may have been suspended with its process. It knows the task again after it has resumed.
  const mayForget = parent.durable !== undefined;
  let unknown = 0;
  const isExpected = await patiently(
    async () => {
      try {
        await bus.ask(parentAddress(parent, store.tenantId), "taskResumed", { task_id: parent.task_id });
        return true;
      } catch (error) {
        const { code } = SvcError.from(error);
        if (!isPassing(code)) return false;
        if (code !== "actor_lost") throw error;
        unknown++;
        if ((unknown > unknownMax && !mayForget) || !(await isThere(parent, store, bus))) return false;
        throw error;
      }
    },
    bus.env,
    cancellation,
  );
  return isExpected === true;
}

/**
 * True if the parent run still exists, as far as its task depends on it. An unknown state counts as true, because the next
 * request to the parent shows more.
 */
export async function isThere(parent: ParentRun, store: TenantStore, bus: Bus): Promise<boolean> {
  if (parent.background !== undefined) return true;
  try {
    // The store knows about a durable parent, which may be moving between processes.
    if (parent.durable !== undefined) return await isOpenRun(store, parent.suffix, parent.run_id);
    return (await bus.ask(parentAddress(parent, store.tenantId), "alive", {})).alive;
  } catch (error) {
    return isPassing(SvcError.from(error).code);
  }
}

/** Returns the address of the parent run's actor. */
export function parentAddress({ run_id, suffix }: ParentRun, tenantId: string): Address<"run"> {
  return runAddress(tenantId, suffix, run_id);
}
