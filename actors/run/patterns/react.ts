import { escalatingSteps } from "../steps/escalation.ts";
import { type FinalSteps, finalSteps } from "../steps/final-steps.ts";
import type { Pattern } from "../steps/pattern.ts";

/** The loop of one agent: repeats steps until the model answers. */
export const react: Pattern = (runContext, tools) => {
  const { agent } = runContext.spec;
  const { ephemeralInstruction } = runContext.step;
  const { escalation } = agent.model;
  const steps: FinalSteps = {
    ephemeralInstruction: (step) => (step === 1 ? ephemeralInstruction : null),
    limit: agent.recursion_limit,
  };
  return escalation === null
    ? finalSteps(runContext, tools, steps)
    : escalatingSteps(runContext, tools, steps, escalation);
};
