import { exitPlanModeName } from "../../manifests/sections/permissions.ts";
import { isExit } from "../auth/permission-modes.ts";
import type { Control, GovernedRun } from "./control.ts";
import { type CallVerdict, pass } from "./verdicts.ts";

/** Plan mode: what may change something does not run. What the other modes waive, approvals do not ask for. */
export function permissionModes(run: GovernedRun): Control | null {
  const { agent } = run;
  // A run may leave plan mode on its way, and never enters it.
  if (run.mode !== "plan" && !isExit(agent, exitPlanModeName)) return null;
  const { readOnly } = agent.permissions;
  return {
    name: "permission_mode",
    before({ tool }) {
      if (run.mode !== "plan") return isExit(agent, tool) ? refused("the conversation is not in plan mode") : pass;
      if (isExit(agent, tool) || readOnly.has(tool)) return pass;
      return refused(`plan mode runs no ${tool}, only tools that read`);
    },
  };
}

function refused(detail: string): CallVerdict {
  return { verdict: "deny", rule: "permission_mode", detail };
}
