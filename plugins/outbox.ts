import { outboxEndpoint } from "../actors/delivery/outbox-kind.ts";
import { deliveryAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { TenantStore, WriteOp } from "../storage/store/store.ts";
import { outboxOps } from "../storage/tables/deliveries.ts";

/** A delivery that a plugin writes. */
export interface NewDelivery {
  /** A kind of `outbox` of the plugin. */
  readonly kind: string;
  /** The receiver. A failing lane delays no other. */
  readonly lane: string;
  /** The id of the reported fact; a second delivery of the same source to the same lane has no effect. */
  readonly source: string;
  /** Begins with a word of few values and a dot, such as `notes.kept`: the word is a label of metrics. */
  readonly type: string;
  readonly body: string;
}

/** Returns the statements of a delivery, for the batch that stores what it reports. */
export function deliveryOps(store: TenantStore, { kind, lane, source, type, body }: NewDelivery): WriteOp[] {
  return outboxOps(store, { source: `${kind}_${source}`, type, body, endpoints: [outboxEndpoint(kind, lane)] });
}

/** Sends the deliveries of a lane soon, after their batch. A periodic task sends those whose hint was lost. */
export function wakeLane(bus: Bus, tenantId: string, kind: string, lane: string): void {
  bus.tell(deliveryAddress(tenantId, outboxEndpoint(kind, lane)), "wake", {});
}
