import type { Store } from "../store/store.ts";
import { deleteEndedDeliveries } from "./deliveries.ts";
import { deleteEndedDurables } from "./durable-sweeps.ts";
import { deleteExpiredKeys } from "./idempotency.ts";
import { deleteExpiredEntries } from "./kv.ts";
import { deleteUnusedBodies } from "./manifest-bodies.ts";
import { deleteUnusedFrames } from "./model-frames.ts";
import { deleteExpiredPlans } from "./plans.ts";
import { deleteFullBuckets } from "./rate-buckets.ts";
import { deleteEndedRuns } from "./runs.ts";
import { deleteExpiredLeases } from "./thread-leases.ts";

/** Rows of one batch, small enough not to delay other batches. */
const batchRows = 500;

/**
 * Deletes expired rows in batches: idempotency keys, key-value entries, plans, full rate buckets, thread leases, and
 * prompt prefixes without a context record. Returns their numbers.
 */
export async function deleteExpired(
  store: Store,
  now: number,
): Promise<{ idempotency: number; kv: number; plans: number; rate_buckets: number; leases: number; frames: number }> {
  return {
    idempotency: await inBatches((limit) => deleteExpiredKeys(store.system, now, limit)),
    kv: await inBatches((limit) => deleteExpiredEntries(store.system, now, limit)),
    plans: await inBatches((limit) => deleteExpiredPlans(store, now, limit)),
    rate_buckets: await inBatches((limit) => deleteFullBuckets(store.system, limit)),
    leases: await inBatches((limit) => deleteExpiredLeases(store.system, limit)),
    frames: await inBatches((limit) => deleteUnusedFrames(store.system, limit)),
  };
}

/** Deletes the rows of runs that ended at or before `until`, in batches. Returns their number. */
export async function deleteOldRuns(store: Store, until: number): Promise<number> {
  await inBatches((limit) => deleteEndedDurables(store.system, until, limit));
  return inBatches((limit) => deleteEndedRuns(store.system, until, limit));
}

/** Deletes the manifests that no run refers to, in batches. Returns their number. */
export function deleteOldBodies(store: Store): Promise<number> {
  return inBatches((limit) => deleteUnusedBodies(store.system, limit));
}

/** Deletes deliveries that ended at or before `until`, in batches. Returns their number. */
export function deleteOldDeliveries(store: Store, until: number): Promise<number> {
  return inBatches((limit) => deleteEndedDeliveries(store.system, until, limit));
}

async function inBatches(deleteSome: (limit: number) => Promise<number>): Promise<number> {
  let total = 0;
  while (true) {
    const deleted = await deleteSome(batchRows);
    total += deleted;
    if (deleted < batchRows) return total;
  }
}
