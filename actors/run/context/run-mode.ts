import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { isExit, modeAfterPlan, modeOf } from "../../../governance/auth/permission-modes.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { exitPlanModeName } from "../../../manifests/sections/permissions.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { RunRow } from "../../../storage/tables/runs.ts";
import type { ToolResult } from "../../tools/tool.ts";
import { planningAgent } from "../spec/planning-agent.ts";
import type { RunContext } from "./run-context.ts";

// The permission mode of a run: it holds from its beginning to its end, also when the conversation is given another meanwhile. Only an
// approved plan changes it on the way.

/** A mode, and the agent that has the tools for it. */
interface ModeOfRun {
  readonly mode: PermissionMode;
  readonly agent: CompiledAgent;
}

/** The mode that a run goes on in which was put aside. */
export function resumeMode(
  agent: CompiledAgent,
  { asked, spent }: Pick<RunRow, "asked" | "spent">,
  by: Principal,
): ModeOfRun {
  const { permission_mode: began = "default" } = asked;
  const mode = modeOf(agent, spent?.permission_mode ?? began, by);
  // It has the tool still when its plan was approved.
  return { mode, agent: mode === "plan" || began === "plan" ? planningAgent(agent) : agent };
}

/**
 * The mode that the run goes on in when a call has asked to leave plan mode and may; null for every other call. Of several plans that are
 * approved at once the first ends it.
 */
export function leavePlan(runContext: RunContext, { name }: ToolCall, { error }: ToolResult): PermissionMode | null {
  const { mode, spec } = runContext;
  if (mode !== "plan" || error !== undefined || !isExit(spec.agent, name)) return null;
  const after = modeAfterPlan(spec.agent);
  if (after !== null) runContext.run.mode = after;
  return after;
}

/** Says that the run is in another mode, when its conversation has it too. */
export function tellMode(runContext: RunContext, mode: PermissionMode): void {
  runContext.stream.frameInCall("permission_mode_changed", { mode });
  runContext.audit("permission_mode_change", mode, { mode, via: exitPlanModeName });
}
