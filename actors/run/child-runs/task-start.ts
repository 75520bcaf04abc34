import { runAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { SharedBudgets } from "../../../bus/protocol/task.ts";
import { type ToolErrorCode, type ToolResult, toolError } from "../../tools/tool.ts";
import { sharedAbove } from "../billing/parent-budget.ts";
import type { RunContext } from "../context/run-context.ts";

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

/**
 * Moves the budgets of a run and of the runs above it into the store. Returns their ids. Refuses with actor_lost if a run above
 * is gone.
 */
export async function sharedBudgets({ spec, deps, billing: { tree, budget } }: RunContext): Promise<SharedBudgets> {
  const { parent, principal, agent, run_id } = spec;
  const above = parent === null ? null : await sharedAbove(parent, principal.tenant_id, deps.bus);
  await tree?.share(budget, agent.limits);
  return {
    budgets: [...(above?.budgets ?? []), run_id],
    priced: above?.priced === true || agent.manifest.spec.limits.max_cost_usd !== null,
  };
}
