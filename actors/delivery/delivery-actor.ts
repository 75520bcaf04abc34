import { deliveryAddress, splitDeliveryKey } from "../../bus/address.ts";
import { defineActor } from "../runtime/define.ts";
import type { DeliveryDeps } from "./deps.ts";
import { EndpointQueue } from "./endpoint-queue.ts";

/** Sends the webhooks of one tenant to one endpoint. Its state is a cache: the pending deliveries are in the store. */
export const deliveryActor = defineActor<"delivery", EndpointQueue, DeliveryDeps>({
  kind: "delivery",
  mailboxLimit: 256,
  interleaves: ["wake"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, env, bus, deps }) => {
    const { tenantId, endpointId } = splitDeliveryKey(key);
    const address = deliveryAddress(tenantId, endpointId);
    return new EndpointQueue({ env, deps, tenantId, endpointId, wake: () => bus.tell(address, "wake", {}) });
  },
  idle: (queue) => queue.isIdle,
  crashed: (queue) => queue.stop(),
  on: {
    wake: (queue) => queue.look(),
  },
});
