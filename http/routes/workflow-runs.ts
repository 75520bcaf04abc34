import { workflowAddress, workflowSuffix } from "../../bus/address.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { WorkflowVersion } from "../../bus/protocol/workflow-versions.ts";
import { Type } from "../../bus/type.ts";
import type { StepDefinition } from "../../governance/workflows/definition.ts";
import { isRecord } from "../../governance/workflows/definition.ts";
import { runRecord } from "../../governance/workflows/run-record.ts";
import { writeCursor } from "../../storage/store/cursor.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import {
  shownStepsOfRun,
  stepsOfRun,
  type WorkflowRunRow,
  workflowRunById,
  workflowRunsPage,
  workflowRunVersion,
  workflowStep,
} from "../../storage/tables/workflow-runs.ts";
import { liveWorkflow, workflowRevision } from "../../storage/tables/workflows.ts";
import type { HttpContext } from "../context.ts";
import { jsonText } from "../exchange/reply.ts";
import { actorFails, bodyBytesDefault, route } from "../route.ts";
import { nullable, OpenObject } from "../schemas/common.ts";
import { runIdExample } from "../schemas/example-values.ts";
import { workflowEvents } from "../schemas/frames.ts";
import { ThreadHistory } from "../schemas/thread-history.ts";
import { WorkflowRun } from "../schemas/workflows.ts";
import { streamExample } from "../stream-event.ts";
import { admitStart } from "../streams/turns.ts";
import { workflowsTag as tag } from "../tags.ts";
import { historyMax, threadHistory } from "../thread-history.ts";
import { watchRun } from "../workflows/run-watch.ts";
import { readScopes, WorkflowParams, writeScopes } from "./workflows.ts";

/** A page of runs ends after this many characters. */
const listCharsMax = 4_194_304;

const RunParams = Type.Object({
  workflow_id: Type.String({ examples: ["greeting"] }),
  run_id: Type.String({ examples: [runIdExample] }),
});

const startRun = route({
  method: "POST",
  path: "/workflows/{workflow_id}/runs",
  summary: "Starts a run of the newest revision.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "workflow", body: () => ({ inputs: { name: "nobody" } }) }],
  params: WorkflowParams,
  bodyBytesMax: bodyBytesDefault,
  body: Type.Object(
    {
      inputs: Type.Unsafe<Record<string, unknown>>({
        ...OpenObject,
        default: {},
        description: "Values for the inputs that the workflow declares.",
        examples: [{ name: "Ann" }],
      }),
    },
    { additionalProperties: false, examples: [{ inputs: { name: "Ann" } }] },
  ),
  reply: { status: 202, description: "The run goes on without the client.", schema: WorkflowRun },
  fails: ["not_found", "too_many_workflow_runs", "conflict", "shutting_down", ...actorFails],
  async handle({ params: { workflow_id }, body: { inputs }, principal }, context) {
    admitStart(context);
    const id = orderedId(context.env);
    await context.bus.ask(workflowAddress(principal.tenant_id, id), "start", {
      ...{ principal, workflow_id, revision: null, inputs: toJsonText(inputs), cause: "request" as const, taint: [] },
    });
    const tenant = context.store.tenant(principal.tenant_id);
    return jsonText(await runText(tenant, await runNamed(tenant, workflow_id, id), false, context), 202);
  },
});

const listRuns = route({
  method: "GET",
  path: "/workflows/{workflow_id}/runs",
  summary: "The runs of a workflow with the states of their steps, the newest first.",
  tag,
  access: readScopes,
  tenancy: [{ of: "workflow" }],
  params: WorkflowParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Runs per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "Long values are cut. next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(WorkflowRun),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["not_found", "invalid_cursor", "storage_unavailable"],
  async handle({ params: { workflow_id }, query: { limit, cursor = null }, principal }, context) {
    const tenant = context.store.tenant(principal.tenant_id);
    const { rows, next_cursor } = await workflowRunsPage(tenant, { workflow_id }, cursor, limit);
    if (rows.length === 0 && (await liveWorkflow(tenant, workflow_id)) === undefined) throw new SvcError("not_found");
    const texts: string[] = [];
    let [left, next] = [listCharsMax, next_cursor];
    for (const row of rows) {
      const text = await runText(tenant, row, true, context);
      texts.push(text);
      left -= text.length;
      if (left > 0 || row === rows.at(-1)) continue;
      next = writeCursor([row.ts, row.id]);
      break;
    }
    return jsonText(`{"items":[${texts.join(",")}],"next_cursor":${JSON.stringify(next)}}`);
  },
});

const getRun = route({
  method: "GET",
  path: "/workflows/{workflow_id}/runs/{run_id}",
  summary: "One run with the values of its steps.",
  tag,
  access: readScopes,
  tenancy: [{ of: "workflow_run" }],
  params: RunParams,
  reply: { description: "The run as it stands.", schema: WorkflowRun },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { workflow_id, run_id }, principal }, context) {
    const tenant = context.store.tenant(principal.tenant_id);
    return jsonText(await runText(tenant, await runNamed(tenant, workflow_id, run_id), false, context));
  },
});

const cancelRun = route({
  method: "POST",
  path: "/workflows/{workflow_id}/runs/{run_id}/cancel",
  summary: "Stops a run: nothing more begins, and the work in progress is aborted.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "workflow_run" }],
  params: RunParams,
  reply: {
    status: 202,
    description: "The run is cancelling until the work in progress has ended, and then cancelled.",
    schema: WorkflowRun,
    example: { status: "cancelling", outputs: null, finished_at: null },
  },
  fails: ["not_found", "run_finished", "conflict", ...actorFails],
  async handle({ params: { workflow_id, run_id }, principal }, context) {
    const tenant = context.store.tenant(principal.tenant_id);
    await runNamed(tenant, workflow_id, run_id);
    await context.bus.ask(workflowAddress(principal.tenant_id, run_id), "cancel", { principal });
    return jsonText(await runText(tenant, await runNamed(tenant, workflow_id, run_id), false, context), 202);
  },
});

const stepThread = route({
  method: "GET",
  path: "/workflows/{workflow_id}/runs/{run_id}/steps/{step_id}/thread",
  summary: "The transcript of the run of a step, or of an item of a map.",
  tag,
  access: readScopes,
  tenancy: [{ of: "workflow_run" }],
  params: Type.Object({
    workflow_id: Type.String({ examples: ["greeting"] }),
    run_id: Type.String({ examples: [runIdExample] }),
    step_id: Type.String({ examples: ["greet"] }),
  }),
  query: Type.Object({
    item: Type.Optional(Type.Integer({ minimum: 0, maximum: 999, description: "The number of an item of a map." })),
  }),
  reply: { description: "As GET /chat/history answers.", schema: ThreadHistory },
  fails: ["not_found", ...actorFails],
  async handle({ params: { workflow_id, run_id, step_id }, query: { item = -1 }, principal }, context) {
    const { tenant_id } = principal;
    const tenant = context.store.tenant(tenant_id);
    await runNamed(tenant, workflow_id, run_id);
    const step = await workflowStep(tenant, run_id, step_id, item);
    if (step === undefined || step.child_run_id === null) throw new SvcError("not_found");
    const window = { limit: historyMax, before: Number.MAX_SAFE_INTEGER };
    return threadHistory(context, tenant_id, workflowSuffix(run_id, step_id, item), window);
  },
});

const streamRun = route({
  method: "GET",
  path: "/workflows/{workflow_id}/runs/{run_id}/stream",
  summary: "Streams the run: a frame with its present version, and one for each new version.",
  tag,
  access: readScopes,
  tenancy: [{ of: "workflow_run" }],
  params: RunParams,
  query: Type.Object({
    last_event_id: Type.Optional(Type.String({ description: "For clients that cannot set the header Last-Event-ID." })),
  }),
  headers: Type.Object({
    "Last-Event-ID": Type.Optional(Type.String({ description: "The version that the client has." })),
  }),
  reply: {
    description: "[DONE] follows the final version. Long values are cut, and the results of maps are left out.",
    contentType: "text/event-stream",
    events: workflowEvents,
    example: streamExample(workflowEvents),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { workflow_id, run_id }, query, principal, exchange }, context) {
    const tenant = context.store.tenant(principal.tenant_id);
    await runNamed(tenant, workflow_id, run_id);
    const cursor = readCursorVersion(exchange.head.headers["last-event-id"] ?? query.last_event_id);
    const source = {
      version: () => workflowRunVersion(tenant, run_id),
      async read(): Promise<WorkflowVersion | null> {
        const run = await workflowRunById(tenant, run_id);
        if (run === undefined) return null;
        const { version, finished_at } = run;
        return { version, isFinal: finished_at !== null, record: await runText(tenant, run, true, context) };
      },
    };
    const of = { tenantId: principal.tenant_id, runId: run_id, cursor };
    return { kind: "stream", open: (stream) => watchRun(context, of, source, stream) };
  },
});

/** Returns the version in a cursor; 0 for any other text. */
function readCursorVersion(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** Returns a run of a workflow. Refuses with not_found, also for a run of another workflow. */
async function runNamed(store: TenantStore, workflowId: string, runId: string): Promise<WorkflowRunRow> {
  const run = /^[0-9a-f]{32}$/.test(runId) ? await workflowRunById(store, runId) : undefined;
  if (run?.workflow_id !== workflowId) throw new SvcError("not_found");
  return run;
}

/** Returns the JSON of a run. */
async function runText(
  store: TenantStore,
  run: WorkflowRunRow,
  isCut: boolean,
  { mask }: Pick<HttpContext, "mask">,
): Promise<string> {
  const [revision, steps] = await Promise.all([
    workflowRevision(store, run.workflow_id, run.revision),
    isCut ? shownStepsOfRun(store, run.id) : stepsOfRun(store, run.id),
  ]);
  const shown = revision === undefined ? [] : stepsIn(revision.definition);
  return mask.forms.jsonText(JSON.stringify(runRecord(store.tenantId, run, steps, shown, isCut)));
}

/** Returns the ids, kinds and labels of the steps of a stored document. */
function stepsIn(definition: string): Pick<StepDefinition, "id" | "kind" | "label">[] {
  const { steps } = JSON.parse(definition) as { readonly steps?: unknown };
  return (Array.isArray(steps) ? steps : []).filter(isRecord).map(({ id, kind, label }) => ({
    ...{ id: String(id), kind: String(kind), label: typeof label === "string" ? label : null },
  }));
}

export const workflowRunRoutes = [startRun, listRuns, getRun, cancelRun, stepThread, streamRun];
