import { deliveryAddress, splitDeliveryKey } from "../../bus/address.ts";
import { defineActor } from "../runtime/define.ts";
import type { DeliveryDeps } from "./deps.ts";
import { DeliveryLane } from "./lane.ts";

/** Sends the webhooks of one tenant to one endpoint. What it knows may be forgotten: what is to be sent is in the store. */
export const deliveryActor = defineActor<"delivery", DeliveryLane, DeliveryDeps>({
  kind: "delivery",
  mailboxLimit: 256,
  interleaves: ["wake"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, env, bus, deps }) => {
    const { tenantId, endpointId } = splitDeliveryKey(key);
    const address = deliveryAddress(tenantId, endpointId);
    return new DeliveryLane({ env, deps, tenantId, endpointId, wake: () => bus.tell(address, "wake", {}) });
  },
  idle: (lane) => lane.isIdle,
  crashed: (lane) => lane.stop(),
  on: {
    wake: (lane) => lane.look(),
  },
});
