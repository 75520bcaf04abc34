import { jobSuffix, runAddress, workflowAddress } from "../../bus/address.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { SubmitTurn } from "../../bus/protocol/run.ts";
import { unheardTurn } from "../../bus/protocol/unheard-turn.ts";
import { type AuditEvent, auditOp } from "../../governance/audit.ts";
import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import { withHeldScopes } from "../../governance/auth/held-scopes.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import { requireScopes } from "../../governance/auth/scopes.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import {
  acceptJobRunOp,
  beginJobRunOps,
  endJobRunOp,
  type JobRunEnd,
  type JobRunRow,
  openJobRun,
} from "../../storage/tables/job-runs.ts";
import {
  beginJobOp,
  dueJobs,
  endJobOp,
  type JobRow,
  storedJob,
  storeNow,
  takeTimeOp,
} from "../../storage/tables/jobs.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { JobsDeps } from "./deps.ts";
import { nextTime } from "./schedule.ts";

// Fires jobs. One batch claims the job's due time and opens a record with everything that the run needs. Only then is the run
// started, under the id in the record. The start is repeated as long as the record is open and the run does not exist.

/** Max jobs of a tenant that fire concurrently, and the time for further batches; the rest fires a second later. */
const firingsMax = 16;
const firingMs = 500;
/** How long a run's start is retried after transient errors. */
const patienceMs = 3_600_000;

/** Fires all due jobs. */
export async function fireDue(store: TenantStore, context: ActorContext<JobsDeps>): Promise<void> {
  const until = context.env.monotonic() + firingMs;
  for (;;) {
    const due = await dueJobs(store, firingsMax);
    await allOver(due.map((job) => fireOnTime(store, job, context)));
    // Other messages to this actor wait, so stop after a while.
    if (due.length < firingsMax || context.env.monotonic() >= until) return;
  }
}

/**
 * Resolves when all are settled; rejects then if one failed. Waiting for all keeps their writes from overlapping the next change
 * of a job.
 */
export async function allOver(work: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find((end) => end.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

async function fireOnTime(store: TenantStore, job: JobRow, context: ActorContext<JobsDeps>): Promise<void> {
  const { deps } = context;
  const now = await storeNow(deps.store.system);
  // Missed times are run once.
  const take = takeTimeOp(store, job, nextTime(job.schedule, now));
  try {
    const run = await begin(store, job, { caused_by: "schedule", requested_by: "cron", now, first: [take] }, context);
    await submit(store, run, context);
  } catch (error) {
    if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    if ((await openJobRun(store, job.name)) === undefined) return;
    deps.metrics.count("svc_job_firings_total", { trigger: "schedule", outcome: "skipped" });
    // Another host may have claimed the time.
    await store.write([take]).catch(unlessConflict);
  }
}

/** Fires a job on request and returns the run's id. Refuses with not_found, or with run_in_progress if the job is running. */
export async function fireNow(
  store: TenantStore,
  name: string,
  { sub }: Principal,
  context: ActorContext<JobsDeps>,
): Promise<string> {
  const job = await storedJob(store, name);
  if (job === undefined) throw new SvcError("not_found");
  const now = await storeNow(context.deps.store.system);
  let run: JobRunRow;
  try {
    run = await begin(store, job, { caused_by: "manual", requested_by: sub, now, first: [] }, context);
  } catch (error) {
    const open = error instanceof SvcError && error.code === "conflict" ? await openJobRun(store, name) : undefined;
    if (open === undefined) throw error;
    throw new SvcError("run_in_progress", { subject: open.run_id });
  }
  await submit(store, run, context);
  return run.run_id;
}

interface Firing extends Pick<JobRunRow, "caused_by" | "requested_by"> {
  readonly now: number;
  readonly first: readonly WriteOp[];
}

/** Opens the record. Refuses with conflict if the job has an open run or was deleted, or if its time was claimed. */
async function begin(
  store: TenantStore,
  { name, manifest_id, payload, owner, last_run_at }: JobRow,
  { caused_by, requested_by, now, first }: Firing,
  { env, deps }: ActorContext<JobsDeps>,
): Promise<JobRunRow> {
  const run_id = orderedId(env);
  const suffix = jobSuffix(name, payload.fresh_thread ? run_id : null);
  // Start times of a job are distinct, because the newest run is identified by its time.
  const started_at = Math.max(now, (last_run_at ?? 0) + 1);
  const prompt = payload.prompt ?? payload.message ?? "";
  const run = {
    run_id,
    job_name: name,
    suffix,
    caused_by,
    requested_by,
    started_at,
    asked: {
      ...{ manifest_id, prompt, owner },
      ...(payload.workflow !== undefined && { workflow: payload.workflow, inputs: payload.inputs ?? {} }),
    },
  };
  const fired: AuditEvent = {
    event_type: "job_fired",
    status: "ok",
    manifest_id,
    principal_subj: requested_by,
    payload: {
      job: name,
      run_id,
      trigger: caused_by,
      on_behalf_of: owner.sub,
      ...(payload.workflow === undefined
        ? { thread_id: `${store.tenantId}:${suffix}` }
        : { workflow_id: payload.workflow }),
    },
  };
  const audit = auditOp(store, { env, mask: deps.mask }, fired);
  await store.write([...first, beginJobOp(store, name, started_at), ...beginJobRunOps(store, run), audit]);
  deps.metrics.count("svc_job_firings_total", { trigger: caused_by, outcome: "started" });
  return { ...run, status: "running", accepted_at: null, finished_at: null, outcome: "", error: "", answer: null };
}

/** Starts the run of a record. A refusal closes the record, unless it is transient. */
export async function submit(store: TenantStore, run: JobRunRow, context: ActorContext<JobsDeps>): Promise<void> {
  const { bus, deps } = context;
  try {
    await refreshAccess(cronOf(store.tenantId, run), deps, context.env.now());
    const turn = turnOf(store.tenantId, run, context);
    const { principal } = turn;
    if (isRevoked(principal, deps, context.env.now())) return await refuse(store, run, "principal_revoked", context);
    const { workflow, inputs = {} } = run.asked;
    if (workflow === undefined) await bus.ask(runAddress(store.tenantId, run.suffix, run.run_id), "start", turn);
    else {
      // Decision 259: the author of the job must hold the scope at each firing.
      requireScopes(principal, ["workflows:write"]);
      await bus.ask(workflowAddress(store.tenantId, run.run_id), "start", {
        ...{ principal, workflow_id: workflow, revision: null, inputs: toJsonText(inputs) },
        ...{ cause: "job" as const, taint: [] },
      });
    }
    await store.write([acceptJobRunOp(store, run.run_id)]);
  } catch (error) {
    const refusal = SvcError.from(error);
    if (refusal.code === "internal_error")
      deps.log.error({ err: error, run_id: run.run_id }, "the run of a job could not be started");
    if (!refusal.retryable || context.env.now() - run.started_at > patienceMs)
      await refuse(store, run, refusal.message, context);
  }
}

/**
 * Returns the turn of a record. Its principal is `cron`, on behalf of the job's author, with the scopes that the author still
 * holds.
 */
function turnOf(
  tenant_id: string,
  { run_id, suffix, asked }: JobRunRow,
  { bus, deps, env }: ActorContext<JobsDeps>,
): SubmitTurn {
  const cron = cronOf(tenant_id, { asked });
  return unheardTurn(
    {
      run_id,
      surface: "job",
      principal: withHeldScopes(cron, deps, env.now()),
      request_id: run_id,
      manifest: asked.manifest_id,
      text: asked.prompt,
      thread_suffix: suffix,
    },
    bus.node,
  );
}

function cronOf(tenant_id: string, { asked }: Pick<JobRunRow, "asked">): Principal {
  const { scopes, sub, scheme, issuer } = asked.owner;
  return { tenant_id, sub: "cron", scopes, scheme: "cron", issuer: "", on_behalf_of: { sub, scheme, issuer } };
}

async function refuse(
  store: TenantStore,
  run: JobRunRow,
  error: string,
  context: ActorContext<JobsDeps>,
): Promise<void> {
  const { env, deps } = context;
  const refused: AuditEvent = {
    event_type: "job_refused",
    status: "denied",
    manifest_id: run.asked.manifest_id,
    principal_subj: "cron",
    payload: {
      job: run.job_name,
      run_id: run.run_id,
      trigger: run.caused_by,
      on_behalf_of: run.asked.owner.sub,
      error,
    },
  };
  const ops = [auditOp(store, { env, mask: deps.mask }, refused)];
  deps.metrics.count("svc_job_firings_total", { trigger: run.caused_by, outcome: "refused" });
  await endRun(store, run, { status: "error", outcome: "refused", error, answer: null }, ops);
}

/** Closes a record, unless another host did. */
export async function endRun(
  store: TenantStore,
  { run_id, job_name, started_at }: JobRunRow,
  end: JobRunEnd,
  ops: readonly WriteOp[] = [],
): Promise<void> {
  const { status, error } = end;
  const ofJob = endJobOp(store, job_name, { startedAt: started_at, status, error });
  await store.write([endJobRunOp(store, run_id, end), ofJob, ...ops]).catch(unlessConflict);
}

function unlessConflict(error: unknown): void {
  if (!(error instanceof SvcError && error.code === "conflict")) throw error;
}
