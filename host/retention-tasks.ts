import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { RepeatedTask, ScheduledTask } from "../bus/task-declaration.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { ArtifactStore } from "../storage/files/artifact-store.ts";
import type { DocumentFiles } from "../storage/files/document-files.ts";
import type { FileStore } from "../storage/files/file-store.ts";
import type { Store } from "../storage/store/store.ts";
import {
  deleteExpired,
  deleteFinishedEvaluations,
  deleteFinishedSkillEvals,
  deleteOldBodies,
  deleteOldDeliveries,
  deleteOldRuns,
} from "../storage/tables/expired.ts";
import { deleteByRetention, eraseOldLogs, type Retention } from "./retention.ts";
import { dropOldRevisions, eraseOldWorkflowRuns } from "./workflow-retention.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

interface Deps {
  readonly settings: Retention & Pick<Settings, "auditKey" | "runRetentionDays" | "triggers">;
  readonly store: Store;
  readonly env: Env;
  readonly bus: Bus;
  readonly files: FileStore;
  readonly artifacts: ArtifactStore;
  readonly documentFiles: DocumentFiles;
  readonly log: Pick<Logger, "info" | "warn">;
}

/** Deletes expired rows. */
export const lapsedRowsTask: RepeatedTask<Deps> = {
  name: "lapsed_rows",
  of: "scheduler",
  async run({ store, env }) {
    await deleteExpired(store, env.now());
    return hourMs;
  },
};

/** Deletes ended runs that are older than their retention. */
export const oldRunsTask: RepeatedTask<Deps> = {
  name: "old_runs",
  of: "scheduler",
  async run(deps) {
    await sweepRuns(deps);
    return hourMs;
  },
};

/** Deletes the bytes of deleted files. */
export const droppedFilesTask: RepeatedTask<Deps> = {
  name: "dropped_files",
  of: "scheduler",
  async run({ files, artifacts, documentFiles, store }) {
    await Promise.all([files, artifacts, documentFiles].map((swept) => swept.sweep(store)));
    return minuteMs;
  },
};

/** Deletes expired rows, and data older than its retention. */
export const retentionTask: ScheduledTask<Deps> = {
  name: "retention_sweep",
  of: "scheduler",
  schedule: "0 3 * * *",
  async run(deps) {
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
  },
};

async function sweepRuns(deps: Deps): Promise<void> {
  const { store, env, settings } = deps;
  if (settings.runRetentionDays !== 0) {
    const until = env.now() - settings.runRetentionDays * dayMs;
    await eraseOldLogs(deps, until);
    await deleteOldRuns(store, until);
    await deleteFinishedEvaluations(store, until);
    await eraseOldWorkflowRuns(deps, until);
    await deleteFinishedSkillEvals(store, until);
    await deleteOldDeliveries(store, until);
  }
  await dropOldRevisions(deps);
  await deleteOldBodies(store);
}
