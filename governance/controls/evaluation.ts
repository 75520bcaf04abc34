import { taskToolName } from "../../manifests/sections/delegation.ts";
import type { Control, GovernedRun } from "./control.ts";
import { pass } from "./verdicts.ts";

/** Risks of tools that an evaluation must not call unless its dataset allows effects. */
const denied: readonly string[] = ["spends", "speaks"];

/** Refuses calls that spend or speak in a run of an evaluation whose dataset does not allow effects (decision 201: such calls are denied). */
export function evaluation(run: GovernedRun): Control | null {
  if (run.allowsEffects) return null;
  return {
    name: "policy",
    before({ tool, agent }) {
      // The calls of a task are refused themselves.
      if (tool === taskToolName) return pass;
      const risk = agent.tools.find(({ name }) => name === tool)?.risk ?? "speaks";
      if (!denied.includes(risk)) return pass;
      const detail = `a tool that ${risk} is not called in an evaluation, unless its dataset sets allow_effects`;
      return { verdict: "deny", rule: "evaluation", detail };
    },
  };
}
