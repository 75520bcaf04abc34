import type { Metrics } from "../governance/metrics.ts";
import type { Scope } from "../storage/store/store.ts";
import { type Backlog, backlog } from "../storage/tables/backlog.ts";
import { oldestDeliveryMs } from "../storage/tables/deliveries.ts";

/** The metrics that are read from tables: waiting webhooks, durable runs and waits. */
export class BacklogFigures {
  #oldestDeliveryMs = 0;
  #backlog: Backlog | null = null;

  constructor(metrics: Metrics) {
    metrics.gauge("svc_webhook_oldest_seconds", () => this.#oldestDeliveryMs / 1000);
    metrics.gauge("svc_durable_queued", () => this.#backlog?.queued ?? 0);
    metrics.gauge("svc_durable_running", () => this.#backlog?.running ?? 0);
    metrics.gauge("svc_durable_parked", () => this.#backlog?.parked ?? 0);
    metrics.gauge("svc_durable_oldest_run_seconds", () => (this.#backlog?.oldestRunMs ?? 0) / 1000);
    metrics.gauge("svc_durable_oldest_due_seconds", () => (this.#backlog?.oldestDueMs ?? 0) / 1000);
    metrics.gauge("svc_oldest_wait_seconds", () => (this.#backlog?.oldestWaitMs ?? 0) / 1000);
  }

  /** Reads the tables. While the store is unavailable, the last known values remain. */
  async read(tables: Scope): Promise<void> {
    [this.#oldestDeliveryMs, this.#backlog] = await Promise.all([
      oldestDeliveryMs(tables).catch(() => this.#oldestDeliveryMs),
      backlog(tables).catch(() => this.#backlog),
    ]);
  }
}
