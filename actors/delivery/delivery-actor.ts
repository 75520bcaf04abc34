import { deliveryAddress, splitDeliveryKey } from "../../bus/address.ts";
import { defineActor } from "../runtime/define.ts";
import type { DeliveryDeps } from "./deps.ts";
import { EndpointQueue } from "./endpoint-queue.ts";

/** Sends the deliveries of one tenant to one endpoint. Its state is a cache: the pending deliveries are in the store. */
export const deliveryActor = defineActor<"delivery", EndpointQueue, DeliveryDeps>({
  kind: "delivery",
  mailboxLimit: 256,
  interleaves: ["wake"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, env, bus, deps }) => {
    const { tenantId, endpointId } = splitDeliveryKey(key);
    const wakeOther = (id: string) => bus.tell(deliveryAddress(tenantId, id), "wake", {});
    return new EndpointQueue({ env, deps, tenantId, endpointId, wake: () => wakeOther(endpointId), wakeOther });
  },
  idle: (queue) => queue.isIdle,
  crashed: (queue) => queue.stop(),
  on: {
    wake: (queue) => queue.look(),
  },
});
