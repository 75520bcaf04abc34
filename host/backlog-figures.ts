import type { Metrics } from "../governance/metrics.ts";
import type { Scope } from "../storage/store/store.ts";
import { type Backlog, backlog } from "../storage/tables/backlog.ts";
import { oldestDeliveryMs } from "../storage/tables/deliveries.ts";

/** The figures at one time. */
interface Figures extends Backlog {
  readonly oldestDeliveryMs: number;
}

/** The metrics that are read from tables: waiting webhooks, durable runs and waits. Of the hosts of a cluster one has them. */
export class BacklogFigures {
  #last: Figures | null = null;

  constructor(metrics: Metrics) {
    const of = (read: (figures: Figures) => number) => (): number | null => this.#last && read(this.#last);
    metrics.gauge(
      "svc_webhook_oldest_seconds",
      of(({ oldestDeliveryMs }) => oldestDeliveryMs / 1000),
    );
    metrics.gauge(
      "svc_durable_queued",
      of(({ queued }) => queued),
    );
    metrics.gauge(
      "svc_durable_running",
      of(({ running }) => running),
    );
    metrics.gauge(
      "svc_durable_parked",
      of(({ parked }) => parked),
    );
    metrics.gauge(
      "svc_durable_oldest_run_seconds",
      of(({ oldestRunMs }) => oldestRunMs / 1000),
    );
    metrics.gauge(
      "svc_durable_oldest_due_seconds",
      of(({ oldestDueMs }) => oldestDueMs / 1000),
    );
    metrics.gauge(
      "svc_oldest_wait_seconds",
      of(({ oldestWaitMs }) => oldestWaitMs / 1000),
    );
  }

  /** Reads the tables; null if another host does. While the store is unavailable, the last known values remain. */
  async read(tables: Scope | null): Promise<void> {
    if (tables === null) {
      this.#last = null;
      return;
    }
    const [oldest, rest] = await Promise.all([
      oldestDeliveryMs(tables).catch(() => this.#last?.oldestDeliveryMs ?? 0),
      backlog(tables).catch(() => this.#last ?? nothing),
    ]);
    this.#last = { ...rest, oldestDeliveryMs: oldest };
  }
}

const nothing: Backlog = { queued: 0, running: 0, parked: 0, oldestRunMs: 0, oldestDueMs: 0, oldestWaitMs: 0 };
