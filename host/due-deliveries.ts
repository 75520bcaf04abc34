import { aheadMs } from "../actors/delivery/endpoint-queue.ts";
import { deliveryAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { Store } from "../storage/store/store.ts";
import { type DueEndpoint, endpointsDue } from "../storage/tables/deliveries.ts";

const pageRows = 500;
/** Longer than any delivery is put off. */
const everMs = 365 * 86_400_000;

/**
 * Has everybody look who has a delivery that is due soon, or that waits at all: the hint of the batch that has written it may have been
 * lost, and what an endpoint has refused is due again. Answers how many were told.
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
