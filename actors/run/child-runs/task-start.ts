import { runAddress, taskSuffix, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { SharedBudgets } from "../../../bus/protocol/task.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { mayDelegate } from "../../../manifests/sections/delegation.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { joinBudgetOps, openBudgetOps } from "../../../storage/tables/run-budgets.ts";
import { nothing } from "../../spending/shares.ts";
import { type ToolErrorCode, type ToolResult, toolError } from "../../tools/tool.ts";
import { sharedOf } from "../billing/parent-run.ts";
import { storedLimits } from "../billing/tree-budget.ts";
import type { RunContext } from "../context/run-context.ts";
import type { RunSpec } from "../spec/run-spec.ts";

// The start of a task, in the foreground or in the background.

const startMs = 10_000;
const startAttempts = 3;

/** Starts the run of a task. Repeats the ask with the same id if its outcome is unknown. Refuses as the start of a run does. */
export async function startTask({ deps }: RunContext, turn: SubmitTurn): Promise<void> {
  const address = runAddress(turn.principal.tenant_id, turn.thread_suffix, turn.run_id);
  for (let attempt = 1; ; attempt++) {
    try {
      await deps.bus.ask(address, "start", turn, { deadlineMs: startMs, bytes: turn.manifest.length + 512 });
      return;
    } catch (error) {
      const isUnknown = error instanceof SvcError && error.code === "deadline_exceeded";
      if (!isUnknown || attempt === startAttempts) throw error;
    }
  }
}

/** True if a start failed and the task may still work, or begin late. */
export function mayHaveStarted(error: unknown): boolean {
  return error instanceof SvcError && (error.code === "deadline_exceeded" || error.code === "actor_lost");
}

/** Stops a task of this run. Resolves to true if it was working or suspended. */
export async function stopTask({ deps, spec, abortReason }: RunContext, taskId: string): Promise<boolean> {
  const address = threadAddress(spec.principal.tenant_id, taskSuffix(taskId));
  return (await deps.bus.ask(address, "abort", { reason: abortReason ?? "client" })).aborted;
}

/** Returns the result for the model if a task could not start. */
export function refusedStart(agent: string, error: unknown): ToolResult {
  const { code, message } = SvcError.from(error);
  return toolError(refusals[code] ?? "transport_unavailable", `${agent}: ${message}`);
}

const refusals: Readonly<Record<string, ToolErrorCode>> = {
  unknown_manifest: "not_found",
  invalid_manifest: "not_found",
  missing_scopes: "permission_denied",
  auth_scheme_not_allowed: "permission_denied",
  unauthorized: "permission_denied",
  model_not_configured: "transport_unavailable",
  run_queue_full: "rate_limited",
};

/** Moves the budget of a run into the store, before its first task starts. Returns it with those of the runs above. */
export async function sharedBudgets({ spec, billing: { tree, budget } }: RunContext): Promise<SharedBudgets> {
  const { agent } = spec;
  const budgets = (await tree?.share(budget, agent.limits)) ?? [];
  const priced = sharedOf(spec)?.priced === true || agent.manifest.spec.limits.max_cost_usd !== null;
  return { budgets, priced };
}

/**
 * Returns the statements of a first batch that join a run to the budgets above it; none without such budgets. A joined run that may start
 * tasks also gets a budget of its own. The batch refuses with conflict if those budgets are gone, or if the thread has too many background
 * tasks.
 */
export function joiningOps(
  store: TenantStore,
  { run_id, parent, workflow, thread_key }: Pick<RunSpec, "run_id" | "parent" | "workflow" | "thread_key">,
  agent: CompiledAgent,
): WriteOp[] {
  const shared = sharedOf({ parent, workflow });
  if (shared === null) return [];
  const { task_id = null, root_key = thread_key, background } = parent ?? {};
  const share = { run_id, task_id: background ? task_id : null, root_key, budgets: shared.budgets };
  const joining = joinBudgetOps(store, share, background?.tasks_max ?? Number.POSITIVE_INFINITY);
  if (!mayDelegate(agent)) return joining;
  const own = { run_id, root_key, ...storedLimits(agent.limits), tool_calls: 0, hops: 0, ...nothing };
  return [...joining, ...openBudgetOps(store, own, nothing)];
}
