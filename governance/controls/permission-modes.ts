import { exitPlanModeName } from "../../manifests/sections/permissions.ts";
import { isExit } from "../auth/permission-modes.ts";
import type { Control, GovernedRun } from "./control.ts";
import { type CallVerdict, pass } from "./verdicts.ts";

/** Refuses calls that may change something while the run is in plan mode. The control `approvals` implements the other modes. */
export function permissionModes(run: GovernedRun): Control | null {
  const { agent } = run;
  // A run may leave plan mode, but never enter it.
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
