import type { Logger } from "pino";
import { threadAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { Store } from "../storage/store/store.ts";
import { abandonedRuns } from "../storage/tables/abandoned-runs.ts";
import { dropThreadlessOps, threadlessWaits } from "../storage/tables/abandoned-waits.ts";
import { releaseDeliveries } from "../storage/tables/deliveries.ts";
import type { Gone } from "../storage/tables/hosts.ts";
import { releaseAbandonedKeys } from "../storage/tables/idempotency.ts";
import { wakeDeliveries } from "./due-deliveries.ts";

const pageRows = 500;
const recoverMsMax = 60_000;
const retryMs = { first: 500, longest: 30_000 };

/** Cleans up after a host or worker that is gone: closes its runs, and releases its idempotency keys and webhooks. */
export class AbandonedRuns {
  readonly #bus: Bus;
  readonly #store: Store;
  readonly #env: Env;
  readonly #log: Logger;
  /** The latest attempt for each gone host or worker, until one succeeds. */
  readonly #attempts = new Map<string, Promise<void>>();
  #stopped = false;

  constructor(bus: Bus, store: Store, env: Env, log: Logger) {
    this.#bus = bus;
    this.#store = store;
    this.#env = env;
    this.#log = log;
  }

  /**
   * Resolves after an attempt; a failed one is retried in the background, because the store or a thread may be unavailable.
   * Concurrent calls share one attempt.
   */
  close(gone: Gone): Promise<void> {
    return this.#attempts.get(JSON.stringify(gone)) ?? this.#begin(gone, retryMs.first);
  }

  #begin(gone: Gone, waitMs: number): Promise<void> {
    const attempt = this.#attempt(gone, waitMs);
    this.#attempts.set(JSON.stringify(gone), attempt);
    return attempt;
  }

  /** Never rejects. */
  async #attempt(gone: Gone, waitMs: number): Promise<void> {
    if (this.#stopped) return;
    try {
      await releaseDeliveries(this.#store.system, gone);
      await wakeDeliveries(this.#store, this.#bus, "due");
      const closed = await this.#closeRuns(gone);
      await this.#dropWaits(gone);
      // Last, because closing a run settles the key of its stream.
      await releaseAbandonedKeys(this.#store.system, gone);
      this.#attempts.delete(JSON.stringify(gone));
      if (closed > 0) this.#log.warn({ runs: closed }, "interrupted runs were closed");
    } catch (error) {
      if (this.#stopped) return;
      this.#log.warn({ err: error }, "interrupted runs could not be closed; the server tries again");
      this.#env.timer(waitMs, () => void this.#begin(gone, Math.min(waitMs * 2, retryMs.longest)));
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Deletes the waits of runs without a thread, which died with their process. */
  async #dropWaits(gone: Gone): Promise<void> {
    for (;;) {
      const page = await threadlessWaits(this.#store.system, gone, pageRows);
      for (const [tenantId, waits] of Map.groupBy(page, ({ tenant_id }) => tenant_id)) {
        const tenant = this.#store.tenant(tenantId);
        await tenant.write(waits.flatMap((wait) => dropThreadlessOps(tenant, wait)));
      }
      if (page.length < pageRows) return;
    }
  }

  /** Closes all runs that can be closed; throws if one could not. */
  async #closeRuns(gone: Gone): Promise<number> {
    const failures: unknown[] = [];
    let found = 0;
    for (let after = 0; ; ) {
      const page = await abandonedRuns(this.#store.system, gone, after, pageRows);
      const last = page.at(-1);
      if (!last) break;
      found += page.length;
      after = last.thread_key;
      // Loading the thread closes the run.
      const outcomes = await Promise.allSettled(
        page.map(({ tenant_id, suffix }) =>
          this.#bus.ask(threadAddress(tenant_id, suffix), "recover", {}, { deadlineMs: recoverMsMax }),
        ),
      );
      for (const outcome of outcomes) if (outcome.status === "rejected") failures.push(outcome.reason);
    }
    if (failures.length > 0) throw failures[0];
    return found;
  }
}
