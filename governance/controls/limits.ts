import type { Control, GovernedRun } from "./control.ts";
import { pass } from "./verdicts.ts";

/** spec.limits on tool calls and time; an attempt that another control then refuses counts too. */
export function limits({ budget }: GovernedRun): Control {
  return {
    name: "limits",
    before({ now }) {
      const breach = budget.takeToolCall(now);
      return breach === null ? pass : { verdict: "deny", rule: breach.limit, detail: breach.detail };
    },
  };
}
