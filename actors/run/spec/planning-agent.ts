import { modeAfterPlan, planApproval } from "../../../governance/auth/permission-modes.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { matchAnyGlob } from "../../../manifests/glob.ts";
import { exitPlanModeName } from "../../../manifests/sections/permissions.ts";
import { exitPlanMode } from "../../tools/plans/exit-plan-mode.ts";

const planning = new WeakMap<CompiledAgent, CompiledAgent>();

/**
 * The agent of a run that begins in plan mode: it has a tool more, by which it asks to carry out its plan. It keeps the tool when the
 * plan is approved, so that what the model is told of its tools stays the same. Made once for each compiled agent.
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
