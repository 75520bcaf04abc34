import { SvcError } from "../../bus/errors.ts";
import type { AskedEval } from "../../bus/protocol/evals.ts";
import { fromJsonText } from "../../bus/protocol/json-text.ts";
import { auditOp } from "../../governance/audit.ts";
import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import { admit } from "../../governance/auth/inbound.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { storedDataset, takeDueOp } from "../../storage/tables/eval-datasets.ts";
import { type AskedEvaluation, beginEvalRun, evalRunById, hasOpenEvalRuns } from "../../storage/tables/eval-runs.ts";
import { unsavedVersion } from "../library/manifest-library.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { EvalsDeps } from "./deps.ts";
import { evalPrincipal } from "./eval-principal.ts";
import { judgeAgent } from "./judge.ts";

/** Max unfinished runs of a tenant. */
const openRunsMax = 50;
const minuteMs = 60_000;

/**
 * Begins a run: one batch stores its row and a copy of the items. Returns false if it had begun. Refuses as `start` of the evals
 * actor says.
 */
export async function beginEvaluation(
  store: TenantStore,
  id: string,
  asked: AskedEval,
  { env, deps }: ActorContext<EvalsDeps>,
): Promise<boolean> {
  if ((await evalRunById(store, id)) !== undefined) return false;
  const { dataset_name, principal, options, due_at } = asked;
  const dataset = await storedDataset(store, dataset_name);
  if (dataset === undefined) throw new SvcError("not_found");
  if (dataset.item_count === 0) throw new SvcError("eval_dataset_empty");
  if (await hasOpenEvalRuns(store, openRunsMax)) throw new SvcError("too_many_eval_runs", { retryAfterSeconds: 10 });
  const { sub, scopes, scheme, issuer } = principal;
  const owner = { sub, scopes, scheme, issuer };
  await refreshAccess(evalPrincipal(store.tenantId, owner, deps, env.now()), deps, env.now());
  const running = evalPrincipal(store.tenantId, owner, deps, env.now());
  if (isRevoked(running, deps, env.now())) throw new SvcError("unauthorized", { reason: "principal_revoked" });
  const agent = await agentOf(store, asked, deps);
  admit(running, agent.inbound);
  // An unknown route is refused now and not for each item.
  if (options.judge_model !== null) await judgeAgent(options.judge_model, store.tenantId, deps.manifests);
  const { continuous } = dataset;
  const isScheduled = due_at !== undefined && continuous !== null;
  const evaluation: AskedEvaluation = {
    owner,
    cause: isScheduled ? "schedule" : "request",
    ...options,
    allow_effects: dataset.allow_effects === 1,
    // The items are copied, and their scores take their place.
    bytes: dataset.bytes,
    ...(isScheduled && continuous.min_score !== null && { min_score: continuous.min_score }),
    ...(isScheduled && { webhooks: continuous.webhooks }),
  };
  const kept = deps.manifests.keep(store, agent);
  const run = {
    id,
    ts: env.now(),
    dataset_name,
    candidate_manifest: agent.name,
    manifest_version: agent.version === unsavedVersion ? null : agent.version,
    body: kept.digest,
    asked: evaluation,
    seed: env.id(),
    total: dataset.item_count,
  };
  const { cause } = evaluation;
  const event = {
    event_type: "eval_started",
    status: "ok",
    manifest_id: agent.name,
    principal_subj: isScheduled ? "eval" : sub,
    payload: { run_id: id, dataset: dataset_name, items: run.total, cause, on_behalf_of: sub },
  } as const;
  const ops = [
    ...(isScheduled ? [takeDueOp(store, dataset, continuous.every_minutes * minuteMs)] : []),
    ...kept.ops,
    auditOp(store, { env, mask: deps.mask }, event),
  ];
  await beginEvalRun(store, run, { limit: deps.settings.tenantStoredBytes, ops });
  kept.kept();
  return true;
}

/** Audits a continuous evaluation that could not start, and moves its time. After a transient failure the next tick tries again. */
export async function refuseDue(
  store: TenantStore,
  { dataset_name, manifest }: AskedEval,
  refusal: SvcError,
  { env, deps }: ActorContext<EvalsDeps>,
): Promise<void> {
  const dataset = await storedDataset(store, dataset_name);
  if (refusal.retryable || refusal.code === "conflict" || dataset?.continuous == null) return;
  const event = {
    event_type: "eval_refused",
    status: "denied",
    manifest_id: manifest,
    principal_subj: "eval",
    payload: { dataset: dataset_name, on_behalf_of: dataset.owner.sub, error: refusal.message },
  } as const;
  const take = takeDueOp(store, dataset, dataset.continuous.every_minutes * minuteMs);
  await store.write([take, auditOp(store, { env, mask: deps.mask }, event)]);
}

function agentOf(store: TenantStore, { manifest, version, body }: AskedEval, deps: EvalsDeps): Promise<CompiledAgent> {
  const { manifests } = deps;
  if (body !== null) return manifests.unsaved(fromJsonText(body), store.tenantId);
  if (manifest.trim() === "") throw new SvcError("manifest_required");
  return version === null
    ? manifests.resolve(store.tenantId, manifest, null)
    : manifests.atVersion(store, manifest, version);
}
