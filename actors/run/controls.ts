import type { RunBudget } from "../../governance/budget.ts";
import type { Control } from "../../governance/controls/pipeline.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { AgentMetrics } from "./agent-metrics.ts";

/**
 * What a tool tells of secrets reaches neither the model nor the log. Its call's own arguments may come back as they are: they are
 * in the log already, and whoever wrote a guess there would learn from a mask that it is right (decision 77).
 */
export function secretMaskingControl(mask: SecretMask, metrics: AgentMetrics): Control {
  return {
    name: "secret_masking",
    after(call, text) {
      let masked = mask.told.text(text);
      if (masked !== text) masked = mask.told.text(text, textsIn(call.args));
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

/** All texts and keys of a JSON value, one to a line. Walks without recursion: models nest as deep as they like. */
function textsIn(value: unknown): string {
  const texts: string[] = [];
  const waiting = [value];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next === "string") texts.push(next);
    else if (typeof next === "object" && next !== null)
      for (const [key, item] of Object.entries(next)) waiting.push(key, item);
  }
  return texts.join("\n");
}
