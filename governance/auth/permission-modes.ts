import { type PermissionMode, permissionModes } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ApprovalRule } from "../../manifests/sections/approvals.ts";
import { exitPlanModeName } from "../../manifests/sections/permissions.ts";
import { hasScopes } from "./scopes.ts";

/** What a caller must hold to set mode bypass, and for each run in it. */
export const bypassScopes: readonly string[] = ["approvals:bypass"];

/** By which rule it asks, whatever the manifest's rules say of its name. */
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
};

/**
 * The mode that holds for a run of this caller when its conversation keeps `kept`, null for none. The manifest's default holds in the
 * place of one that it does not allow, or that the caller may not use; what nobody can read is the strictest.
 */
export function modeOf({ permissions }: CompiledAgent, kept: string | null, principal: Principal): PermissionMode {
  const { defaultMode, allowed } = permissions;
  if (kept === null) return defaultMode;
  const mode = permissionModes.find((known) => known === kept);
  if (mode === undefined) return "plan";
  if (!allowed.has(mode)) return defaultMode;
  return mode === "bypass" && !hasScopes(principal, bypassScopes) ? defaultMode : mode;
}

/** Whether a call of this name is the agent's way to ask whether it may leave plan mode. */
export function isExit({ approvals }: CompiledAgent, tool: string): boolean {
  return approvals.get(tool) === planApproval;
}

/** Where an approved plan leads; null where the manifest allows nothing but planning. */
export function modeAfterPlan({ permissions }: CompiledAgent): PermissionMode | null {
  const { defaultMode, allowed } = permissions;
  if (allowed.has("default")) return "default";
  return defaultMode === "plan" ? null : defaultMode;
}
