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

// A run keeps its permission mode from its start to its end, even if the mode of the thread changes. Only an approved plan
// changes it.

/** A mode, and the agent with the tools for it. */
interface ModeOfRun {
  readonly mode: PermissionMode;
  readonly agent: CompiledAgent;
}

/** Returns the mode of a resumed run. */
export function resumeMode(
  agent: CompiledAgent,
  { asked, spent }: Pick<RunRow, "asked" | "spent">,
  by: Principal,
): ModeOfRun {
  const { permission_mode: began = "default" } = asked;
  const mode = modeOf(agent, spent?.permission_mode ?? began, by);
  // The agent keeps the tool that leaves plan mode, even after its plan was approved.
  return { mode, agent: mode === "plan" || began === "plan" ? planningAgent(agent) : agent };
}

/**
 * Leaves plan mode after a successful exit call. Returns the new mode; null for any other call. Of several approved plans the
 * first one changes the mode.
 */
export function leavePlan(runContext: RunContext, { name }: ToolCall, { error }: ToolResult): PermissionMode | null {
  const { mode, spec } = runContext;
  if (mode !== "plan" || error !== undefined || !isExit(spec.agent, name)) return null;
  const after = modeAfterPlan(spec.agent);
  if (after !== null) runContext.run.mode = after;
  return after;
}

/** Announces and audits the new mode of the run, after the thread has stored it. */
export function tellMode(runContext: RunContext, mode: PermissionMode): void {
  runContext.stream.frameInCall("permission_mode_changed", { mode });
  runContext.audit("permission_mode_change", mode, { mode, via: exitPlanModeName });
}
