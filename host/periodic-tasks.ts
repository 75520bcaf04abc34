import type { Logger } from "pino";
import { eraseStrayGitDirs } from "../actors/checkouts/stray-folders.ts";
import { wakeDeliveries } from "../actors/delivery/due-deliveries.ts";
import { announceUpdates } from "../actors/delivery/skill-updates.ts";
import { wakeDueRuns } from "../actors/durable/due-waits.ts";
import { pushAgain } from "../actors/durable/lost-pushes.ts";
import { lookAtEvaluations, startDueEvaluations } from "../actors/evals/due-evaluations.ts";
import { lookAtJobs } from "../actors/jobs/due-jobs.ts";
import { nextTime } from "../actors/jobs/schedule.ts";
import { scanForAnomalies } from "../actors/manifests/anomaly-scan.ts";
import { consolidateDue, wakeCaptures } from "../actors/memory/due-memory.ts";
import { sweepDrafts } from "../actors/tools/workspace/drafts.ts";
import { lookAtWorkflows } from "../actors/workflow/due-workflows.ts";
import { eraseLeftFolders } from "../actors/workspace/left-folders.ts";
import { sumThreadBytes } from "../actors/workspace/thread-bytes.ts";
import { tidyUnused } from "../actors/workspace/unused-checkouts.ts";
import { durableAddress, skillJobsAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import type { Redis } from "../governance/egress/redis.ts";
import type { Metrics } from "../governance/metrics.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { SkillImports } from "../governance/skills/import/skill-imports.ts";
import { lookAtDue } from "../governance/skills/import/upstream-looks.ts";
import type { TextVectors } from "../governance/vectors/text-vectors.ts";
import { warnOfOtherVectors, workOnVectors } from "../governance/vectors/work-on-vectors.ts";
import type { ArtifactStore } from "../storage/files/artifact-store.ts";
import type { DocumentFiles } from "../storage/files/document-files.ts";
import type { FileStore } from "../storage/files/file-store.ts";
import type { Store } from "../storage/store/store.ts";
import {
  deleteExpired,
  deleteFinishedEvaluations,
  deleteFinishedSkillEvals,
  deleteFinishedWorkflowRuns,
  deleteOldBodies,
  deleteOldDeliveries,
  deleteOldRuns,
} from "../storage/tables/expired.ts";
import { indexEvents } from "../storage/tables/search.ts";
import { moveTimesAhead } from "../storage/tables/stored-times.ts";
import { eraseAbandoned } from "../storage/tables/unowned-logs.ts";
import type { Flushed } from "./actor-node.ts";
import { logHeads, tellSealers } from "./audit-seals.ts";
import type { HostLease } from "./host-lease.ts";
import { OnSchedule } from "./on-schedule.ts";
import { deleteByRetention, eraseOldLogs, type Retention } from "./retention.ts";
import type { PeriodicTask } from "./task-runner.ts";

// Background work that no request waits for, in one table.

const minuteMs = 60_000;
const hourMs = 3_600_000;
/** Max delay to notice a deadline, or an answer whose wake-up message was lost. */
const waitsMs = 1_000;
/** Max delay of a job's start, and of recording its outcome without a wake-up message. */
const jobsMs = 1_000;
/** Max delay of a deadline of a workflow, and of the next step after a crash or a lost message. */
const workflowsMs = 1_000;
/** Interval at which unfinished evaluations continue after a crash. */
const evalsMs = 5_000;
/** Interval of the cleanup of abandoned forks and deletions. */
const unownedMs = 30_000;
/** Interval at which new audit rows are sealed. */
const sealMs = 5_000;
const dayMs = 24 * hourMs;
/** Max delay to continue after a failure of the embedder, and between two pages of `svc embeddings rebuild`. */
const vectorsIdleMs = 15_000;
const vectorsBusyMs = 200;
const indexIdleMs = 2_000;
const indexBusyMs = 50;
/** The index pauses for this many times the duration of its last batch, so that it yields to turns on a busy server. */
const indexPause = 20;

/** The settings that tasks use. */
export type TaskSettings = Pick<
  Settings,
  | "auditKey"
  | "repoCheckoutRoot"
  | "repoCheckoutTtlDays"
  | "repoCloneTimeoutSeconds"
  | "workspaceRoot"
  | "tenantThreadBytes"
  | "runRetentionDays"
  | "durablePollSeconds"
  | "skillImportCheckHours"
  | "skillUpdateWebhooks"
  | keyof Retention
>;

/** The dependencies of the built-in tasks. */
export interface TaskDeps {
  readonly settings: TaskSettings;
  /** Id of this process among the hosts. */
  readonly host: string;
  readonly store: Store;
  readonly lease: HostLease;
  readonly env: Env;
  readonly bus: Bus;
  readonly files: FileStore;
  readonly artifacts: ArtifactStore;
  readonly documentFiles: DocumentFiles;
  readonly textVectors: TextVectors;
  readonly skillImports: SkillImports;
  readonly metrics: Pick<Metrics, "count">;
  /** Null without SVC_REDIS_URL. */
  readonly redis: Pick<Redis, "command"> | null;
  /** Makes every thread write its buffered rows. Returns false if the store does not accept all of them. */
  flush(what: Flushed): Promise<boolean>;
  readonly log: Pick<Logger, "info" | "warn">;
}

interface RunDeps extends TaskDeps {
  /** Tasks that have already run in this process. */
  readonly done: Set<string>;
}

/** Runs a task once, and returns the milliseconds until it is due again. */
type Work = (deps: RunDeps) => Promise<number>;

/** A task: its work, or its work with the rules about its times. */
type TaskDeclaration =
  | Work
  | { readonly run: Work; readonly whileDraining?: true; readonly onTicks?: true }
  /** `schedule` is five fields in UTC. */
  | { readonly schedule: string; readonly run: (deps: RunDeps) => Promise<void> };

type TaskTable = Readonly<Record<string, TaskDeclaration>>;

/** Tasks that every process runs. */
const ofProcess: TaskTable = {
  // The lease is kept until the process has drained.
  host_lease: { whileDraining: true, run: ({ lease }) => lease.keep() },
  async abandoned_runs({ lease, done }) {
    // The start of the process has already cleaned up.
    if (done.has("abandoned_runs")) await lease.lookForGone();
    done.add("abandoned_runs");
    return minuteMs;
  },
  async due_waits({ store, bus }) {
    await wakeDueRuns(store, bus);
    return waitsMs;
  },
  flush_audit: (deps) => flushEverywhere(deps, "audit"),
  flush_usage: (deps) => flushEverywhere(deps, "usage"),
  async search_index({ store, env }) {
    const startedAt = env.monotonic();
    if (await indexEvents(store, 1, env)) return indexIdleMs;
    return Math.max(indexBusyMs, indexPause * (env.monotonic() - startedAt));
  },
};

/** Tasks of a process with the duty `worker`. */
const ofWorker: TaskTable = {
  async fiber_poll({ bus, host, settings: { durablePollSeconds } }) {
    if (durablePollSeconds === 0) return hourMs;
    bus.tell(durableAddress(host), "look", { all: false });
    return durablePollSeconds * 1_000;
  },
  async lost_pushes({ store, redis }) {
    if (redis !== null) await pushAgain(store, redis);
    return minuteMs;
  },
};

/** Tasks that a scheduler starts and a worker runs. */
const ofScheduler: TaskTable = {
  async webhook_delivery({ store, bus, done }) {
    // At the start also wake deliveries that are due later: their endpoint may have been removed.
    await wakeDeliveries(store, bus, done.has("webhook_delivery") ? "due" : "all");
    done.add("webhook_delivery");
    return minuteMs;
  },
  async fiber_scheduler({ bus, host }) {
    bus.tell(durableAddress(host), "look", { all: true });
    return minuteMs;
  },
  run_scheduled_jobs: {
    onTicks: true,
    async run({ store, bus }) {
      await lookAtJobs(store, bus);
      return jobsMs;
    },
  },
  workflow_runs: {
    onTicks: true,
    async run({ store, bus }) {
      await lookAtWorkflows(store, bus);
      return workflowsMs;
    },
  },
  async eval_runs({ store, bus }) {
    await lookAtEvaluations({ store, bus });
    return evalsMs;
  },
  continuous_eval: { schedule: "*/10 * * * *", run: startDueEvaluations },
  skill_upstream_checks: {
    schedule: "*/10 * * * *",
    async run({ settings, store, env, skillImports: imports }) {
      if (settings.skillImportCheckHours > 0) await lookAtDue({ settings, store, env, imports });
    },
  },
  skill_update_notifications: { schedule: "* * * * *", run: announceUpdates },
  skill_jobs: { schedule: "* * * * *", run: async ({ bus }) => bus.tell(skillJobsAddress(), "sweep", {}) },
  async memory_captures({ store, bus }) {
    await wakeCaptures(store, bus);
    return minuteMs;
  },
  consolidate_memory: { schedule: "*/15 * * * *", run: ({ store, bus }) => consolidateDue(store, bus) },
  async stored_times({ store, log }) {
    const moved = await moveTimesAhead(store.system, nextTime);
    if (moved.jobs + moved.runs + moved.deliveries > 0)
      log.warn(moved, "times stored too far in the future were reset: a clock was ahead when they were stored");
    return minuteMs;
  },
  async lapsed_rows({ store, env }) {
    await deleteExpired(store, env.now());
    return hourMs;
  },
  async old_runs(deps) {
    await sweepRuns(deps);
    return hourMs;
  },
  async audit_seal(deps) {
    await tellSealers(deps);
    return sealMs;
  },
  audit_heads: { schedule: "0 * * * *", run: logHeads },
  anomaly_scan: { schedule: "*/30 * * * *", run: scanForAnomalies },
  retention_sweep: { schedule: "0 3 * * *", run: sweepEverything },
  async dropped_files({ files, artifacts, documentFiles, store }) {
    await Promise.all([files, artifacts, documentFiles].map((swept) => swept.sweep(store)));
    return minuteMs;
  },
  async thread_bytes({ settings: { tenantThreadBytes, workspaceRoot }, store, env }) {
    if (tenantThreadBytes === 0) return hourMs;
    await sumThreadBytes(store, workspaceRoot, env);
    return minuteMs;
  },
  async text_vectors({ store, textVectors, log, done }) {
    if (!done.has("text_vectors")) await warnOfOtherVectors(store, textVectors, log);
    done.add("text_vectors");
    return (await workOnVectors(store, textVectors)) ? vectorsBusyMs : vectorsIdleMs;
  },
  async unowned_logs({ store }) {
    await eraseAbandoned(store);
    return unownedMs;
  },
  async old_checkouts({ settings, store, env, bus }) {
    const { repoCheckoutRoot, workspaceRoot } = settings;
    if (workspaceRoot === null) return hourMs;
    await tidyUnused({ settings, store, env, bus });
    await eraseStrayGitDirs(store, repoCheckoutRoot, env);
    return hourMs;
  },
  async workspace_drafts({ settings: { workspaceRoot }, env, done }) {
    if (workspaceRoot === null) return hourMs;
    // At the start, all drafts are left over from an earlier process.
    const before = done.has("workspace_drafts") ? env.now() - hourMs : env.now();
    done.add("workspace_drafts");
    await eraseLeftFolders(workspaceRoot, before, env);
    await sweepDrafts(workspaceRoot, env);
    return hourMs;
  },
};

async function flushEverywhere({ flush }: RunDeps, what: Flushed): Promise<number> {
  if (!(await flush(what))) throw new SvcError("storage_unavailable");
  return minuteMs;
}

/** Deletes expired rows, and data older than its retention. */
async function sweepEverything(deps: RunDeps): Promise<void> {
  const { store, env, files, artifacts, documentFiles, log } = deps;
  const expired = await deleteExpired(store, env.now());
  await sweepRuns(deps);
  const byRetention = await deleteByRetention(deps);
  log.info({ ...expired, ...byRetention }, "expired rows were deleted");
  // A file that cannot be deleted must not repeat the whole sweep; `dropped_files` retries it each minute.
  for (const swept of [files, artifacts, documentFiles])
    await swept
      .sweep(store)
      .catch((error: unknown) =>
        log.warn({ err: error }, "some deleted files are still in the object store; the sweep tries again"),
      );
}

async function sweepRuns(deps: RunDeps): Promise<void> {
  const { store, env, settings } = deps;
  if (settings.runRetentionDays !== 0) {
    const until = env.now() - settings.runRetentionDays * dayMs;
    await eraseOldLogs(deps, until);
    await deleteOldRuns(store, until);
    await deleteFinishedEvaluations(store, until);
    await deleteFinishedWorkflowRuns(store, until);
    await deleteFinishedSkillEvals(store, until);
    await deleteOldDeliveries(store, until);
  }
  await deleteOldBodies(store);
}

const tables = { process: ofProcess, worker: ofWorker, scheduler: ofScheduler } as const;

/** The names of the built-in tasks. */
export const taskNames: readonly string[] = Object.values(tables).flatMap((table) => Object.keys(table));

/** Returns the built-in tasks. */
export function periodicTasks(given: TaskDeps): PeriodicTask[] {
  const deps: RunDeps = { ...given, done: new Set() };
  return (["process", "worker", "scheduler"] as const).flatMap((of) =>
    Object.entries(tables[of]).map(([name, declared]) => ({ name, of, ...taskOf(name, declared, deps) })),
  );
}

function taskOf(name: string, declared: TaskDeclaration, deps: RunDeps): Omit<PeriodicTask, "name" | "of"> {
  if (typeof declared === "function") return { run: () => declared(deps) };
  if ("schedule" in declared) {
    const schedule = new OnSchedule(name, declared.schedule);
    return { run: (why) => schedule.run(why, deps, () => declared.run(deps)) };
  }
  return { ...declared, run: () => declared.run(deps) };
}
