import { type PermissionMode, permissionModes } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ApprovalRule } from "../../manifests/sections/approvals.ts";
import { exitPlanModeName } from "../../manifests/sections/permissions.ts";
import { hasScopes } from "./scopes.ts";

/** Scopes that a caller needs to set mode bypass and to start a run in it. */
export const bypassScopes: readonly string[] = ["approvals:bypass"];

/** The approval rule of `exit_plan_mode`. It replaces any rule of the manifest for that tool. */
export const planApproval: ApprovalRule = {
  id: "plan-approval",
  description: "The agent has a plan and asks to carry it out.",
  tools: [exitPlanModeName],
  ttl_seconds: 1800,
  one_shot: true,
  bind_principal: true,
  require_other: false,
  allow_unattended: false,
  when_args: [],
  wait: true,
  risks: [],
  when_tainted: [],
};

/**
 * Returns the permission mode of a run, where `kept` is the mode stored with its thread (null for none). Falls back to the
 * manifest's default if the stored mode is not allowed or the caller lacks its scopes. An unknown stored mode becomes `plan`,
 * the strictest.
 */
export function modeOf({ permissions }: CompiledAgent, kept: string | null, principal: Principal): PermissionMode {
  const { defaultMode, allowed } = permissions;
  if (kept === null) return defaultMode;
  const mode = permissionModes.find((known) => known === kept);
  if (mode === undefined) return "plan";
  if (!allowed.has(mode)) return defaultMode;
  return mode === "bypass" && !hasScopes(principal, bypassScopes) ? defaultMode : mode;
}

/** True if the tool is `exit_plan_mode` of an agent that offers it. */
export function isExit({ approvals }: CompiledAgent, tool: string): boolean {
  return approvals.get(tool) === planApproval;
}

/** Returns the mode after a plan is approved; null if the manifest allows only plan mode. */
export function modeAfterPlan({ permissions }: CompiledAgent): PermissionMode | null {
  const { defaultMode, allowed } = permissions;
  if (allowed.has("default")) return "default";
  return defaultMode === "plan" ? null : defaultMode;
}
