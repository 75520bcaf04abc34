import type { RunBudget } from "../../governance/limits.ts";
import type { Control } from "../../governance/pipeline.ts";
import type { SecretMask } from "../../governance/secrets.ts";
import type { AgentMetrics } from "./agent-metrics.ts";

/** Known secrets and credential patterns never reach the model or the log through a tool. */
export function secretMaskingControl(mask: SecretMask, metrics: AgentMetrics): Control {
  return {
    name: "secret_masking",
    after(call, text) {
      const masked = mask.text(text);
      if (masked !== text) metrics.count("svc_secret_masking_total", [metrics.label, call.tool]);
      return masked;
    },
  };
}

/** spec.limits on tool calls and time; an attempt that another control then refuses counts too. */
export function limitsControl(budget: RunBudget): Control {
  return {
    name: "limits",
    before({ now }) {
      const breach = budget.takeToolCall(now);
      return breach && { control: "limits", rule: breach.limit, detail: breach.detail };
    },
  };
}
