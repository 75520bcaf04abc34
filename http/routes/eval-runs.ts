import { evalsAddress } from "../../bus/address.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EvalOptions } from "../../bus/protocol/evals.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { requireScopes } from "../../governance/auth/scopes.ts";
import { itemsMax } from "../../governance/evals/dataset-items.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type EvalRunRow, evalRunById, evalRunsPage, outcomesOfRun } from "../../storage/tables/eval-runs.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import type { Exchange } from "../engines/exchange.ts";
import { EvalRun, passRate, runText } from "../evals/eval-records.ts";
import { json, jsonText, type Reply, refusal } from "../exchange/reply.ts";
import { actorFails, type RouteRequest, route } from "../route.ts";
import { nullable, OpenObject } from "../schemas/common.ts";
import { runIdExample } from "../schemas/example-values.ts";
import { admitStart } from "../streams/turns.ts";
import { evalsTag as tag } from "../tags.ts";
import { readScopes, writeScopes } from "./eval-datasets.ts";

/** How long a request waits for the end of its runs, unless `Prefer: wait` says otherwise (decision 144: 30 s, at most 60). */
const waitSeconds = { default: 30, max: 60 };
/** The polling interval, which grows from `first` to `longest`. */
const lookMs = { first: 20, longest: 250 };
/** The time since which POST /eval/datasets/{name}/run is deprecated, in epoch seconds: 1 January 2026. */
const deprecatedSince = 1_767_225_600;
const runIdPattern = /^[0-9a-f]{32}$/;

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
    return jsonText(await runText(tenant, await runNamed(tenant, params.run_id), true, env.now(), mask));
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
    await runNamed(store.tenant(principal.tenant_id), run_id);
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
type ComparedSpec = { name?: string; manifest?: unknown; manifest_version?: number | null; run_id?: string };

const Comparison = Type.Object({
  dataset: Type.String({ examples: ["arithmetic"] }),
  baseline: Type.String({ description: "Its name among the results.", examples: ["baseline"] }),
  judge_threshold: nullable(Type.Number(), { examples: [null] }),
  results: Type.Array(
    Type.Object({
      name: Type.String({ examples: ["baseline"] }),
      manifest: Type.String({ examples: ["quick"] }),
      is_baseline: Type.Boolean({ examples: [true] }),
      pass_rate: nullable(Type.Number({ description: "Null before the end of the run." }), { examples: [1] }),
      lift_pp: nullable(Type.Number({ description: "Percentage points above the baseline." }), { examples: [0] }),
      below_threshold: Type.Optional(Type.Boolean({ description: "True if pass_rate is below judge_threshold." })),
      wins: Type.Integer({ description: "Items that pass here and not in the baseline." }),
      losses: Type.Integer({ description: "Items that pass in the baseline and not here." }),
      ties: Type.Integer({ examples: [1] }),
      regressions: Type.Array(Type.String(), { description: "The ids of the losses.", examples: [[]] }),
      run: EvalRun,
    }),
  ),
});

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
    await ended(principal, started, secondsOf(exchange), exchange, context);
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
  const id = await start(dataset, side, optionsOf(body), principal, context);
  await ended(principal, [id], secondsOf(exchange), exchange, context);
  const { env, mask, store } = context;
  const tenant = store.tenant(principal.tenant_id);
  const run = await runNamed(tenant, id);
  return jsonText(await runText(tenant, run, true, env.now(), mask), run.status === "in_progress" ? 202 : 200);
}

/** Starts a run and returns its id. */
async function start(
  dataset_name: string,
  { manifest, manifest_version = null }: ComparedSpec,
  options: EvalOptions,
  principal: Principal,
  context: HttpContext,
): Promise<string> {
  // Decision 202: a manifest in a request is written by its caller, like a stored one.
  if (typeof manifest !== "string") requireScopes(principal, ["manifests:write"]);
  admitStart(context);
  const id = orderedId(context.env);
  await context.bus.ask(evalsAddress(principal.tenant_id, id), "start", {
    principal,
    dataset_name,
    manifest: typeof manifest === "string" ? manifest : "",
    version: manifest_version,
    body: typeof manifest === "string" ? null : toJsonText(manifest),
    options,
  });
  return id;
}

/** Returns the id of the run of one side of a comparison: a given one of the dataset, or a new one. */
async function runOfSide(
  dataset: string,
  spec: ComparedSpec,
  options: EvalOptions,
  principal: Principal,
  context: HttpContext,
): Promise<string> {
  if (spec.run_id === undefined) return start(dataset, spec, options, principal, context);
  const run = await runNamed(context.store.tenant(principal.tenant_id), spec.run_id);
  if (run.dataset_name !== dataset) throw new SvcError("not_found");
  return run.id;
}

/** Returns the JSON of a comparison; the first side is the baseline. */
async function comparison(
  dataset: string,
  sides: readonly { readonly name: string }[],
  ids: readonly string[],
  judge_threshold: number | null,
  { tenant_id }: Principal,
  { store, env, mask }: HttpContext,
): Promise<{ text: string; isOver: boolean }> {
  const tenant = store.tenant(tenant_id);
  const runs = await Promise.all(ids.map((id) => runNamed(tenant, id)));
  const isOver = runs.every(({ status }) => status !== "in_progress");
  const outcomes = isOver ? await Promise.all(ids.map((id) => outcomesOfRun(tenant, id, itemsMax))) : [];
  const [baseline = new Map<string, string>()] = outcomes;
  const [base] = runs as [EvalRunRow];
  const results = await Promise.all(
    runs.map(async (run, at) => {
      const rate = isOver ? passRate(run) : null;
      const against = compare(baseline, outcomes[at] ?? new Map());
      const lift = rate === null ? null : Math.round((rate - passRate(base)) * 1e4) / 100;
      const head = {
        ...{ name: sides[at]?.name ?? "", manifest: run.candidate_manifest, is_baseline: at === 0, pass_rate: rate },
        lift_pp: lift,
        ...(judge_threshold !== null && rate !== null && { below_threshold: rate < judge_threshold }),
        ...against,
      };
      const shown = mask.forms.jsonText(JSON.stringify(head)).slice(0, -1);
      return `${shown},"run":${await runText(tenant, run, false, env.now(), mask)}}`;
    }),
  );
  const head = JSON.stringify({ dataset, baseline: sides[0]?.name, judge_threshold }).slice(0, -1);
  return { text: `${head},"results":[${results.join(",")}]}`, isOver };
}

/** Compares the outcomes of the items that both runs have. */
function compare(baseline: ReadonlyMap<string, string>, candidate: ReadonlyMap<string, string>) {
  let wins = 0;
  let ties = 0;
  const regressions: string[] = [];
  for (const [id, outcome] of candidate) {
    const before = baseline.get(id);
    if (before === undefined) continue;
    const [passes, passed] = [outcome === "pass", before === "pass"];
    if (passes === passed) ties++;
    else if (passes) wins++;
    else regressions.push(id);
  }
  return { wins, losses: regressions.length, ties, regressions };
}

/** Resolves when all runs have ended or the wait is over, and when the client disconnects. */
async function ended(
  { tenant_id }: Principal,
  ids: readonly string[],
  seconds: number,
  exchange: Exchange,
  context: HttpContext,
): Promise<void> {
  const { env, store } = context;
  const tenant = store.tenant(tenant_id);
  const until = env.monotonic() + seconds * 1_000;
  const open = new Set(ids);
  let left = false;
  exchange.onAborted(() => {
    left = true;
  });
  // Registers as a live turn, so that shutdown waits for this answer.
  const waiting: LiveTurn = { slot: -1, lost() {}, fail() {} };
  context.turns.add(waiting);
  try {
    for (let pauseMs = lookMs.first; !left; pauseMs = Math.min(2 * pauseMs, lookMs.longest)) {
      for (const id of open) if ((await evalRunById(tenant, id))?.status !== "in_progress") open.delete(id);
      if (open.size === 0 || env.monotonic() >= until || context.closing()) return;
      await new Promise<void>((resolve) => void env.timer(pauseMs, resolve));
    }
  } finally {
    context.turns.delete(waiting);
  }
}

function secondsOf({ head }: Exchange): number {
  const [, asked] = /(?:^|[,;\s])wait=(\d{1,9})(?:$|[,;\s])/.exec(head.headers.prefer ?? "") ?? [];
  return asked === undefined ? waitSeconds.default : Math.min(Number(asked), waitSeconds.max);
}

function optionsOf(body: Partial<EvalOptions>): EvalOptions {
  const {
    deterministic_judge = false,
    use_llm_judge = false,
    judge_model = null,
    mock = false,
    concurrency = 8,
  } = body;
  return { deterministic_judge, use_llm_judge, judge_model, mock, concurrency };
}

function isNamed({ manifest, run_id }: ComparedSpec): boolean {
  return (
    run_id !== undefined || typeof manifest === "object" || (typeof manifest === "string" && manifest.trim() !== "")
  );
}

async function runNamed(store: TenantStore, id: string): Promise<EvalRunRow> {
  const run = runIdPattern.test(id) ? await evalRunById(store, id) : undefined;
  if (run === undefined) throw new SvcError("not_found");
  return run;
}

/** Adds the headers of a route that another one replaces (RFC 9745, RFC 8594). */
function withDeprecation<R extends Extract<Reply, { kind: "json" }>>(reply: R): R {
  const link = '</eval/runs>; rel="successor-version"';
  return { ...reply, headers: { ...reply.headers, deprecation: `@${deprecatedSince}`, link } };
}

export const evalRunRoutes = [startRun, startRunOf, listRuns, compareRuns, getRun, cancelRun];
