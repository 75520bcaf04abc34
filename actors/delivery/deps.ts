import type { Logger } from "pino";
import type { FairSemaphore } from "../../bus/queues/fair-semaphore.ts";
import type { FreshDeps } from "../../governance/auth/fresh-access.ts";
import type { EgressPolicy } from "../../governance/egress/address.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { Outgoing } from "../../governance/egress/outgoing.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Tracer } from "../../governance/tracing/tracer.ts";
import type { Store } from "../../storage/store/store.ts";
import type { OutboxKind } from "./outbox-kind.ts";

/** Dependencies of the delivery actor. */
export interface DeliveryDeps {
  readonly settings: Settings;
  /** The stored keys and sign-ins. */
  readonly access: FreshDeps["access"];
  readAccess(): Promise<void>;
  readonly store: Pick<Store, "tenant">;
  /** Makes spans; null if traces are off. */
  readonly tracer: Tracer | null;
  readonly secrets: Pick<Secrets, "resolve">;
  /** One egress per policy; a private endpoint uses `operator`. */
  readonly webhookEgress: Readonly<Record<EgressPolicy, Pick<Egress, "dispatch">>>;
  /** Sends push notifications. */
  readonly outgoing: Pick<Outgoing, "whole">;
  /** User agent of the requests. */
  readonly webhookAgent: string;
  /** The kinds of deliveries that plugins send. */
  readonly outboxKinds: ReadonlyMap<string, OutboxKind>;
  readonly slots: FairSemaphore;
  readonly metrics: Pick<Metrics, "count">;
  readonly log: Pick<Logger, "warn">;
  /** The owner mark of this thread in claimed rows. */
  readonly owner: string;
}
