import { SvcError } from "../../../bus/errors.ts";
import { requestMs } from "../../../storage/store/store.ts";
import type { PluginRunServices } from "../../plugin.ts";
import type { ProductVectors } from "../catalog/products.ts";
import { type EntityConnector, SourceError } from "../sources/connector.ts";
import { sourceNotSynced } from "../sources/entity-codes.ts";
import { effectiveSource, type SourceDeps } from "../sources/entity-source.ts";
import {
  advanceJobOp,
  claimJobOp,
  deleteEndedJobs,
  dueJobs,
  type EntityType,
  failJobOp,
  insertJobOp,
  type JobRow,
  jobById,
  liveJob,
} from "../sources/entity-tables.ts";
import { applyRecords } from "./apply.ts";

// Pulls the copies of a type from the system that a tenant names, page by page. Each page is stored with the cursor of the next one, so
// that another process continues where a killed one stopped.

/** The services of a pull. */
export interface SyncDeps extends SourceDeps {
  readonly allStores: Parameters<typeof applyRecords>[0]["store"];
  readonly textVectors: ProductVectors;
}

/** Records of a page. */
const pageRecords = 200;
const pagesMax = 1_000;
/** A page that takes longer is taken over by another process. */
const pageMs = 60_000;
const lookMs = 15_000;
const jobsMax = 10;
const keptMs = 30 * 86_400_000;

/** Starts a pull, or returns the one that is running. Refuses with source_not_synced. */
export async function startSync(
  deps: SyncDeps,
  type: EntityType,
): Promise<{ job: JobRow; connector: EntityConnector | null }> {
  const source = await effectiveSource(deps, type);
  if (source.mode !== "synced" || source.connector === null) throw new SvcError(sourceNotSynced);
  const now = deps.env.now();
  const job: JobRow = {
    ...{
      id: `sync_${deps.env.id()}`,
      type,
      ts: now,
      status: "running",
      cursor: null,
      pages: 0,
      applied: 0,
      skipped: 0,
    },
    ...{ failed: 0, problem: "", claim: 0, due_at: now + pageMs },
  };
  try {
    await deps.store.write([insertJobOp(deps.store, job)], requestMs);
    return { job, connector: source.connector };
  } catch (error) {
    if (SvcError.from(error).code !== "conflict") throw error;
    const live = await liveJob(deps.store, type);
    if (live === undefined) throw error;
    return { job: live, connector: null };
  }
}

/** Pulls the pages of a job that this process has, until it ends or another process has it. */
export async function pullPages(deps: SyncDeps, job: JobRow, connector: EntityConnector): Promise<void> {
  const { env, store, textVectors } = deps;
  let { cursor, pages } = job;
  const seen = new Set<string>();
  try {
    for (;;) {
      const page = await connector.list(job.type, pageRecords, cursor);
      const next = page.next_cursor;
      pages++;
      if (next !== null && (next === cursor || seen.has(next))) throw new SourceError("the source repeats a cursor");
      if (next !== null && pages >= pagesMax) throw new SourceError(`the source has more than ${pagesMax} pages`);
      if (next !== null) seen.add(next);
      const status = next === null ? "done" : "running";
      const to = { env, store: deps.allStores, tenantId: store.tenantId, textVectors };
      await applyRecords(to, job.type, page.records, {
        more: ({ applied, skipped, failed }) => [
          advanceJobOp(store, job, { cursor: next, applied, skipped, failed, status, due_at: env.now() + pageMs }),
        ],
      });
      if (next === null) return;
      cursor = next;
    }
  } catch (error) {
    // Another process has the job, or its tenant ended it.
    if (SvcError.from(error).code === "conflict") return;
    const problem = error instanceof SourceError ? error.message : "the records could not be stored";
    await store.write([failJobOp(store, job, problem)]).catch(() => {});
  }
}

/** Continues jobs that their process has left; returns the milliseconds until the next look. */
export async function continueJobs(services: PluginRunServices): Promise<number> {
  const { store, env } = services;
  for (const { tenant_id, job } of await dueJobs(store, env.now(), jobsMax)) {
    const deps: SyncDeps = { ...services, store: store.tenant(tenant_id), allStores: store };
    try {
      await deps.store.write([claimJobOp(deps.store, job, env.now() + pageMs)]);
    } catch {
      continue;
    }
    const claimed = { ...job, claim: job.claim + 1 };
    const source = await effectiveSource(deps, job.type);
    if (source.mode === "synced" && source.connector !== null) await pullPages(deps, claimed, source.connector);
    else await deps.store.write([failJobOp(deps.store, claimed, "the source is not synced any more")]);
  }
  await deleteEndedJobs(store, env.now() - keptMs);
  return lookMs;
}

/** Waits until a job ends, at most `waitMs`; returns it as it is then. */
export async function awaitJob(
  deps: SyncDeps,
  id: string,
  waitMs: number,
  isGone: () => boolean,
): Promise<JobRow | undefined> {
  const until = deps.env.monotonic() + waitMs;
  for (let pause = 20; ; pause = Math.min(500, pause * 2)) {
    const job = await jobById(deps.store, id);
    if (job === undefined || job.status !== "running" || deps.env.monotonic() >= until || isGone()) return job;
    await new Promise<void>((resolve) => deps.env.timer(pause, resolve));
  }
}
