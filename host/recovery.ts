import type { Logger } from "pino";
import { wakeDeliveries } from "../actors/delivery/due-deliveries.ts";
import { wakeCaptures } from "../actors/memory/due-memory.ts";
import { threadAddress, workspaceAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { Store } from "../storage/store/store.ts";
import { abandonedRuns } from "../storage/tables/abandoned-runs.ts";
import { dropThreadlessOps, threadlessWaits } from "../storage/tables/abandoned-waits.ts";
import { releaseCaptures } from "../storage/tables/captures.ts";
import { releaseDeliveries } from "../storage/tables/deliveries.ts";
import type { Gone } from "../storage/tables/hosts.ts";
import { releaseAbandonedKeys } from "../storage/tables/idempotency.ts";
import { eraseLostMemories } from "../storage/tables/memories.ts";
import { loseClones } from "../storage/tables/repo-checkouts.ts";
import { loseCommands } from "../storage/tables/shell-commands.ts";
import { releaseSkillJobs } from "../storage/tables/skill-jobs.ts";

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
      await releaseCaptures(this.#store.system, gone);
      await wakeCaptures(this.#store, this.#bus);
      await releaseSkillJobs(this.#store.system, gone);
      const closed = await this.#closeRuns(gone);
      await this.#dropWaits(gone);
      await loseCommands(this.#store.system, gone);
      // A clone that was cut off leaves folders.
      for (const { tenant_id, thread } of await loseClones(this.#store.system, gone))
        this.#bus.tell(workspaceAddress(tenant_id, thread), "repo_tidy", {});
      if ("hostsBut" in gone) while ((await eraseLostMemories(this.#store, gone.hostsBut, pageRows)) === pageRows);
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
