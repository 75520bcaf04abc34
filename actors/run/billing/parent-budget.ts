import { type Address, runAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { BudgetReservation, BudgetUsed, ParentRun, SharedBudgets } from "../../../bus/protocol/task.ts";
import type { Breach, ParentBudget } from "../../../governance/budget.ts";
import type { ModelPrice } from "../../../manifests/registries.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { isOpenRun } from "../../../storage/tables/task-waits.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import { isPassing } from "./passing.ts";

// Requests of a child run to the budget of its parent run; see child-runs/tasks.ts.

/** No deadline: a reservation may wait for others, and a report must arrive. An ask only fails if the parent is gone. */
const patient = { deadlineMs: Number.POSITIVE_INFINITY };

/** Milliseconds before the parent run is asked again; doubled after each attempt. */
const againMs = 250;
/** Max attempts. Their pauses together exceed the time for which a request waits for the store. */
const asksMax = 7;
/** How often a live parent run may answer that it does not know the task: its actor may have been moving to another node. */
const unknownMax = 2;

/**
 * Returns the budget of the parent run. `onGone` is called when the parent no longer exists. If its store or thread is briefly
 * unavailable, the ask is repeated; the refusal is thrown after the last attempt.
 */
export function parentBudgetOf(
  parent: ParentRun,
  store: TenantStore,
  bus: Bus,
  cancellation: Cancellation,
  onGone: () => void,
): ParentBudget {
  const address = parentAddress(parent, store.tenantId);
  const { task_id } = parent;
  // A durable parent may have been suspended with its process. It knows the task again after it has resumed.
  const mayForget = parent.durable !== undefined;

  /** Returns null if the parent run is gone, or this run is stopped. */
  async function asked<T>(ask: () => Promise<T>): Promise<T | null> {
    let unknown = 0;
    for (let asks = 1; ; asks++) {
      try {
        return await ask();
      } catch (error) {
        const { code } = SvcError.from(error);
        if (code === "actor_lost") unknown++;
        const isUnknown = unknown > unknownMax && !mayForget;
        const isGone = code === "actor_lost" && (isUnknown || !(await isThere(parent, store, bus)));
        if (isGone || !isPassing(code)) {
          onGone();
          return null;
        }
        if (asks === asksMax) throw error;
      }
      await paused(bus, cancellation, againMs * 2 ** (asks - 1));
      if (cancellation.cancelled) return null;
    }
  }

  return {
    binds: true,
    async reserve(wanted, price): Promise<BudgetReservation | Breach | null> {
      const body = { task_id, ...wanted, rates: ratesOf(price) };
      const reply = await asked(() => bus.ask(address, "reserve", body, patient));
      if (reply === null) return null;
      return "reservation" in reply ? reply.reservation : (reply.breach as Breach);
    },
    repay(reservation_id: string, used: BudgetUsed): void {
      bus.tell(address, "repay", { reservation_id, used });
    },
    async count(tool) {
      const reply = await asked(() => bus.ask(address, "count", { task_id, tool }, patient));
      if (reply === null) return { limit: "max_tool_calls", detail: "the run that has handed out the task is gone" };
      return reply.breach as Breach | null;
    },
  };
}

/** Asks the parent run to share its budgets through the store. Refuses with actor_lost if it is gone. */
export function sharedAbove(parent: ParentRun, tenantId: string, bus: Bus): Promise<SharedBudgets> {
  return bus.ask(parentAddress(parent, tenantId), "share", { task_id: parent.task_id });
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

/** Returns the highest input rate and the output rate: cached input may cost more than plain input. */
function ratesOf(price: ModelPrice | null): { input: number; output: number } | null {
  if (price === null) return null;
  return { input: Math.max(price.input, price.cache_read, price.cache_write), output: price.output };
}

function paused({ env }: Bus, cancellation: Cancellation, ms: number): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = env.timer(ms, resolve);
  return cancellation.orStopped(promise).finally(() => timer.cancel());
}
