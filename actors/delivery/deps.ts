import type { Logger } from "pino";
import type { FairSemaphore } from "../../bus/queues/fair-semaphore.ts";
import type { EgressPolicy } from "../../governance/egress/address.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";

/** What deliveries need beside their state. */
export interface DeliveryDeps {
  readonly settings: Pick<Settings, "webhookEndpoints" | "webhookTimeoutSeconds" | "webhookMaxAttempts">;
  readonly store: Pick<Store, "tenant">;
  readonly secrets: Pick<Secrets, "resolve">;
  /** One for each policy: an endpoint of the operator's own network has the operator's. */
  readonly webhookEgress: Readonly<Record<EgressPolicy, Pick<Egress, "dispatch">>>;
  /** How the sender names itself. */
  readonly webhookAgent: string;
  readonly slots: FairSemaphore;
  readonly metrics: Pick<Metrics, "count">;
  readonly log: Pick<Logger, "warn">;
  /** How this thread names what it owns. */
  readonly owner: string;
}
