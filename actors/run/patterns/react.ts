import { finalSteps } from "../final-steps.ts";
import type { Pattern } from "../pattern.ts";

/** The loop of one agent: steps until it answers. */
export const react: Pattern = (scope, tools) => {
  const { agent, nudge } = scope.plan;
  return finalSteps(scope, tools, { nudge: (step) => (step === 1 ? nudge : null), limit: agent.recursion_limit });
};
