import type { Store } from "../store/store.ts";
import { deleteOldSpending } from "./budget-spending.ts";
import { deleteEndedDeliveries } from "./deliveries.ts";
import { deleteEndedDurables } from "./durable-sweeps.ts";
import { deleteOldEvalRuns } from "./eval-runs.ts";
import { deleteExpiredKeys } from "./idempotency.ts";
import { deleteExpiredEntries } from "./kv.ts";
import { deleteUnusedBodies } from "./manifest-bodies.ts";
import { deleteUnusedFrames } from "./model-frames.ts";
import { deleteExpiredPlans } from "./plans.ts";
import { deleteExpiredQuarantine } from "./quarantine.ts";
import { deleteFullBuckets } from "./rate-buckets.ts";
import { deleteEndedRuns } from "./runs.ts";
import { deleteOldRuntimeKeys } from "./runtime-keys.ts";
import { deleteOldCommands } from "./shell-commands.ts";
import { deleteOldSignInGrants } from "./sign-in-grants.ts";
import { deleteOldSkillEvals } from "./skill-evals.ts";
import { deleteOldTrees } from "./skill-upstreams.ts";
import { deleteExpiredLeases } from "./thread-leases.ts";

/** Time that the spending of a budget is kept after the beginning of its period: more than a year. */
const spendingKeptMs = 400 * 86_400_000;
/** Time that a version of a skill at a code host is remembered: more than the longest wait for its import. */
const treesKeptMs = 400 * 86_400_000;
/** Rows of one batch, small enough not to delay other batches. */
const batchRows = 500;
/** Longer than stored work follows a sign-in. */
const accessKeptMs = 60 * 86_400_000;

/**
 * Deletes expired rows in batches: idempotency keys, key-value entries, plans, quarantined texts, full rate buckets, thread
 * leases, old spending of budgets, old API keys and sign-ins, finished background commands, versions of skills that were seen long ago, and
 * prompt prefixes without a context record. Returns their numbers.
 */
export async function deleteExpired(
  store: Store,
  now: number,
): Promise<
  Record<
    | "idempotency"
    | "kv"
    | "plans"
    | "quarantine"
    | "rate_buckets"
    | "leases"
    | "frames"
    | "budgets"
    | "commands"
    | "skill_trees"
    | "keys"
    | "sign_ins",
    number
  >
> {
  return {
    idempotency: await inBatches((limit) => deleteExpiredKeys(store.system, now, limit)),
    kv: await inBatches((limit) => deleteExpiredEntries(store.system, now, limit)),
    plans: await inBatches((limit) => deleteExpiredPlans(store, now, limit)),
    quarantine: await inBatches((limit) => deleteExpiredQuarantine(store, now, limit)),
    rate_buckets: await inBatches((limit) => deleteFullBuckets(store.system, limit)),
    leases: await inBatches((limit) => deleteExpiredLeases(store.system, limit)),
    frames: await inBatches((limit) => deleteUnusedFrames(store.system, limit)),
    budgets: await inBatches((limit) => deleteOldSpending(store.system, now - spendingKeptMs, limit)),
    skill_trees: await inBatches((limit) => deleteOldTrees(store.system, now - treesKeptMs, limit)),
    commands: await inBatches((limit) => deleteOldCommands(store.system, now, limit)),
    keys: await inBatches((limit) => deleteOldRuntimeKeys(store.system, now - accessKeptMs, limit)),
    sign_ins: await inBatches((limit) => deleteOldSignInGrants(store.system, now - accessKeptMs, limit)),
  };
}

/** Deletes the rows of runs that ended at or before `until`, in batches. Returns their number. */
export async function deleteOldRuns(store: Store, until: number): Promise<number> {
  await inBatches((limit) => deleteEndedDurables(store.system, until, limit));
  return inBatches((limit) => deleteEndedRuns(store.system, until, limit));
}

/** Deletes evaluations that finished at or before `until`, in batches. Returns their number. */
export async function deleteFinishedEvaluations(store: Store, until: number): Promise<number> {
  let total = 0;
  while (true) {
    // Each may have a thousand scores.
    const deleted = await deleteOldEvalRuns(store, until, 5);
    total += deleted;
    if (deleted < 5) return total;
  }
}

/** Deletes evaluations of skills that finished at or before `until`, in batches. Returns their number. */
export function deleteFinishedSkillEvals(store: Store, until: number): Promise<number> {
  return inBatches((limit) => deleteOldSkillEvals(store, until, limit));
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
