import type { Logger } from "pino";
import { deliveriesTask } from "../actors/delivery/due-deliveries.ts";
import { skillUpdatesTask } from "../actors/delivery/skill-updates.ts";
import { dueWaitsTask } from "../actors/durable/due-waits.ts";
import { pollTask, runSchedulerTask } from "../actors/durable/durable-actor.ts";
import { lostPushesTask } from "../actors/durable/lost-pushes.ts";
import { continuousEvalTask, evaluationsTask } from "../actors/evals/due-evaluations.ts";
import { jobsTask } from "../actors/jobs/due-jobs.ts";
import { storedTimesTask } from "../actors/jobs/stored-times.ts";
import { anomalyTask } from "../actors/manifests/anomaly-scan.ts";
import { capturesTask, consolidateTask } from "../actors/memory/due-memory.ts";
import { skillJobsTask } from "../actors/skill-jobs/skill-jobs-actor.ts";
import { workflowsTask } from "../actors/workflow/due-workflows.ts";
import { leftFoldersTask } from "../actors/workspace/left-folders.ts";
import { threadBytesTask } from "../actors/workspace/thread-bytes.ts";
import { checkoutsTask } from "../actors/workspace/unused-checkouts.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { TaskDeclaration } from "../bus/task-declaration.ts";
import type { Redis } from "../governance/egress/redis.ts";
import type { Metrics } from "../governance/metrics.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { SkillImports } from "../governance/skills/import/skill-imports.ts";
import { upstreamChecksTask } from "../governance/skills/import/upstream-looks.ts";
import type { TextVectors } from "../governance/vectors/text-vectors.ts";
import { vectorsTask } from "../governance/vectors/work-on-vectors.ts";
import type { ArtifactStore } from "../storage/files/artifact-store.ts";
import type { DocumentFiles } from "../storage/files/document-files.ts";
import type { FileStore } from "../storage/files/file-store.ts";
import type { Store } from "../storage/store/store.ts";
import { searchIndexTask } from "../storage/tables/search.ts";
import { unownedLogsTask } from "../storage/tables/unowned-logs.ts";
import type { Flushed } from "./actor-node.ts";
import { headsTask, sealTask } from "./audit-seals.ts";
import { flushTasks } from "./flush-tasks.ts";
import { goneHostsTask, type HostLease, leaseTask } from "./host-lease.ts";
import { OnSchedule } from "./on-schedule.ts";
import type { Retention } from "./retention.ts";
import { droppedFilesTask, lapsedRowsTask, oldRunsTask, retentionTask } from "./retention-tasks.ts";
import type { PeriodicTask } from "./task-runner.ts";

/** The settings that tasks use. */
export type TaskSettings = Pick<
  Settings,
  | "auditKey"
  | "triggers"
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

/** The services of the built-in tasks. */
export interface TaskDeps {
  readonly settings: TaskSettings;
  /** Id of this process among the hosts. */
  readonly host: string;
  /** The start of the process, in epoch milliseconds. */
  readonly startedAt: number;
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

/** Background work that no request waits for. */
const declared: readonly TaskDeclaration<TaskDeps>[] = [
  leaseTask,
  goneHostsTask,
  dueWaitsTask,
  ...flushTasks,
  searchIndexTask,
  pollTask,
  lostPushesTask,
  deliveriesTask,
  runSchedulerTask,
  jobsTask,
  workflowsTask,
  evaluationsTask,
  continuousEvalTask,
  upstreamChecksTask,
  skillUpdatesTask,
  skillJobsTask,
  capturesTask,
  consolidateTask,
  storedTimesTask,
  lapsedRowsTask,
  oldRunsTask,
  sealTask,
  headsTask,
  anomalyTask,
  retentionTask,
  droppedFilesTask,
  threadBytesTask,
  vectorsTask,
  unownedLogsTask,
  checkoutsTask,
  leftFoldersTask,
];

/** The names of the built-in tasks. */
export const taskNames: readonly string[] = declared.map(({ name }) => name);

/** Returns the built-in tasks. */
export function periodicTasks(deps: TaskDeps): PeriodicTask[] {
  return declared.map((task) => {
    const { name } = task;
    if ("schedule" in task) {
      const schedule = new OnSchedule(name, task.schedule);
      return { name, of: task.of, run: (why) => schedule.run(why, deps, () => task.run(deps)) };
    }
    let isFirst = true;
    return {
      ...task,
      async run() {
        const pauseMs = await task.run(deps, { isFirst });
        isFirst = false;
        return pauseMs;
      },
    };
  });
}
