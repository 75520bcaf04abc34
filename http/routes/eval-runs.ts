import { evalsAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EvalOptions } from "../../bus/protocol/evals.ts";
import { Type } from "../../bus/type.ts";
import { evalRunsPage } from "../../storage/tables/eval-runs.ts";
import type { HttpContext } from "../context.ts";
import { Comparison, comparison, isNamed, runOfSide } from "../evals/eval-comparison.ts";
import { EvalRun, runText } from "../evals/eval-records.ts";
import { evalRunNamed, evalRunsEnded, optionsOf, secondsOf, startEvalRun } from "../evals/eval-starts.ts";
import { json, jsonText, type Reply, refusal } from "../exchange/reply.ts";
import { actorFails, type RouteRequest, route } from "../route.ts";
import { nullable, OpenObject } from "../schemas/common.ts";
import { runIdExample } from "../schemas/example-values.ts";
import { evalsTag as tag } from "../tags.ts";
import { readScopes, writeScopes } from "./eval-datasets.ts";

/** The time since which POST /eval/datasets/{name}/run is deprecated, in epoch seconds: 1 January 2026. */
const deprecatedSince = 1_767_225_600;

const manifestOf = Type.Union([Type.String({ maxLength: 128 }), OpenObject], {
  description: "The name of a manifest, or a manifest itself, which needs manifests:write and is not stored.",
  examples: ["quick"],
});
const version = Type.Optional(
  nullable(Type.Integer({ minimum: 1, description: "A version of the tenant's store; else the active one." })),
);
const optionFields = {
  deterministic_judge: Type.Boolean({ default: false, description: "True: no judge is asked." }),
  use_llm_judge: Type.Boolean({
    default: false,
    description: "True: a judge scores every item, and not only those that say so.",
  }),
  judge_model: Type.Optional(
    nullable(
      Type.String({ minLength: 1, maxLength: 128, description: "Route of the judge; else the manifest's own." }),
    ),
  ),
  mock: Type.Boolean({
    default: false,
    description: "True: the answers are those of the rubrics, and no model is called.",
  }),
  concurrency: Type.Integer({ minimum: 1, maximum: 16, default: 8, description: "Items at once." }),
};
const runFields = {
  candidate_manifest: Type.String({ default: "", maxLength: 128, description: "The agent.", examples: ["quick"] }),
  manifest: Type.Optional(
    Type.Unsafe<Record<string, unknown>>({
      ...OpenObject,
      description: "A manifest that is evaluated instead of a stored one; needs manifests:write.",
    }),
  ),
  manifest_version: version,
  ...optionFields,
};
const datasetName = Type.String({ default: "", maxLength: 128, examples: ["arithmetic"] });
const RunBody = Type.Object(runFields, { additionalProperties: false });
const NamedRunBody = Type.Object({ dataset_name: datasetName, ...runFields }, { additionalProperties: false });
const PreferHeader = Type.Object({
  Prefer: Type.Optional(Type.String({ description: "`wait=n`: wait up to n seconds, 30 by default and at most 60." })),
});
const RunParams = Type.Object({ run_id: Type.String({ examples: [runIdExample] }) });

const startFails = [
  ...(["not_found", "dataset_name_required", "eval_dataset_empty", "too_many_eval_runs"] as const),
  "storage_quota_exceeded" as const,
  ...(["unknown_manifest", "invalid_manifest", "auth_scheme_not_allowed", "missing_scopes", "conflict"] as const),
  ...actorFails,
];
const finished = { description: "The finished run with its scores.", schema: EvalRun };
const unfinished = {
  status: 202,
  description: "The run goes on: GET /eval/runs/{run_id}.",
  schema: EvalRun,
  example: { status: "in_progress", finished_at: null },
};

const startRun = route({
  method: "POST",
  path: "/eval/runs",
  summary: "Evaluates an agent on a dataset.",
  tag,
  access: writeScopes,
  tenancy: [
    { of: "eval_dataset", body: (id) => ({ dataset_name: id, candidate_manifest: "quick" }) },
    { of: "manifest", body: (id) => ({ dataset_name: "nobodys", candidate_manifest: id }) },
  ],
  headers: PreferHeader,
  body: NamedRunBody,
  reply: finished,
  otherReplies: [unfinished],
  fails: startFails,
  handle: ({ body, ...request }, context) => answerRun(body.dataset_name, body, request, context),
});

const startRunOf = route({
  method: "POST",
  path: "/eval/datasets/{name}/run",
  summary: "Evaluates an agent on a dataset. Use POST /eval/runs.",
  tag,
  access: writeScopes,
  deprecated: true,
  tenancy: [{ of: "eval_dataset", body: () => ({ candidate_manifest: "quick" }) }],
  params: Type.Object({ name: Type.String({ examples: ["arithmetic"] }) }),
  headers: PreferHeader,
  body: RunBody,
  reply: finished,
  otherReplies: [unfinished],
  fails: startFails,
  refusal: (error, requestId) => withDeprecation(refusal(error, requestId)),
  async handle({ params, body, ...request }, context) {
    return withDeprecation(await answerRun(params.name, body, request, context));
  },
});

const listRuns = route({
  method: "GET",
  path: "/eval/runs",
  summary: "Runs, the newest first, without their scores.",
  tag,
  access: readScopes,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Runs per page." }),
    dataset: Type.Optional(Type.String({ maxLength: 128, description: "Only runs of this dataset." })),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "`runs` equals `items`. next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(EvalRun),
      runs: Type.Array(EvalRun),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query: { limit, dataset, cursor = null }, principal }, { store, env, mask }) {
    const tenant = store.tenant(principal.tenant_id);
    const { rows, next_cursor } = await evalRunsPage(tenant, { dataset_name: dataset }, cursor, limit);
    const list = (await Promise.all(rows.map((row) => runText(tenant, row, false, env.now(), mask)))).join(",");
    return jsonText(`{"items":[${list}],"runs":[${list}],"next_cursor":${JSON.stringify(next_cursor)}}`);
  },
});

const getRun = route({
  method: "GET",
  path: "/eval/runs/{run_id}",
  summary: "One run with the scores of its items.",
  tag,
  access: readScopes,
  tenancy: [{ of: "eval_run" }],
  params: RunParams,
  reply: { description: "The run as it stands.", schema: EvalRun },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, { store, env, mask }) {
    const tenant = store.tenant(principal.tenant_id);
    return jsonText(await runText(tenant, await evalRunNamed(tenant, params.run_id), true, env.now(), mask));
  },
});

const cancelRun = route({
  method: "POST",
  path: "/eval/runs/{run_id}/cancel",
  summary: "Ends a run as failed, and aborts the items in progress.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "eval_run" }],
  params: RunParams,
  reply: {
    description: "`cancelled` is false if the run had ended.",
    schema: Type.Object({ status: Type.Literal("ok"), cancelled: Type.Boolean({ examples: [true] }) }),
  },
  fails: ["not_found", ...actorFails],
  async handle({ params: { run_id }, principal }, { bus, store }) {
    await evalRunNamed(store.tenant(principal.tenant_id), run_id);
    const { cancelled } = await bus.ask(evalsAddress(principal.tenant_id, run_id), "cancel", { principal });
    return json({ status: "ok", cancelled });
  },
});

const compared = {
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  manifest: Type.Optional(manifestOf),
  manifest_version: version,
  run_id: Type.Optional(Type.String({ description: "A run that exists, instead of a manifest." })),
};
const Compared = Type.Object(compared, { additionalProperties: false, examples: [{ name: "new", manifest: "quick" }] });

const compareRuns = route({
  method: "POST",
  path: "/eval/runs/compare",
  summary: "Compares agents with a baseline on one dataset.",
  tag,
  access: writeScopes,
  tenancy: [
    {
      of: "eval_dataset",
      body: (id) => ({ dataset_name: id, baseline: { manifest: "quick" }, candidates: [{ manifest: "quick" }] }),
    },
    {
      of: "eval_run",
      body: (id) => ({ dataset_name: "nobodys", baseline: { run_id: id }, candidates: [{ run_id: id }] }),
    },
  ],
  headers: PreferHeader,
  body: Type.Object(
    {
      dataset_name: datasetName,
      dataset: Type.String({ default: "", maxLength: 128, description: "The same as dataset_name." }),
      baseline: Type.Optional(
        Type.Object(compared, { additionalProperties: false, examples: [{ name: "baseline", manifest: "quick" }] }),
      ),
      candidates: Type.Array(Compared, { minItems: 1, maxItems: 5, examples: [[{ name: "new", manifest: "quick" }]] }),
      judge_threshold: Type.Optional(
        nullable(Type.Number({ minimum: 0, maximum: 1, description: "Marks results with a lower pass rate." })),
      ),
      ...optionFields,
    },
    { additionalProperties: false },
  ),
  reply: { description: "All runs have ended. Their scores are in GET /eval/runs/{run_id}.", schema: Comparison },
  otherReplies: [
    {
      status: 202,
      description: "Runs go on. The same request with their ids in run_id returns the comparison.",
      schema: Comparison,
    },
  ],
  fails: ["baseline_manifest_required", "manifest_required", ...startFails],
  async handle({ body, principal, exchange }, context) {
    const dataset = body.dataset_name || body.dataset;
    if (dataset.trim() === "") throw new SvcError("dataset_name_required");
    const { baseline, candidates, judge_threshold = null } = body;
    if (baseline === undefined || !isNamed(baseline)) throw new SvcError("baseline_manifest_required");
    if (!candidates.every(isNamed)) throw new SvcError("manifest_required");
    const sides = [
      { name: baseline.name ?? "baseline", spec: baseline },
      ...candidates.map((spec, at) => ({ name: spec.name ?? `candidate-${at + 1}`, spec })),
    ];
    const started: string[] = [];
    for (const { spec } of sides) started.push(await runOfSide(dataset, spec, optionsOf(body), principal, context));
    await evalRunsEnded(principal, started, secondsOf(exchange), exchange, context);
    const { text, isOver } = await comparison(dataset, sides, started, judge_threshold, principal, context);
    return jsonText(text, isOver ? 200 : 202);
  },
});

type Asking = Pick<RouteRequest<never, never, never>, "principal" | "exchange">;
type RunFields = Partial<EvalOptions> & {
  readonly candidate_manifest: string;
  readonly manifest?: Record<string, unknown>;
  readonly manifest_version?: number | null;
};

async function answerRun(
  dataset: string,
  body: RunFields,
  { principal, exchange }: Asking,
  context: HttpContext,
): Promise<Extract<Reply, { kind: "json" }>> {
  const { candidate_manifest, manifest, manifest_version = null } = body;
  if (manifest === undefined && candidate_manifest.trim() === "") {
    const msg = "candidate_manifest is missing: name a manifest, or send one in manifest";
    throw new SvcError("invalid_request", { detail: [{ loc: ["body", "candidate_manifest"], msg, type: "missing" }] });
  }
  if (dataset.trim() === "") throw new SvcError("dataset_name_required");
  const side = { manifest: manifest ?? candidate_manifest, manifest_version };
  const id = await startEvalRun(dataset, side, optionsOf(body), principal, context);
  await evalRunsEnded(principal, [id], secondsOf(exchange), exchange, context);
  const { env, mask, store } = context;
  const tenant = store.tenant(principal.tenant_id);
  const run = await evalRunNamed(tenant, id);
  return jsonText(await runText(tenant, run, true, env.now(), mask), run.status === "in_progress" ? 202 : 200);
}

/** Adds the headers of a route that another one replaces (RFC 9745, RFC 8594). */
function withDeprecation<R extends Extract<Reply, { kind: "json" }>>(reply: R): R {
  const link = '</eval/runs>; rel="successor-version"';
  return { ...reply, headers: { ...reply.headers, deprecation: `@${deprecatedSince}`, link } };
}

export const evalRunRoutes = [startRun, startRunOf, listRuns, compareRuns, getRun, cancelRun];
