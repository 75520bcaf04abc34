import { asideTask } from "../../../bus/frames/aside-answer.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { joinedParts } from "../../../manifests/sections/system-prompt.ts";

/** Returns the agent for a side question: one model call without tools, outside the thread's log. */
export function asideAgent(agent: CompiledAgent): CompiledAgent {
  const { manifest } = agent;
  const model = { ...agent.model, escalation: null };
  const spec = { ...manifest.spec, pattern: "react" as const };
  const systemPrompt = joinedParts([agent.systemPrompt, asideTask]);
  return {
    ...agent,
    model,
    manifest: { ...manifest, spec },
    tools: [],
    recursion_limit: 1,
    systemPrompt,
    outputSchema: null,
  };
}
