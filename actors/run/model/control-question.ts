import type { AskModel } from "../../../governance/controls/control.ts";
import type { RunContext } from "../context/run-context.ts";
import { askAside } from "./side-question.ts";

/** How the controls of a run ask its model: within the limits and the budget of the run, and metered like its own calls. */
export function askModelOf(runContext: RunContext): AskModel {
  return async ({ task, given, answer }) => {
    const asked = await askAside<unknown>(runContext, { routes: runContext.step.routes, task, given, answer });
    return asked.kind === "answer" ? asked.value : null;
  };
}
