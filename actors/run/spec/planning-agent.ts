import { modeAfterPlan, planApproval } from "../../../governance/auth/permission-modes.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { matchAnyGlob } from "../../../manifests/glob.ts";
import { exitPlanModeName } from "../../../manifests/sections/permissions.ts";
import { exitPlanMode } from "../../tools/plans/exit-plan-mode.ts";

const planning = new WeakMap<CompiledAgent, CompiledAgent>();

/**
 * Returns the agent of a run that starts in plan mode, with one more tool: it asks for approval of the plan. The tool stays after the
 * approval, so that the prompt prefix does not change. Cached per compiled agent.
 */
export function planningAgent(agent: CompiledAgent): CompiledAgent {
  if (!agent.permissions.allowed.has("plan") || modeAfterPlan(agent) === null) return agent;
  let made = planning.get(agent);
  if (made === undefined) {
    made = withExit(agent);
    planning.set(agent, made);
  }
  return made;
}

function withExit(agent: CompiledAgent): CompiledAgent {
  const { policies } = agent.manifest.spec;
  const guards = (at: number): boolean => matchAnyGlob(policies[at]?.tools ?? [], exitPlanModeName);
  return {
    ...agent,
    tools: [...agent.tools, exitPlanMode],
    approvals: new Map([...agent.approvals, [exitPlanModeName, planApproval]]),
    policies: agent.policies.map((policy, at) =>
      guards(at) ? { ...policy, tools: new Set([...policy.tools, exitPlanModeName]) } : policy,
    ),
  };
}
