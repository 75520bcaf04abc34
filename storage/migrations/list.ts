import type { Migration } from "../store/migration.ts";
import { migration as threads } from "./0001_threads.ts";
import { migration as manifests } from "./0002_manifests.ts";
import { migration as governance } from "./0003_governance.ts";
import { migration as files } from "./0004_files.ts";
import { migration as search } from "./0005_search.ts";
import { migration as listIndexes } from "./0019_list_indexes.ts";
import { migration as runs } from "./0020_runs.ts";
import { migration as waits } from "./0021_waits.ts";
import { migration as growth } from "./0023_growth.ts";
import { migration as rateBuckets } from "./0024_rate_buckets.ts";
import { migration as sessionTree } from "./0025_session_tree.ts";
import { migration as fileStates } from "./0026_file_states.ts";
import { migration as approvals } from "./0027_approvals.ts";
import { migration as askedWaits } from "./0028_asked_waits.ts";
import { migration as queuedInputs } from "./0029_queued_inputs.ts";
import { migration as threadLeases } from "./0030_thread_leases.ts";
import { migration as plans } from "./0031_plans.ts";
import { migration as tasks } from "./0036_tasks.ts";
import { migration as taskWaits } from "./0040_task_waits.ts";
import { migration as fibers } from "./0041_fibers.ts";
import { migration as deliveries } from "./0045_deliveries.ts";
import { migration as jobs } from "./0046_jobs.ts";
import { migration as modelCalls } from "./0047_model_calls.ts";
import { migration as manifestBodies } from "./0048_manifest_bodies.ts";
import { migration as requeued } from "./0050_requeued.ts";
import { migration as oldestWaits } from "./0051_oldest_waits.ts";
import { migration as runBudgets } from "./0052_run_budgets.ts";
import { migration as waitsBeside } from "./0053_waits_beside.ts";
import { migration as lists } from "./0054_lists.ts";
import { migration as queuedWaits } from "./0055_queued_waits.ts";
import { migration as uploadsByAge } from "./0056_uploads_by_age.ts";
import { migration as runRates } from "./0057_run_rates.ts";
import { migration as unsaidThreads } from "./0058_unsaid_threads.ts";
import { migration as shortWords } from "./0059_short_words.ts";
import { migration as underWay } from "./0060_under_way.ts";
import { migration as fileShares } from "./0061_file_shares.ts";
import { migration as sharesOfForks } from "./0062_shares_of_forks.ts";
import { migration as settledShares } from "./0063_settled_shares.ts";
import { migration as claimsOfRuns } from "./0064_claims_of_runs.ts";
import { migration as threadlessWaits } from "./0065_threadless_waits.ts";
import { migration as threadBytes } from "./0066_thread_bytes.ts";
import { migration as heldRuns } from "./0067_held_runs.ts";

/** Every migration, in the order of the revisions. */
export const migrations: readonly Migration[] = [
  threads,
  manifests,
  governance,
  files,
  search,
  listIndexes,
  runs,
  waits,
  growth,
  rateBuckets,
  sessionTree,
  fileStates,
  approvals,
  askedWaits,
  queuedInputs,
  threadLeases,
  plans,
  tasks,
  taskWaits,
  fibers,
  deliveries,
  jobs,
  modelCalls,
  manifestBodies,
  requeued,
  oldestWaits,
  runBudgets,
  waitsBeside,
  lists,
  queuedWaits,
  uploadsByAge,
  runRates,
  unsaidThreads,
  shortWords,
  underWay,
  fileShares,
  sharesOfForks,
  settledShares,
  claimsOfRuns,
  threadlessWaits,
  threadBytes,
  heldRuns,
];
