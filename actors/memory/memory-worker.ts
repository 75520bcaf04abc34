import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { holds } from "../../governance/settings/duties.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { backOffMs } from "../../storage/tables/back-off.ts";
import { type CaptureRow, claimCaptures, endCaptureOp, putOffCaptureOp } from "../../storage/tables/captures.ts";
import { type DuePool, duePools, putOffPoolOp, settlePoolOp } from "../../storage/tables/memory-pools.ts";
import { QuestionTooLarge } from "../questions/model-question.ts";
import { Cancellation } from "../runtime/cancellation.ts";
import type { LiveRun } from "../runtime/live-runs.ts";
import { capture } from "./capture.ts";
import { consolidate } from "./consolidate.ts";
import type { MemoryDeps } from "./deps.ts";

/** Captures at the same time for one tenant. */
const atOnce = 4;
/** A claim lasts longer than the calls of a capture. The claims of a host that is gone end with its lease. */
const claimMs = 600_000;
const attemptsMax = 3;
const retryMs = 30_000;
/** Pause of work whose agent is frozen, and the first pause of a capture whose budget is spent. */
const pausedMs = 300_000;
/** Each pause for a budget is twice as long as the one before, up to this. */
const longestPauseMs = 21_600_000;
/** Pauses for budgets take 31 days, within which a monthly budget begins anew. */
const pausesMax = 130;
/** Pools that a tenant merges for one run of the task. */
const poolsMax = 50;
/** A pool that failed so often waits for new facts. */
const poolFailuresMax = 10;

/** Captures and consolidates the memories of one tenant. Its state is a cache: the work is in the store. */
export class MemoryWorker {
  readonly #env: Env;
  readonly #deps: MemoryDeps;
  readonly #store: TenantStore;
  #capturing = false;
  #again = false;
  #merging = false;
  #stopped = false;

  constructor(tenantId: string, env: Env, deps: MemoryDeps) {
    this.#env = env;
    this.#deps = deps;
    this.#store = deps.store.tenant(tenantId);
  }

  /** True if the worker can be dropped from memory. */
  get isIdle(): boolean {
    return !this.#capturing && !this.#merging;
  }

  /** Starts no more work. Work in progress ends by itself, or with the drain. */
  stop(): void {
    this.#stopped = true;
  }

  /** Captures the due turns in the background. Calls during that cause one more look. */
  wake(): void {
    if (!holds(this.#deps.settings, "worker")) return;
    this.#again = true;
    if (this.#capturing) return;
    this.#capturing = true;
    void this.#captureAll().finally(() => {
      this.#capturing = false;
    });
  }

  /** Merges the due pools in the background. Calls during that have no effect. */
  merge(): void {
    if (!holds(this.#deps.settings, "worker")) return;
    if (this.#merging) return;
    this.#merging = true;
    void this.#mergeAll().finally(() => {
      this.#merging = false;
    });
  }

  async #captureAll(): Promise<void> {
    try {
      while (this.#again && !this.#stopped) {
        this.#again = false;
        const rows = await claimCaptures(this.#store, { owner: this.#deps.owner, forMs: claimMs, limit: atOnce });
        if (rows.length === atOnce) this.#again = true;
        await Promise.all(rows.map((row) => this.#capture(row)));
      }
    } catch (err) {
      // The turns stay due in the store.
      this.#deps.log.warn({ err }, "turns could not be captured: the store does not answer");
    }
  }

  async #capture(row: CaptureRow): Promise<void> {
    const work = this.#begin();
    const { cancellation } = work;
    try {
      if (row.attempts > attemptsMax) {
        await this.#store.write([endCaptureOp(this.#store, row)]);
        return;
      }
      const outcome = await capture(row, this.#context(cancellation));
      this.#deps.metrics.count("svc_memory_captures_total", { outcome });
    } catch (err) {
      await this.#failed(row, err, cancellation.cancelled);
    } finally {
      this.#deps.liveRuns.delete(work);
    }
  }

  async #failed(row: CaptureRow, err: unknown, isStopped: boolean): Promise<void> {
    const { run_id, manifest_id } = row;
    if (isStopped) return this.#putOff(row, 0, "nothing");
    if (isFrozen(err)) return this.#putOff(row, pausedMs, "nothing");
    const isSpent = err instanceof SvcError && err.code === "budget_exceeded";
    if (isSpent && row.pauses < pausesMax)
      return this.#putOff(row, Math.min(longestPauseMs, pausedMs * 2 ** row.pauses), "pause");
    const isLast = isSpent || err instanceof QuestionTooLarge || row.attempts >= attemptsMax;
    this.#deps.log.warn(
      { err, run_id, manifest_id, attempt: row.attempts },
      isLast
        ? "the facts of a turn could not be captured"
        : "the facts of a turn could not be captured; it is tried again",
    );
    if (!isLast) return this.#putOff(row, retryMs * row.attempts, "attempt");
    this.#deps.metrics.count("svc_memory_captures_total", { outcome: "failed" });
    await this.#store.write([endCaptureOp(this.#store, row)]).catch(() => {});
  }

  async #putOff(row: CaptureRow, ms: number, counts: "attempt" | "pause" | "nothing"): Promise<void> {
    await this.#store.write([putOffCaptureOp(this.#store, row, ms, counts)]).catch(() => {});
  }

  async #mergeAll(): Promise<void> {
    try {
      for (const pool of await duePools(this.#store, poolsMax)) {
        if (this.#stopped) return;
        await this.#merge(pool);
      }
    } catch (err) {
      // The pools stay due in the store.
      this.#deps.log.warn({ err }, "memories could not be consolidated: the store does not answer");
    }
  }

  async #merge(pool: DuePool): Promise<void> {
    const work = this.#begin();
    const { manifest_id, failures, new_facts, after_facts } = pool;
    try {
      const superseded = await consolidate(pool, this.#context(work.cancellation));
      if (superseded > 0) this.#deps.log.info({ manifest_id, superseded }, "duplicate memories were merged");
    } catch (err) {
      // The next process merges the pool.
      if (work.cancellation.cancelled) return;
      if (isFrozen(err)) {
        await this.#store.write([putOffPoolOp(this.#store, pool, pausedMs, false)]);
        return;
      }
      this.#deps.log.warn({ err, manifest_id, failures: failures + 1 }, "memories could not be consolidated");
      const op =
        failures + 1 < poolFailuresMax
          ? putOffPoolOp(this.#store, pool, backOffMs(failures + 1), true)
          : settlePoolOp(this.#store, pool, new_facts, after_facts);
      await this.#store.write([op]);
    } finally {
      this.#deps.liveRuns.delete(work);
    }
  }

  #context(cancellation: Cancellation) {
    return { store: this.#store, env: this.#env, deps: this.#deps, cancellation };
  }

  /** Registers work that a drain waits for and ends. */
  #begin(): LiveRun & { readonly cancellation: Cancellation } {
    const cancellation = new Cancellation();
    const abort = (): void => {
      this.stop();
      cancellation.cancel();
    };
    // The next process repeats the work, so a drain does not wait for the model.
    const work = { slot: -1, cancellation, abort, drain: abort };
    this.#deps.liveRuns.add(work);
    return work;
  }
}

function isFrozen(err: unknown): boolean {
  return err instanceof SvcError && err.code === "frozen";
}
