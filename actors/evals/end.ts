import { deliveryAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { type AuditEvent, auditOp } from "../../governance/audit.ts";
import { openEndpoint } from "../../governance/settings/webhook-endpoints.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { outboxOps } from "../../storage/tables/deliveries.ts";
import { type EvalRunRow, endEvalRunOps, evalRunById } from "../../storage/tables/eval-runs.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { EvalsDeps } from "./deps.ts";

/** The type of the webhook about a regression. */
const regressionType = "eval.regression";

/**
 * Ends a run: one batch stores its status and audits it. A continuous evaluation below its floor also audits a regression and
 * sends it to the endpoints of the dataset. No effect on a run that has ended.
 */
export async function endEvaluation(
  store: TenantStore,
  id: string,
  end: { readonly status: "completed" | "failed"; readonly error: string },
  { env, bus, deps }: ActorContext<EvalsDeps>,
): Promise<void> {
  const run = await evalRunById(store, id);
  if (run?.status !== "in_progress") return;
  const { status, error } = end;
  const audited = (event: AuditEvent) => auditOp(store, { env, mask: deps.mask }, event);
  const facts = factsOf(run);
  const isRegression = status === "completed" && facts.pass_rate < (run.asked.min_score ?? 0);
  const endpoints = isRegression ? endpointsOf(run, store.tenantId, deps) : [];
  const of = { manifest_id: run.candidate_manifest, principal_subj: run.asked.owner.sub };
  const regression = { ...facts, min_score: run.asked.min_score ?? 0 };
  const body = JSON.stringify({ type: regressionType, tenant_id: store.tenantId, ...regression });
  try {
    await store.write([
      ...endEvalRunOps(store, id, { status, error, now: env.now() }),
      audited({
        ...of,
        event_type: "eval_finished",
        status: status === "completed" ? "ok" : "error",
        payload: { ...facts, ...(error !== "" && { error }) },
      }),
      ...(isRegression
        ? [audited({ ...of, event_type: "eval_regression", status: "error", payload: regression })]
        : []),
      ...outboxOps(store, { source: `eval_${id}`, type: regressionType, body, endpoints }),
    ]);
  } catch (thrown) {
    // Another process has ended it.
    if (thrown instanceof SvcError && thrown.code === "conflict") return;
    throw thrown;
  }
  deps.metrics.count("svc_eval_runs_total", { outcome: error === "cancelled" ? "cancelled" : status });
  if (isRegression) deps.metrics.count("svc_eval_regressions_total", {});
  for (const endpoint of endpoints) bus.tell(deliveryAddress(store.tenantId, endpoint), "wake", {});
}

function factsOf({ id, dataset_name, pass_count, fail_count, error_count, total }: EvalRunRow) {
  const pass_rate = total === 0 ? 0 : pass_count / total;
  return { run_id: id, dataset: dataset_name, total, pass_count, fail_count, error_count, pass_rate };
}

function endpointsOf({ asked }: EvalRunRow, tenantId: string, { settings }: EvalsDeps): string[] {
  return (asked.webhooks ?? []).filter((id) => openEndpoint(settings.webhookEndpoints, id, tenantId) !== null);
}
