import { SvcError } from "../../bus/errors.ts";
import { fromJsonText } from "../../bus/protocol/json-text.ts";
import type { AskedWorkflowRun } from "../../bus/protocol/workflow.ts";
import { auditOp } from "../../governance/audit.ts";
import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import type { WorkflowDefinition } from "../../governance/workflows/definition.ts";
import type { KindShapes } from "../../governance/workflows/kind-shape.ts";
import { Problems } from "../../governance/workflows/problems.ts";
import { readDefinition } from "../../governance/workflows/read-definition.ts";
import { readRunInputs } from "../../governance/workflows/run-inputs.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { openBudgetOps } from "../../storage/tables/run-budgets.ts";
import { noThread } from "../../storage/tables/waits.ts";
import { beginWorkflowRunOps, hasOpenWorkflowRuns, workflowRunById } from "../../storage/tables/workflow-runs.ts";
import { liveWorkflow, needRevisionOp, workflowRevision } from "../../storage/tables/workflows.ts";
import type { ActorContext } from "../runtime/define.ts";
import { nothing } from "../spending/shares.ts";
import type { WorkflowDeps } from "./deps.ts";
import { stepPrincipal } from "./run-principal.ts";
import { newStep } from "./step-state.ts";

/** Max unfinished runs of a tenant. Waiting ones cost rows only. */
const openRunsMax = 10_000;

/** Begins a run: one batch stores it and its steps. No effect if it had begun. Refuses as `start` of the workflow actor says. */
export async function beginRun(
  store: TenantStore,
  id: string,
  asked: AskedWorkflowRun,
  { env, deps }: ActorContext<WorkflowDeps>,
): Promise<void> {
  if ((await workflowRunById(store, id)) !== undefined) return;
  const { principal, workflow_id, cause, taint } = asked;
  const workflow = await liveWorkflow(store, workflow_id);
  if (workflow === undefined) throw new SvcError("not_found");
  const revision = await workflowRevision(store, workflow_id, asked.revision ?? workflow.revision);
  if (revision === undefined) throw new SvcError("not_found");
  await refreshAccess(principal, deps, env.now());
  if (isRevoked(principal, deps, env.now())) throw new SvcError("unauthorized", { reason: "principal_revoked" });
  const definition = storedDefinition(revision.definition, deps.stepKinds);
  const inputs = readRunInputs(definition, fromJsonText(asked.inputs));
  if (inputs.problems.length > 0)
    throw new SvcError("invalid_request", {
      detail: inputs.problems.map(({ name, message: msg }) => ({
        loc: ["body", "inputs", ...(name === "" ? [] : [name])],
        msg,
        type: "value",
      })),
    });
  if (await hasOpenWorkflowRuns(store, openRunsMax))
    throw new SvcError("too_many_workflow_runs", { retryAfterSeconds: 60 });
  const { tenant_id: _tenant, ...starter } = principal;
  // The scopes are those that both have now; each step checks them again.
  const { scopes } = stepPrincipal(principal, revision.saver, deps, env.now());
  const now = env.now();
  const run = {
    ...{ id, workflow_id, revision: revision.revision, status: "queued" as const },
    ...{ inputs: JSON.stringify(inputs.values), taint, outputs: null, error: null, version: 1 },
    ...{
      starter: { ...starter, scopes },
      cause,
      seed: env.id(),
      cost_usd: 0,
      ts: now,
      finished_at: null,
      wake_at: now,
    },
  };
  const event = {
    event_type: "workflow_run_started",
    status: "ok",
    manifest_id: "",
    principal_subj: principal.sub,
    payload: { workflow_id, run_id: id, revision: revision.revision, cause },
  } as const;
  await store.write([
    needRevisionOp(store, workflow_id, revision.revision),
    ...beginWorkflowRunOps(
      store,
      run,
      definition.steps.map((step) => newStep(id, step.id)),
    ),
    ...budgetOps(store, id, definition.limits.max_cost_usd),
    auditOp(store, { env, mask: deps.mask }, event),
  ]);
}

/** Opens the budget of a run, from which the runs of its steps reserve before each model call; none without a limit. */
function budgetOps(store: TenantStore, run_id: string, max_cost_usd: number | null): WriteOp[] {
  if (max_cost_usd === null) return [];
  const max = Number.MAX_SAFE_INTEGER;
  const limits = { max_tool_calls: max, max_hops: max, max_input_tokens: max, max_output_tokens: max, max_cost_usd };
  return openBudgetOps(store, { run_id, root_key: noThread, ...limits, ...nothing, tool_calls: 0, hops: 0 }, nothing);
}

/** Reads a stored document. It was checked when it was saved. */
export function storedDefinition(text: string, kinds: KindShapes): WorkflowDefinition {
  const definition = readDefinition(JSON.parse(text), kinds, new Problems());
  if (definition === null) throw new Error("the stored definition of a workflow cannot be read");
  return definition;
}
