import { jobSuffix } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskedJob, JobsMessages } from "../../bus/protocol/jobs.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { type AuditEvent, auditOp } from "../../governance/audit.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { deleteJobRunsOp } from "../../storage/tables/job-runs.ts";
import { hasJobs, type JobRow, removeJob, storedJob, storeNow, writeJob } from "../../storage/tables/jobs.ts";
import { liveWorkflow } from "../../storage/tables/workflows.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import type { JobsDeps } from "./deps.ts";
import { fireDue, fireNow } from "./fire.ts";
import { nextTime } from "./schedule.ts";
import { settleRuns } from "./settle.ts";

interface JobsState {
  readonly store: TenantStore;
}

/** Max jobs of a tenant. */
const jobsMax = 1_000;

/** Owns the jobs of one tenant. It has no state of its own: everything is in the store. */
export const jobsActor = defineActor<"jobs", JobsState, JobsDeps>({
  kind: "jobs",
  mailboxLimit: 256,
  interleaves: [],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, deps }) => ({ store: deps.store.tenant(key) }),
  idle: () => true,
  crashed: () => {},
  on: {
    async put({ store }, asked, context) {
      await onceMore(() => putJob(store, asked, context));
      return {};
    },

    async remove({ store }, { name, principal }, { deps, env }) {
      await onceMore(async () => {
        const job = await storedJob(store, name);
        if (job === undefined) throw new SvcError("not_found");
        const ops = [
          deleteJobRunsOp(store, name),
          auditOp(store, { env, mask: deps.mask }, changed("job_deleted", job, principal)),
        ];
        await removeJob(store, job, ops);
      });
      return {};
    },

    async run({ store }, { name, principal }, context) {
      await settleRuns(store, context);
      return { run_id: await fireNow(store, name, principal, context) };
    },

    async settle({ store }, _body, context) {
      await settleRuns(store, context);
      return {};
    },

    async look({ store }, _body, context) {
      await settleRuns(store, context);
      await fireDue(store, context);
    },
  },
});

/** Repeats a change once after a conflict: a batch with an unknown outcome may have been applied after the rows were read. */
async function onceMore(change: () => Promise<void>): Promise<void> {
  try {
    await change();
  } catch (error) {
    if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    await change();
  }
}

async function putJob(
  store: TenantStore,
  { name, job, principal }: JobsMessages["put"]["body"],
  { key, deps, env }: ActorContext<JobsDeps>,
): Promise<void> {
  const { schedule, enabled } = job;
  const now = await storeNow(deps.store.system);
  const next = schedule === "" ? null : nextTime(schedule, now);
  if (job.payload.workflow === undefined) await checkManifest(key, name, job, deps);
  else await checkWorkflow(store, job.payload.workflow);
  const before = await storedJob(store, name);
  if (before === undefined && (await hasJobs(store, jobsMax)))
    throw new SvcError("too_many_jobs", { detail: `a tenant has at most ${jobsMax} jobs` });
  // A job with the same schedule keeps its due time, so that a due run is not lost.
  const isAsBefore = before?.schedule === schedule && before.next_run_at !== null;
  const next_run_at = enabled ? (isAsBefore ? before.next_run_at : next) : null;
  const { sub, scopes, scheme, issuer } = principal;
  const written = { name, ...job, enabled: enabled ? 1 : 0, owner: { sub, scopes, scheme, issuer } };
  const event = changed("job_saved", written, principal);
  const ops = [auditOp(store, { env, mask: deps.mask }, event)];
  await writeJob(store, before, written, { now, next_run_at, limit: deps.settings.tenantStoredBytes, ops });
}

/** Refuses with invalid_request if a run of the job would find no agent. */
async function checkManifest(
  tenantId: string,
  name: string,
  { manifest_id, payload }: AskedJob,
  { manifests }: JobsDeps,
): Promise<void> {
  if (manifest_id.trim() === "") throw unfit("a job needs a manifest", "missing");
  try {
    await manifests.resolve(tenantId, manifest_id, payload.fresh_thread ? null : jobSuffix(name, null));
  } catch (error) {
    const { code, message } = SvcError.from(error);
    if (code === "unknown_manifest") throw unfit(message, code);
    throw error;
  }
}

/** Refuses with invalid_request if a run of the job would find no workflow. */
async function checkWorkflow(store: TenantStore, id: string): Promise<void> {
  if ((await liveWorkflow(store, id)) !== undefined) return;
  const detail = [
    { loc: ["body", "payload", "workflow"], msg: "there is no workflow of this id", type: "unknown_workflow" },
  ];
  throw new SvcError("invalid_request", { detail });
}

function unfit(msg: string, type: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", "manifest_id"], msg, type }] });
}

function changed(
  event_type: "job_saved" | "job_deleted",
  job: Pick<JobRow, "name" | "manifest_id" | "schedule" | "enabled">,
  { sub }: Principal,
): AuditEvent {
  const { name, manifest_id, schedule, enabled } = job;
  return {
    event_type,
    status: "ok",
    manifest_id,
    principal_subj: sub,
    payload: { job: name, schedule, enabled: enabled === 1 },
  };
}
