import type { Logger } from "pino";
import type { FairSemaphore } from "../../bus/queues/fair-semaphore.ts";
import type { EgressPolicy } from "../../governance/egress/address.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";

/** Dependencies of the delivery actor. */
export interface DeliveryDeps {
  readonly settings: Pick<Settings, "webhookEndpoints" | "webhookTimeoutSeconds" | "webhookMaxAttempts">;
  readonly store: Pick<Store, "tenant">;
  readonly secrets: Pick<Secrets, "resolve">;
  /** One egress per policy; a private endpoint uses `operator`. */
  readonly webhookEgress: Readonly<Record<EgressPolicy, Pick<Egress, "dispatch">>>;
  /** User agent of the requests. */
  readonly webhookAgent: string;
  readonly slots: FairSemaphore;
  readonly metrics: Pick<Metrics, "count">;
  readonly log: Pick<Logger, "warn">;
  /** The owner mark of this thread in claimed rows. */
  readonly owner: string;
}
