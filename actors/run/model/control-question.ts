import type { AskModel } from "../../../governance/controls/control.ts";
import type { RunContext } from "../context/run-context.ts";
import { askAside } from "./side-question.ts";

/**
 * Returns the function by which the controls of a run ask its model. The calls use the limits and the budget of the run, and are
 * metered like its own.
 */
export function askModelOf(runContext: RunContext): AskModel {
  return async ({ task, given, answer }) => {
    const asked = await askAside<unknown>(runContext, { routes: runContext.step.routes, task, given, answer });
    return asked.kind === "answer" ? asked.value : null;
  };
}
