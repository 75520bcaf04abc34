import { memoryAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RepeatedTask, ScheduledTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { tenantsWithCaptures } from "../../storage/tables/captures.ts";
import { tenantsWithDuePools } from "../../storage/tables/memory-pools.ts";

const pageRows = 500;

/** Wakes the workers of tenants with due captures: of failed ones, and of turns whose hint was lost. */
export function wakeCaptures(store: Store, bus: Bus): Promise<void> {
  return tellEach(store, tenantsWithCaptures, (tenantId) => bus.tell(memoryAddress(tenantId), "wake", {}));
}

/** Lets the workers of tenants merge their pools with enough new facts. */
export function consolidateDue(store: Store, bus: Bus): Promise<void> {
  return tellEach(store, tenantsWithDuePools, (tenantId) => bus.tell(memoryAddress(tenantId), "consolidate", {}));
}

async function tellEach(store: Store, read: typeof tenantsWithCaptures, tell: (tenantId: string) => void) {
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page: string[] = await read(store.system, after, pageRows);
    for (const tenantId of page) tell(tenantId);
    after = page.length < pageRows ? undefined : page.at(-1);
  }
}

const lookMs = 60_000;

interface MemoryTaskDeps {
  readonly store: Store;
  readonly bus: Bus;
}

/** Continues captures. */
export const capturesTask: RepeatedTask<MemoryTaskDeps> = {
  name: "memory_captures",
  of: "scheduler",
  async run({ store, bus }) {
    await wakeCaptures(store, bus);
    return lookMs;
  },
};

/** Merges memories. */
export const consolidateTask: ScheduledTask<MemoryTaskDeps> = {
  name: "consolidate_memory",
  of: "scheduler",
  schedule: "*/15 * * * *",
  run: ({ store, bus }) => consolidateDue(store, bus),
};
