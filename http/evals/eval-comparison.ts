import { SvcError } from "../../bus/errors.ts";
import type { EvalOptions } from "../../bus/protocol/evals.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { itemsMax } from "../../governance/evals/dataset-items.ts";
import { type EvalRunRow, outcomesOfRun } from "../../storage/tables/eval-runs.ts";
import type { HttpContext } from "../context.ts";
import { nullable } from "../schemas/common.ts";
import { EvalRun, passRate, runText } from "./eval-records.ts";
import { type EvaluatedSpec, evalRunNamed, startEvalRun } from "./eval-starts.ts";

// Comparisons of the runs of several agents on one dataset.

/** One side of a comparison. */
export type ComparedSpec = EvaluatedSpec & { readonly name?: string; readonly run_id?: string };

/** A comparison as clients read it. */
export const Comparison = Type.Object({
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

/** True if the side names an agent or a run. */
export function isNamed({ manifest, run_id }: ComparedSpec): boolean {
  return (
    run_id !== undefined || typeof manifest === "object" || (typeof manifest === "string" && manifest.trim() !== "")
  );
}

/** Returns the id of the run of one side of a comparison: a given one of the dataset, or a new one. */
export async function runOfSide(
  dataset: string,
  spec: ComparedSpec,
  options: EvalOptions,
  principal: Principal,
  context: HttpContext,
): Promise<string> {
  if (spec.run_id === undefined) return startEvalRun(dataset, spec, options, principal, context);
  const run = await evalRunNamed(context.store.tenant(principal.tenant_id), spec.run_id);
  if (run.dataset_name !== dataset) throw new SvcError("not_found");
  return run.id;
}

/** Returns the JSON of a comparison; the first side is the baseline. */
export async function comparison(
  dataset: string,
  sides: readonly { readonly name: string }[],
  ids: readonly string[],
  judge_threshold: number | null,
  { tenant_id }: Principal,
  { store, env, mask }: HttpContext,
): Promise<{ text: string; isOver: boolean }> {
  const tenant = store.tenant(tenant_id);
  const runs = await Promise.all(ids.map((id) => evalRunNamed(tenant, id)));
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
