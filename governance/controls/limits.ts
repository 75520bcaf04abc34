import { taskToolName } from "../../manifests/sections/delegation.ts";
import type { Breach, RunBudget } from "../budget.ts";
import type { Control, GovernedRun } from "./control.ts";
import { type CallVerdict, pass } from "./verdicts.ts";

/** spec.limits on tool calls and time. A call that a later control refuses counts too. */
export function limits({ budget }: GovernedRun): Control {
  return {
    name: "limits",
    before({ tool, now }) {
      const breach = takeCall(budget, tool, now);
      if (breach !== null || budget.parentBudget === null) return verdictOf(breach);
      return budget.parentBudget.count(tool).then(verdictOf);
    },
  };
}

/** Counts a tool call, and for the task tool a hop too; returns the limit that forbids it, or null. */
function takeCall(budget: RunBudget, tool: string, now: number): Breach | null {
  return budget.takeToolCall(now) ?? (tool === taskToolName ? budget.takeHop() : null);
}

function verdictOf(breach: Breach | null): CallVerdict {
  return breach === null ? pass : { verdict: "deny", rule: breach.limit, detail: breach.detail };
}
