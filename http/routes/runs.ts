import { publicThread, runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { requestMs, type TenantStore } from "../../storage/store/store.ts";
import { durablePage } from "../../storage/tables/durable-lists.ts";
import { type DurableRunRow, wakeDurableOp } from "../../storage/tables/durable-rows.ts";
import { leaseRefusal } from "../../storage/tables/thread-leases.ts";
import { json, jsonText } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { type DurableRun, durableRun, recordOf, standingOf, workflowRecord } from "../run-record.ts";
import { RunRecord } from "../schemas/chat.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { noon, runIdExample } from "../schemas/example-values.ts";
import { runExample, tailEvents } from "../schemas/frames.ts";
import { streamExample } from "../stream-event.ts";
import { openRunStream, readEventId } from "../streams/run-stream.ts";
import { durableTag } from "../tags.ts";

// Durable runs: by token for the client that started one, and all runs of a tenant for its operators.

/** Max time for a stopped run to write its last batch. */
const cancelMs = 60_000;

const TokenParams = Type.Object({ resume_token: Type.String({ examples: [runIdExample] }) });
/** Path parameters of the routes for operators. */
export const RunParams = Type.Object({
  run_id: Type.String({ description: "The run's id, which is its token.", examples: [runIdExample] }),
});

const runByToken = route({
  method: "GET",
  path: "/chat/runs/{resume_token}",
  summary: "The state of a durable run or of a run of a workflow, and its result.",
  tag: durableTag,
  access: "chat:read",
  tenancy: [{ of: "run" }],
  params: TokenParams,
  reply: { description: "The run record.", schema: RunRecord },
  fails: ["run_not_found", "storage_unavailable"],
  async handle({ params, principal }, { store, mask }) {
    const tenant = store.tenant(principal.tenant_id);
    const ofWorkflow = await workflowRecord(tenant, params.resume_token);
    if (ofWorkflow !== null) return jsonText(mask.forms.jsonText(JSON.stringify(ofWorkflow)));
    return json(recordOf(await foundRun(tenant, params.resume_token)));
  },
});

const runStream = route({
  method: "GET",
  path: "/chat/runs/{resume_token}/stream",
  summary: "The stream of a durable run, from its start or after Last-Event-ID, also after its end.",
  tag: durableTag,
  access: "chat:read",
  tenancy: [{ of: "run" }],
  params: TokenParams,
  query: Type.Object({
    last_event_id: Type.Optional(Type.String({ description: "For clients that cannot set the header Last-Event-ID." })),
  }),
  headers: Type.Object({
    "Last-Event-ID": Type.Optional(Type.String({ description: "The id of the last received frame." })),
  }),
  reply: {
    description: "The run's events and text, its status, and its end.",
    contentType: "text/event-stream",
    events: tailEvents,
    example: streamExample(runExample),
  },
  fails: ["run_not_found", "storage_unavailable"],
  handle({ params, query, principal, exchange }, context) {
    const cursor = readEventId(exchange.head.headers["last-event-id"] ?? query.last_event_id);
    return openRunStream(context, principal, params.resume_token, { cursor });
  },
});

const runAbort = route({
  method: "POST",
  path: "/chat/runs/{resume_token}/abort",
  summary: "Stops a durable run, also one without a thread: it ends as failed, with the error aborted.",
  tag: durableTag,
  access: "chat:write",
  tenancy: [{ of: "run" }],
  drives: "turn",
  params: TokenParams,
  reply: {
    description: "The run afterwards. `aborted` is false if it had already ended.",
    schema: Type.Object({ ok: Type.Boolean(), aborted: Type.Boolean({ examples: [true] }), run: RunRecord }),
  },
  fails: ["run_not_found", ...actorFails],
  async handle({ params, principal, lease }, { store, bus }) {
    const { tenant_id } = principal;
    const tenant = store.tenant(tenant_id);
    const { durable } = await foundRun(tenant, params.resume_token);
    const refused = lease === null ? null : await leaseRefusal(tenant, durable.suffix, lease);
    if (refused !== null) throw new SvcError(refused);
    const { aborted } = durable.ended_at === null ? await stop(tenant_id, durable, bus) : { aborted: false };
    return json({ ok: true, aborted, run: recordOf(await foundRun(tenant, params.resume_token)) });
  },
});

const statuses = ["accepted", "running", "waiting", "completed", "failed", "expired", "dead"] as const;
const Status = Type.Union(
  statuses.map((status) => Type.Literal(status)),
  { examples: ["completed"] },
);

const RequeuedAs = nullable(
  Type.String({
    description: "The run that continues this dead one: see POST /runs/{run_id}/requeue.",
    examples: ["b1946ac92492d2347c6235b4d2611184"],
  }),
);

const ListedRun = Type.Object({
  run_id: Type.String({ examples: [runIdExample] }),
  status: Status,
  manifest_id: Type.String({ examples: ["quick"] }),
  thread_id: nullable(Type.String({ examples: ["default:tour"] })),
  accepted_at: EpochMs,
  begun_at: nullable(EpochMs, { examples: [noon + 20] }),
  ended_at: nullable(EpochMs, { examples: [noon + 1_000] }),
  attempts: Type.Integer({ description: "Failures of the current step." }),
  error: nullable(Type.String(), { examples: [null] }),
  requeued_as: RequeuedAs,
});

const runList = route({
  method: "GET",
  path: "/runs",
  summary: "The durable runs of the tenant, newest first. `status=dead` lists the runs that are no longer retried.",
  tag: durableTag,
  access: ["runs:read"],
  query: Type.Object({
    status: Type.Optional(Status),
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Runs per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "A page of runs.",
    schema: Type.Object({ items: Type.Array(ListedRun), next_cursor: nullable(Type.String(), { examples: [null] }) }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query, principal }, { store }) {
    const { status = null, cursor = null, limit } = query;
    const { tenant_id } = principal;
    const page = await durablePage(store.tenant(tenant_id), status, cursor, limit);
    const items = page.rows.map(({ run_id, suffix, manifest, ...row }) => ({
      run_id,
      status: row.status,
      manifest_id: manifest,
      thread_id: publicThread(tenant_id, suffix),
      accepted_at: row.accepted_at,
      begun_at: row.begun_at,
      ended_at: row.ended_at,
      attempts: row.attempts,
      error: row.error,
      requeued_as: row.requeued_as,
    }));
    return json({ items, next_cursor: page.next_cursor });
  },
});

const RunDetail = Type.Object({
  ...RunRecord.properties,
  run_id: Type.String({ examples: [runIdExample] }),
  thread_id: nullable(Type.String({ examples: ["default:tour"] })),
  principal_subj: Type.String({ description: "Its principal.", examples: ["ann"] }),
  step: Type.Integer({ description: "Model calls of the current turn.", examples: [1] }),
  attempts: Type.Integer(),
  waiting_on: nullable(
    Type.Object(
      { kind: Type.String(), id: Type.String(), until: nullable(EpochMs) },
      { description: "What it waits for." },
    ),
    { examples: [null] },
  ),
  wake_at: nullable(Type.Integer({ description: "When it is due; null while it runs or waits for an answer." }), {
    examples: [null],
  }),
  accepted_at: EpochMs,
  begun_at: nullable(EpochMs, { examples: [noon + 20] }),
  ended_at: nullable(EpochMs, { examples: [noon + 1_000] }),
  stop_reason: nullable(Type.String({ examples: ["end_turn"] })),
  requeued_as: RequeuedAs,
  requeued_from: nullable(
    Type.String({ description: "The dead run that this one continues.", examples: [runIdExample] }),
  ),
});

const runDetail = route({
  method: "GET",
  path: "/runs/{run_id}",
  summary: "A durable run, with its open questions and its failures.",
  tag: durableTag,
  access: ["runs:read"],
  tenancy: [{ of: "run" }],
  params: RunParams,
  reply: { description: "The run.", schema: RunDetail },
  fails: ["run_not_found", "storage_unavailable"],
  async handle({ params, principal }, { store }) {
    return json(await detailOf(store.tenant(principal.tenant_id), params.run_id));
  },
});

const runCancel = route({
  method: "POST",
  path: "/runs/{run_id}/cancel",
  summary: "Stops a durable run: it ends as failed, with the error aborted.",
  tag: durableTag,
  access: ["runs:write"],
  tenancy: [{ of: "run" }],
  params: RunParams,
  reply: { description: "The run afterwards.", schema: RunDetail },
  fails: ["run_not_found", "run_finished", ...actorFails],
  async handle({ params, principal }, { store, bus }) {
    const { tenant_id } = principal;
    const tenant = store.tenant(tenant_id);
    const { durable } = await liveRun(tenant, params.run_id);
    await stop(tenant_id, durable, bus);
    return json(await detailOf(tenant, params.run_id));
  },
});

const runRetry = route({
  method: "POST",
  path: "/runs/{run_id}/retry",
  summary: "Retries a durable run at once whose step has failed.",
  tag: durableTag,
  access: ["runs:write"],
  tenancy: [{ of: "run" }],
  params: RunParams,
  reply: {
    description: "The run afterwards. `retried` is false if it was not waiting for a retry.",
    schema: Type.Object({ ...RunDetail.properties, retried: Type.Boolean() }),
  },
  fails: ["run_not_found", "run_finished", "storage_unavailable"],
  async handle({ params, principal }, { store, env }) {
    const tenant = store.tenant(principal.tenant_id);
    const { durable, run } = await liveRun(tenant, params.run_id);
    const retried =
      run.status === "waiting" && durable.held === 0 && durable.wake_at !== null && durable.wake_at > env.now();
    // The slot actor finds the run at its next look for due runs.
    if (retried) await tenant.write([wakeDurableOp(tenant, durable.run_id)], requestMs);
    return json({ ...(await detailOf(tenant, params.run_id)), retried });
  },
});

/** Resolves once the run has stopped. */
function stop(tenantId: string, { suffix, run_id }: DurableRunRow, bus: Bus): Promise<{ readonly aborted: boolean }> {
  return bus.ask(runAddress(tenantId, suffix, run_id), "abort", { reason: "client" }, { deadlineMs: cancelMs });
}

/** Refuses with run_not_found. */
async function foundRun(store: TenantStore, id: string): Promise<DurableRun> {
  const found = await durableRun(store, id);
  if (found === null) throw new SvcError("run_not_found");
  return found;
}

/** Returns a run that has not ended. Refuses with run_not_found and run_finished. */
async function liveRun(store: TenantStore, id: string): Promise<DurableRun> {
  const found = await foundRun(store, id);
  if (found.durable.ended_at !== null) throw new SvcError("run_finished");
  return found;
}

async function detailOf(store: TenantStore, id: string) {
  const found = await foundRun(store, id);
  const { durable, run } = found;
  const { attempt, step, waiting_on } = await standingOf(store, found);
  return {
    ...recordOf(found),
    run_id: durable.run_id,
    thread_id: publicThread(store.tenantId, durable.suffix),
    principal_subj: run.asked.principal.sub,
    step,
    attempts: attempt,
    waiting_on,
    wake_at: durable.wake_at,
    accepted_at: durable.accepted_at,
    begun_at: durable.begun_at,
    ended_at: durable.ended_at,
    stop_reason: run.result?.stop_reason ?? null,
    requeued_as: durable.requeued_as,
    requeued_from: run.asked.requeued?.run_id ?? null,
  };
}

export const runRoutes = [runByToken, runStream, runAbort, runList, runDetail, runCancel, runRetry];
