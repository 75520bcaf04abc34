import type { ToolSpec } from "../registries.ts";
import { gatesOn } from "../sections/approvals.ts";
import { policiesOn } from "../sections/policies.ts";
import type { CompiledAgent } from "./compiled.ts";

/**
 * The agent of one request, whose client has tools of its own. Rules of the manifest that refuse or ask hold for them by their names, as
 * if it had bound them. What loosens a rule does not: a name is the client's word. What the model is told of the agent beside its tools
 * stays.
 */
export function withTools(agent: CompiledAgent, added: readonly ToolSpec[]): CompiledAgent {
  const { spec } = agent.manifest;
  const tools = [...agent.tools, ...added];
  return {
    ...agent,
    tools,
    policies: policiesOn(spec, tools),
    approvals: gatesOn(spec.approvals, tools),
    requestTools: new Set(added.map(({ name }) => name)),
  };
}
