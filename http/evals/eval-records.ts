import { evalSuffix } from "../../bus/address.ts";
import { Type } from "../../bus/type.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type DatasetRow, type EvalItemRow, itemsPage } from "../../storage/tables/eval-datasets.ts";
import { type EvalRunRow, scoresPage } from "../../storage/tables/eval-runs.ts";
import type { Pieces } from "../exchange/reply.ts";
import { EpochMs, nullable, OpenObject } from "../schemas/common.ts";
import { noon, runIdExample } from "../schemas/example-values.ts";

// Datasets and runs of evaluations as clients read them. Secrets are masked, because callers and models wrote the texts.

/** Approximate max bytes of one page of items or scores. */
const pageBytes = 512 * 1024;
const pageRowsMax = 200;

const Item = Type.Object({
  item_id: Type.String({ examples: ["sum"] }),
  user_input: Type.String({ examples: ["What is 6 * 7?"] }),
  rubric: Type.Unsafe<Record<string, unknown>>({ ...OpenObject, examples: [{ contains: "42" }] }),
  created_at: EpochMs,
});

/** The field `continuous` of a dataset. */
export const continuousFields = {
  manifest: Type.String({ minLength: 1, maxLength: 128, description: "The agent to evaluate.", examples: ["quick"] }),
  every_minutes: Type.Integer({ minimum: 10, maximum: 43_200, description: "Time between two runs." }),
  min_score: Type.Optional(
    nullable(Type.Number({ minimum: 0, maximum: 1, description: "A pass rate below it is a regression." })),
  ),
  webhooks: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: 8,
      description: "Endpoints of SVC_WEBHOOK_ENDPOINTS that learn of a regression.",
    }),
  ),
};

const datasetFields = {
  tenant_id: Type.String({ examples: ["default"] }),
  name: Type.String({ examples: ["arithmetic"] }),
  description: Type.String({ examples: ["Sums that every agent must know."] }),
  created_at: EpochMs,
  updated_at: EpochMs,
  allow_effects: Type.Boolean({ description: "True if tools of an evaluated agent may spend and speak." }),
  continuous: nullable(Type.Object(continuousFields), { examples: [null] }),
  item_count: Type.Integer({ examples: [1] }),
};

/** A dataset in an answer. */
export const Dataset = Type.Object({
  ...datasetFields,
  items: Type.Array(Item),
  warnings: Type.Optional(Type.Array(Type.String(), { description: "After a change only.", examples: [[]] })),
});

/** A dataset in a list. */
export const ListedDataset = Type.Object({
  ...datasetFields,
  items: Type.Array(Item, { description: "Empty for a large dataset, whose items GET /eval/datasets/{name} returns." }),
});

const Score = Type.Object({
  thread_id: Type.String({
    description: "The thread with the transcript.",
    examples: [`default:eval:${runIdExample}:sum`],
  }),
  item_id: Type.String({ examples: ["sum"] }),
  pass: Type.Boolean({ examples: [true] }),
  score: Type.Number({ minimum: 0, maximum: 1, examples: [1] }),
  rule: Type.String({ description: "The rule that decided, or `error`.", examples: ["contains"] }),
  reason: Type.Optional(Type.String({ examples: ['the answer does not contain "42"'] })),
  answer: Type.Optional(Type.String({ description: "Its first 2,000 characters.", examples: ["6 * 7 = 42"] })),
  error: Type.Optional(Type.String({ examples: ["model_failed"] })),
  duration_ms: Type.Integer({ examples: [620] }),
  tokens_input: Type.Integer({ examples: [24] }),
  tokens_output: Type.Integer({ examples: [9] }),
  cost_usd: Type.Number(),
  judge_cost_usd: Type.Number(),
  tool_calls: Type.Integer({ examples: [1] }),
  tool_errors: Type.Integer(),
  judge_fallback: Type.Boolean({ description: "True if the judge failed and the other rules decided." }),
  judge_error: nullable(Type.String(), { examples: [null] }),
});

/** A run in an answer. */
export const EvalRun = Type.Object({
  id: Type.String({ examples: [runIdExample] }),
  tenant_id: Type.String({ examples: ["default"] }),
  dataset_name: Type.String({ examples: ["arithmetic"] }),
  candidate_manifest: Type.String({ examples: ["quick"] }),
  manifest_version: nullable(Type.Integer({ description: "In the tenant's store." }), { examples: [null] }),
  started_at: EpochMs,
  finished_at: nullable(EpochMs, { examples: [noon + 900] }),
  status: Type.Union([Type.Literal("in_progress"), Type.Literal("completed"), Type.Literal("failed")], {
    examples: ["completed"],
  }),
  error: Type.String({ description: "Why it failed, such as `cancelled`; empty otherwise.", examples: [""] }),
  cause: Type.Union([Type.Literal("request"), Type.Literal("schedule")]),
  total: Type.Integer({ description: "Items of the dataset at the start.", examples: [1] }),
  pass_count: Type.Integer({ examples: [1] }),
  fail_count: Type.Integer(),
  error_count: Type.Integer(),
  pass_rate: Type.Number({ minimum: 0, maximum: 1, description: "Passed items of all items.", examples: [1] }),
  wall_ms: Type.Integer({ description: "From its start to its end, or until now.", examples: [900] }),
  stats: Type.Object(
    {
      duration_ms: Type.Integer({ examples: [620] }),
      tokens_input: Type.Integer({ examples: [24] }),
      tokens_output: Type.Integer({ examples: [9] }),
      cost_usd: Type.Number(),
      judge_cost_usd: Type.Number(),
      tool_calls: Type.Integer({ examples: [1] }),
      tool_errors: Type.Integer(),
      judge_fallbacks: Type.Integer(),
    },
    { description: "Sums over the scores." },
  ),
  scores: Type.Array(Score, { description: "In the order of the items; empty in lists and comparisons." }),
});

/** Returns the JSON of a dataset with its items, in pieces. */
export function datasetPieces(
  store: TenantStore,
  dataset: DatasetRow,
  warnings: readonly string[] | null,
  mask: SecretMask,
): Pieces {
  return pieces();

  async function* pieces(): AsyncGenerator<string, void, undefined> {
    yield `${datasetHead(store.tenantId, dataset, mask)},"items":[`;
    let after = -1;
    for (const limit = pageLimit(dataset); ; ) {
      const page = await itemsPage(store, dataset.name, after, limit);
      const last = page.at(-1);
      if (page.length > 0) yield `${after === -1 ? "" : ","}${page.map((item) => itemText(item, mask)).join(",")}`;
      if (last === undefined || page.length < limit) break;
      after = last.position;
    }
    yield warnings === null ? "]}" : `],"warnings":${mask.forms.jsonText(JSON.stringify(warnings))}}`;
  }
}

/** Returns the JSON of a dataset in a list, with its items if they are at most `bytesMax` bytes. */
export async function listedDataset(
  store: TenantStore,
  dataset: DatasetRow,
  bytesMax: number,
  mask: SecretMask,
): Promise<string> {
  const items = dataset.bytes <= bytesMax ? await itemsPage(store, dataset.name, -1, dataset.item_count) : [];
  return `${datasetHead(store.tenantId, dataset, mask)},"items":[${items.map((item) => itemText(item, mask)).join(",")}]}`;
}

/** Returns the JSON of a run, with the scores of its items if asked for. */
export async function runText(
  store: TenantStore,
  run: EvalRunRow,
  withScores: boolean,
  now: number,
  mask: SecretMask,
): Promise<string> {
  const scores: string[] = [];
  for (let after = -1; withScores; ) {
    const page = await scoresPage(store, run.id, after, pageRowsMax);
    const texts = page.map(({ item_id, score }) => {
      const thread = JSON.stringify(`${store.tenantId}:${evalSuffix(run.id, item_id)}`);
      return mask.forms.jsonText(`{"thread_id":${thread},${score.slice(1)}`);
    });
    scores.push(...texts);
    const last = page.at(-1);
    if (last === undefined || page.length < pageRowsMax) break;
    after = last.position;
  }
  const head = mask.forms.jsonText(JSON.stringify(runView(store.tenantId, run, now)));
  return `${head.slice(0, -1)},"scores":[${scores.join(",")}]}`;
}

/** Returns a run without its scores. */
function runView(tenant_id: string, run: EvalRunRow, now: number): Record<string, unknown> {
  const { duration_ms, tokens_input, tokens_output, cost_usd, judge_cost_usd } = run;
  const { tool_calls, tool_errors, judge_fallbacks } = run;
  return {
    id: run.id,
    tenant_id,
    dataset_name: run.dataset_name,
    candidate_manifest: run.candidate_manifest,
    manifest_version: run.manifest_version,
    started_at: run.ts,
    finished_at: run.finished_at,
    status: run.status,
    error: run.error,
    cause: run.asked.cause,
    total: run.total,
    pass_count: run.pass_count,
    fail_count: run.fail_count,
    error_count: run.error_count,
    pass_rate: passRate(run),
    wall_ms: Math.max(0, (run.finished_at ?? now) - run.ts),
    stats: {
      ...{
        duration_ms,
        tokens_input,
        tokens_output,
        cost_usd: rounded(cost_usd),
        judge_cost_usd: rounded(judge_cost_usd),
      },
      ...{ tool_calls, tool_errors, judge_fallbacks },
    },
  };
}

/** Returns the share of the items that pass. */
export function passRate({ pass_count, total }: Pick<EvalRunRow, "pass_count" | "total">): number {
  return total === 0 ? 0 : pass_count / total;
}

function rounded(usd: number): number {
  return Math.round(usd * 1e8) / 1e8;
}

/** Returns the JSON of a dataset without its last brace. */
function datasetHead(tenant_id: string, dataset: DatasetRow, mask: SecretMask): string {
  const { name, description, created_at, updated_at, allow_effects, continuous, item_count } = dataset;
  const view = { tenant_id, name, description, created_at, updated_at, allow_effects: allow_effects === 1 };
  return mask.forms.jsonText(JSON.stringify({ ...view, continuous, item_count })).slice(0, -1);
}

function itemText({ item_id, user_input, rubric, created_at }: EvalItemRow, mask: SecretMask): string {
  const head = JSON.stringify({ item_id, user_input, created_at }).slice(0, -1);
  return mask.forms.jsonText(`${head},"rubric":${rubric}}`);
}

function pageLimit({ bytes, item_count }: DatasetRow): number {
  const mean = Math.max(1, bytes / Math.max(1, item_count));
  return Math.max(1, Math.min(pageRowsMax, Math.floor(pageBytes / mean)));
}
