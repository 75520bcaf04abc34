import { runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { dueWaits } from "../../storage/tables/waits.ts";

const pageRows = 500;

/**
 * Wakes suspended runs whose wait was answered or has expired: the message that came with the answer may have been lost. Returns
 * the number of runs.
 */
export async function wakeDueRuns(store: Store, bus: Bus): Promise<number> {
  let told = 0;
  for (let after = ""; ; ) {
    const page = await dueWaits(store.system, after, pageRows);
    for (const { tenant_id, suffix, run_id } of page)
      bus.tell(runAddress(tenant_id, suffix === "" ? null : suffix, run_id), "resume", { due: true });
    told += page.length;
    const last = page.at(-1);
    if (!last || page.length < pageRows) return told;
    after = last.wait_id;
  }
}

/** Max delay to notice a deadline, or an answer whose wake-up message was lost. */
const waitsMs = 1_000;

/** Wakes suspended runs. */
export const dueWaitsTask: RepeatedTask<{ readonly store: Store; readonly bus: Bus }> = {
  name: "due_waits",
  of: "process",
  async run({ store, bus }) {
    await wakeDueRuns(store, bus);
    return waitsMs;
  },
};
