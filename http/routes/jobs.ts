import { jobsAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { requireScopes } from "../../governance/auth/scopes.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import {
  type JobRunRow,
  type JobRunStanding,
  jobRunById,
  jobRunStanding,
  jobRunsOf,
} from "../../storage/tables/job-runs.ts";
import { type JobRow, jobsOf, storedJob } from "../../storage/tables/jobs.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import type { Exchange } from "../engines/exchange.ts";
import { json, jsonText } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { EpochMs, nullable, OpenObject } from "../schemas/common.ts";
import { noon, runIdExample } from "../schemas/example-values.ts";
import { admitStart } from "../streams/turns.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Jobs", description: "Questions to agents, repeated by a schedule or on request." };
const readScopes = ["jobs:read"];
const writeScopes = ["jobs:write"];
/** Above the limit of jobs of a tenant, so a list holds all of them. */
const jobsListed = 10_000;
const promptCharsMax = 65_536;
/** Max wait for the end of a run, and the polling interval, which grows from `first` to `longest`. */
const waitMs = 60_000;
const lookMs = { first: 20, longest: 500 };
/** Retries later than this are not waited for. The first retry is a minute after the failure, which may have happened before the wait. */
const nextTryMs = waitMs / 2;

const namePattern = /^[a-z0-9_-]{1,64}$/;

const payloadFields = {
  prompt: Type.Optional(Type.String({ maxLength: promptCharsMax, description: "The user message." })),
  message: Type.Optional(Type.String({ maxLength: promptCharsMax, description: "The same, if there is no prompt." })),
  fresh_thread: Type.Optional(
    Type.Boolean({
      description: "True: a thread for each run; otherwise all runs use one thread, `{tenant}:job:{name}`.",
    }),
  ),
  workflow: Type.Optional(
    Type.String({
      maxLength: 64,
      description: "A workflow instead of an agent; then manifest_id is empty. Needs workflows:write.",
    }),
  ),
  inputs: Type.Optional(
    Type.Unsafe<Record<string, unknown>>({ ...OpenObject, description: "With workflow: the inputs of its runs." }),
  ),
};

const Job = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  name: Type.String({ examples: ["morning-report"] }),
  schedule: Type.String({ description: "Empty for a job that only runs on request.", examples: ["0 6 * * *"] }),
  manifest_id: Type.String({ examples: ["quick"] }),
  payload: Type.Object(payloadFields, { examples: [{ prompt: "Sum up what is on the list." }] }),
  enabled: Type.Boolean(),
  last_run_at: nullable(EpochMs),
  next_run_at: nullable(EpochMs, { examples: [noon + 86_400_000] }),
  last_status: Type.String({
    description: "Status of the newest run: running, ok or error; empty before the first.",
    examples: ["ok"],
  }),
  last_error: Type.String({ examples: [""] }),
  created_at: EpochMs,
  principal: Type.Object(
    {
      sub: Type.String({ examples: ["ann"] }),
      scopes: Type.Array(Type.String(), { examples: [["chat:write"]] }),
      scheme: Type.String({ examples: ["api_key"] }),
    },
    { description: "The last writer; runs have its scopes." },
  ),
});

const JobRun = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  job_name: Type.String({ examples: ["morning-report"] }),
  run_id: Type.String({ description: "Also the resume token of the durable run.", examples: [runIdExample] }),
  status: Type.Union([Type.Literal("running"), Type.Literal("ok"), Type.Literal("error")]),
  error: Type.String({ examples: [""] }),
  started_at: EpochMs,
  finished_at: nullable(EpochMs, { examples: [noon + 1_000] }),
  result: Type.Object({
    status: Type.String({
      description: "How the run ended; `refused` if it could not start, `running` before its end.",
      examples: ["completed"],
    }),
    answer: nullable(
      Type.String({ description: "Its first 16,384 characters; the thread has all of it.", examples: ["6 * 7 = 42"] }),
    ),
    trigger: Type.Union([Type.Literal("manual"), Type.Literal("schedule")]),
    requested_by: Type.String({ examples: ["ann"] }),
    thread_id: Type.String({ description: "Empty for a run of a workflow.", examples: ["default:tour"] }),
    workflow_id: Type.Optional(
      Type.String({ description: "The workflow whose run has the id run_id; absent for a run of an agent." }),
    ),
  }),
});

const JobParams = Type.Object({
  name: Type.String({ description: "1 to 64 of a-z, 0-9, _ and -.", examples: ["morning-report"] }),
});

const listJobs = route({
  method: "GET",
  path: "/jobs",
  summary: "The tenant's jobs by name.",
  tag,
  access: readScopes,
  reply: { description: "All of them.", schema: Type.Object({ items: Type.Array(Job) }) },
  fails: actorFails,
  async handle({ principal: { tenant_id } }, context) {
    await context.bus.ask(jobsAddress(tenant_id), "settle", {});
    const jobs = await jobsOf(context.store.tenant(tenant_id), jobsListed);
    return jsonText(`{"items":[${jobs.map((job) => jobText(tenant_id, job, context)).join(",")}]}`);
  },
});

const getJob = route({
  method: "GET",
  path: "/jobs/{name}",
  summary: "One job.",
  tag,
  access: readScopes,
  tenancy: [{ of: "job" }],
  params: JobParams,
  reply: { description: "The job.", schema: Job },
  fails: ["not_found", ...actorFails],
  async handle({ params, principal: { tenant_id } }, context) {
    await context.bus.ask(jobsAddress(tenant_id), "settle", {});
    return jsonText(jobText(tenant_id, await jobNamed(context.store.tenant(tenant_id), params.name), context));
  },
});

const putJob = route({
  method: "PUT",
  path: "/jobs/{name}",
  summary: "Creates or replaces a job.",
  tag,
  access: writeScopes,
  tenancy: [
    // With an existing manifest the request would create a job of the caller.
    { of: "job", body: () => ({ manifest_id: "nobodys", payload: { prompt: "mine" } }) },
    { of: "manifest", body: (id) => ({ manifest_id: id, payload: { prompt: "mine" } }) },
  ],
  params: JobParams,
  body: Type.Object(
    {
      schedule: Type.String({
        default: "",
        examples: ["0 6 * * *"],
        description:
          "Minute, hour, day of month, month, day of week (Sunday is 0), in UTC: `*`, `a`, `a-b`, `*/n`, `a-b/n`, and lists of these. Empty for none.",
      }),
      manifest_id: Type.String({
        ...{ default: "", maxLength: 128, description: "The agent's manifest.", examples: ["quick"] },
      }),
      payload: Type.Object(payloadFields, {
        ...{ default: {}, additionalProperties: false, examples: [{ prompt: "Sum up what is on the list." }] },
      }),
      enabled: Type.Boolean({ default: true, description: "False: it only runs on request." }),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The job after the change.", schema: Job },
  fails: [
    "invalid_schedule",
    "invalid_manifest",
    "missing_scopes",
    "too_many_jobs",
    "storage_quota_exceeded",
    "not_found",
    "conflict",
    ...actorFails,
  ],
  async handle({ params: { name }, body, principal }, context) {
    const { tenant_id } = principal;
    if (!namePattern.test(name)) throw invalid(["path", "name"], "a name is 1 to 64 of a-z, 0-9, _ and -");
    const { prompt, message, workflow, inputs, fresh_thread } = body.payload;
    if (workflow !== undefined) {
      const other = prompt ?? message ?? fresh_thread;
      if (other !== undefined || body.manifest_id !== "")
        throw invalid(
          ["body", "payload", "workflow"],
          "a job of a workflow has no manifest_id, prompt, message and fresh_thread",
        );
      requireScopes(principal, ["workflows:write"]);
    } else if (inputs !== undefined) throw invalid(["body", "payload", "inputs"], "inputs are for payload.workflow");
    else if ((prompt ?? message ?? "").trim() === "")
      throw invalid(
        ["body", "payload", "prompt"],
        "a job needs a prompt or a workflow: payload.prompt, payload.message or payload.workflow",
      );
    await context.bus.ask(jobsAddress(tenant_id), "put", { name, job: body, principal });
    return jsonText(jobText(tenant_id, await jobNamed(context.store.tenant(tenant_id), name), context));
  },
});

const deleteJob = route({
  method: "DELETE",
  path: "/jobs/{name}",
  summary: "Deletes a job and the records of its runs. A live run continues, and its thread stays.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "job" }],
  params: JobParams,
  reply: { description: "It was deleted, or did not exist.", schema: Type.Object({ status: Type.Literal("deleted") }) },
  fails: ["not_found", "conflict", ...actorFails],
  async handle({ params: { name }, principal }, { bus }) {
    if (!namePattern.test(name)) throw new SvcError("not_found");
    await bus.ask(jobsAddress(principal.tenant_id), "remove", { name, principal });
    return json({ status: "deleted" });
  },
});

const runJob = route({
  method: "POST",
  path: "/jobs/{name}/run",
  summary: "Runs a job now, even if it is disabled, and returns its run.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "job" }],
  params: JobParams,
  reply: {
    description: "The ended run; with status `running` if it waits for an answer, or did not end within a minute.",
    schema: JobRun,
  },
  fails: ["not_found", "run_in_progress", ...actorFails],
  async handle({ params: { name }, principal, exchange }, context) {
    const { tenant_id } = principal;
    if (!namePattern.test(name)) throw new SvcError("not_found");
    admitStart(context);
    const { run_id } = await context.bus.ask(jobsAddress(tenant_id), "run", { name, principal });
    const store = context.store.tenant(tenant_id);
    // Registers as a live turn, so that shutdown waits for this answer.
    const waiting: LiveTurn = { slot: -1, lost() {}, fail() {} };
    context.turns.add(waiting);
    try {
      await ended(store, run_id, exchange, context);
      if (!context.closing()) await context.bus.ask(jobsAddress(tenant_id), "settle", {});
      const run = await jobRunById(store, run_id);
      if (run === undefined) throw new SvcError("not_found");
      return jsonText(runText(tenant_id, run, context));
    } finally {
      context.turns.delete(waiting);
    }
  },
});

const listRuns = route({
  method: "GET",
  path: "/jobs/{name}/runs",
  summary: "The runs of a job, the newest first. The newest 200 are kept.",
  tag,
  access: readScopes,
  tenancy: [{ of: "job" }],
  params: JobParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 20, description: "Maximum number of runs." }),
  }),
  reply: { description: "The runs.", schema: Type.Object({ items: Type.Array(JobRun) }) },
  fails: ["not_found", ...actorFails],
  async handle({ params, query, principal: { tenant_id } }, context) {
    const store = context.store.tenant(tenant_id);
    const { name } = await jobNamed(store, params.name);
    await context.bus.ask(jobsAddress(tenant_id), "settle", {});
    const runs = await jobRunsOf(store, name, query.limit);
    return jsonText(`{"items":[${runs.map((run) => runText(tenant_id, run, context)).join(",")}]}`);
  },
});

/** Resolves when the run ends, is suspended or the wait is over, and when the client disconnects. */
async function ended(store: TenantStore, runId: string, exchange: Exchange, context: HttpContext): Promise<void> {
  const { env } = context;
  const until = env.monotonic() + waitMs;
  let left = false;
  exchange.onAborted(() => {
    left = true;
  });
  for (let pauseMs = lookMs.first; !left && env.monotonic() < until; pauseMs = Math.min(2 * pauseMs, lookMs.longest)) {
    const record = await jobRunById(store, runId);
    if (record?.status !== "running") return;
    const standing = await jobRunStanding(store, record);
    if (standing && (standing.ended_at !== null || isSuspendedPast(standing, env.now() + nextTryMs))) return;
    // Another process resumes the run after this one stops.
    if (context.closing()) return;
    await new Promise<void>((resolve) => void env.timer(pauseMs, resolve));
  }
}

/** True if a run waits for an answer, or for a retry later than `until`. */
function isSuspendedPast({ status, wake_at }: JobRunStanding, until: number): boolean {
  return status === "waiting" && (wake_at === null || wake_at > until);
}

async function jobNamed(store: TenantStore, name: string): Promise<JobRow> {
  const job = namePattern.test(name) ? await storedJob(store, name) : undefined;
  if (job === undefined) throw new SvcError("not_found");
  return job;
}

function invalid(loc: readonly string[], msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc, msg, type: "value" }] });
}

/** Returns the JSON of a job. Secrets are masked, because callers of the tenant wrote its texts. */
function jobText(tenant_id: string, { owner, bytes: _bytes, ...job }: JobRow, { mask }: HttpContext): string {
  const { sub, scopes, scheme } = owner;
  const view = { tenant_id, ...job, enabled: job.enabled === 1, principal: { sub, scopes, scheme } };
  return mask.forms.jsonText(JSON.stringify(view));
}

/** Returns the JSON of a run. Secrets are masked, because a model wrote its answer. */
function runText(tenant_id: string, run: JobRunRow, { mask }: HttpContext): string {
  const { run_id, job_name, status, error, started_at, finished_at, outcome, answer, caused_by, requested_by } = run;
  const result = {
    status: outcome === "" ? "running" : outcome,
    answer,
    trigger: caused_by,
    requested_by,
    thread_id: run.asked.workflow === undefined ? `${tenant_id}:${run.suffix}` : "",
    ...(run.asked.workflow !== undefined && { workflow_id: run.asked.workflow }),
  };
  const view = { tenant_id, job_name, run_id, status, error, started_at, finished_at, result };
  return mask.forms.jsonText(JSON.stringify(view));
}

export const jobRoutes = [listJobs, getJob, putJob, deleteJob, runJob, listRuns];
