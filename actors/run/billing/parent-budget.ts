import { type Address, runAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { BudgetReservation, BudgetUsed, ParentRun, SharedBudgets } from "../../../bus/protocol/run.ts";
import type { Breach, ParentBudget } from "../../../governance/budget.ts";
import type { ModelPrice } from "../../../manifests/registries.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { isOpenRun } from "../../../storage/tables/task-waits.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import { isPassing } from "./passing.ts";

// What a child run asks of the budget of its parent run: see child-runs/tasks.ts.

/** What is asked may wait for others, and what is told must arrive: only who is gone does not answer. */
const patient = { deadlineMs: Number.POSITIVE_INFINITY };

/** How long it is waited before the run above is asked again what it could not say; then twice as long each time. */
const againMs = 250;
/** Together longer than a request waits for the store. */
const asksMax = 7;
/** So often a run that is there may say that it does not know the task: it may have been on its way to another thread. */
const unknownMax = 2;

/**
 * The budget of the run above. `onGone` is called when it is there no more. A store or a thread that is away for a moment is waited for;
 * refuses with what the run above does when that lasts.
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
  // One that is durable may have been put aside with the process, and knows the task when it is taken up.
  const mayForget = parent.durable !== undefined;

  /** Null when the run above is gone, or this one is stopped. */
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
      const told = await asked(() => bus.ask(address, "reserve", body, patient));
      if (told === null) return null;
      return "reservation" in told ? told.reservation : (told.breach as Breach);
    },
    repay(reservation_id: string, used: BudgetUsed): void {
      bus.tell(address, "repay", { reservation_id, used });
    },
    async count(tool) {
      const told = await asked(() => bus.ask(address, "count", { task_id, tool }, patient));
      if (told === null) return { limit: "max_tool_calls", detail: "the run that has handed out the task is gone" };
      return told.breach as Breach | null;
    },
  };
}

/** Has the runs above keep in the store what they spend. Refuses with actor_lost when they are gone. */
export function sharedAbove(parent: ParentRun, tenantId: string, bus: Bus): Promise<SharedBudgets> {
  return bus.ask(parentAddress(parent, tenantId), "share", { task_id: parent.task_id });
}

/** Whether the run above is still there, as far as a task needs it. While nobody can tell, it is: what asks it for something hears more. */
export async function isThere(parent: ParentRun, store: TenantStore, bus: Bus): Promise<boolean> {
  if (parent.background !== undefined) return true;
  try {
    // Of one that is durable the store says so: it may be on its way from one process to another.
    if (parent.durable !== undefined) return await isOpenRun(store, parent.suffix, parent.run_id);
    return (await bus.ask(parentAddress(parent, store.tenantId), "alive", {})).alive;
  } catch (error) {
    return isPassing(SvcError.from(error).code);
  }
}

/** The actor of the parent run. */
export function parentAddress({ run_id, suffix }: ParentRun, tenantId: string): Address<"run"> {
  return runAddress(tenantId, suffix, run_id);
}

/** Whatever a provider reads from its cache or writes there, it will not cost more. */
function ratesOf(price: ModelPrice | null): { input: number; output: number } | null {
  if (price === null) return null;
  return { input: Math.max(price.input, price.cache_read, price.cache_write), output: price.output };
}

function paused({ env }: Bus, cancellation: Cancellation, ms: number): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = env.timer(ms, resolve);
  return cancellation.orStopped(promise).finally(() => timer.cancel());
}
