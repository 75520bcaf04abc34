import { deliveryAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { type DueEndpoint, endpointsDue } from "../../storage/tables/deliveries.ts";
import { aheadMs } from "./endpoint-queue.ts";

const pageRows = 500;
/** Longer than any delay of a delivery. */
const everMs = 365 * 86_400_000;

/**
 * Wakes the actor of each endpoint with a pending delivery: one due soon, or any. This covers deliveries whose wake-up message
 * was lost, and retries. Returns the number of actors.
 */
export async function wakeDeliveries(store: Store, bus: Bus, which: "due" | "all"): Promise<number> {
  let told = 0;
  let after: DueEndpoint = { tenant_id: "", endpoint_id: "" };
  for (;;) {
    const page = await endpointsDue(store.system, which === "due" ? aheadMs : everMs, after, pageRows);
    for (const { tenant_id, endpoint_id } of page) bus.tell(deliveryAddress(tenant_id, endpoint_id), "wake", {});
    told += page.length;
    const last = page.at(-1);
    if (!last || page.length < pageRows) return told;
    after = last;
  }
}

const lookMs = 60_000;

/** Wakes endpoints with deliveries. */
export const deliveriesTask: RepeatedTask<{ readonly store: Store; readonly bus: Bus }> = {
  name: "webhook_delivery",
  of: "scheduler",
  async run({ store, bus }, { isFirst }) {
    // At the start also wake deliveries that are due later: their endpoint may have been removed.
    await wakeDeliveries(store, bus, isFirst ? "all" : "due");
    return lookMs;
  },
};
