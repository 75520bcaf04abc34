import { matchAnyGlob } from "../../manifests/glob.ts";
import type { AskingRule } from "./approval-request.ts";
import { gate } from "./approvals.ts";
import type { Control, GovernedRun } from "./control.ts";
import { pass } from "./verdicts.ts";

/** spec.command_screening: commands of tools are refused, or wait for a person, before they run. */
export function commandScreening(run: GovernedRun): Control | null {
  const { commandScreening: screening } = run.agent;
  if (screening === null) return null;
  return {
    name: "command",
    async before(call) {
      if (!matchAnyGlob(screening.tools, call.tool)) return pass;
      const { screenCommand } = await import("../commands/screen-command.ts");
      const found = await screenCommand(call.args, screening);
      if (found === null) return pass;
      const { decision, reason } = found;
      const rule = `command:${reason}`;
      const detail = `command_screening: ${reason}`;
      if (decision === "deny") return { verdict: "deny", rule, detail };
      if (run.mode === "bypass") {
        run.audit("approval_waived", run.mode, { tool: call.tool, manifest_id: run.agent.name });
        run.metrics.count("svc_approval_waived_total", { mode: run.mode });
        return pass;
      }
      if (!run.attended && !run.durable) return { verdict: "deny", rule, detail: `${detail}; nobody can approve it` };
      try {
        return await gate(run, askingRule(rule, detail, screening.approval_ttl_seconds), call);
      } catch (error) {
        run.failed(error);
        return { verdict: "deny", rule, detail: `${detail}; its approval is unavailable` };
      }
    },
  };
}

function askingRule(id: string, description: string, ttl_seconds: number): AskingRule {
  return { id, description, ttl_seconds, one_shot: true, bind_principal: false, require_other: false };
}
