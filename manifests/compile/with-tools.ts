import type { ToolSpec } from "../registries.ts";
import { gatesOn } from "../sections/approvals.ts";
import { policiesOn } from "../sections/policies.ts";
import { asDeclared } from "../sections/tool-effects.ts";
import type { CompiledAgent, FoundTools } from "./compiled.ts";

/**
 * Returns the agent of one request whose client provides tools. Policies and approvals of the manifest apply to them by
 * name, as if it had bound them. Rules that permit more do not, because the client chooses the names. The rest of the
 * prompt is unchanged.
 */
export function withTools(agent: CompiledAgent, added: readonly ToolSpec[]): CompiledAgent {
  return { ...withMore(agent, added), requestTools: new Set(added.map(({ name }) => name)) };
}

/**
 * Returns the agent with the tools that opened sources have found. Rules of the manifest apply to them by name. A tool of the request's
 * client keeps its name: the found one of that name is left out of this request.
 */
export function withFound(agent: CompiledAgent, { tools, problems, notes }: FoundTools): CompiledAgent {
  const free = [...tools].filter(([name]) => !agent.requestTools?.has(name));
  const declared = new Map(free.map(([name, tool]) => [name, asDeclared(tool, agent.manifest.spec)]));
  return { ...withMore(agent, [...declared.values()]), found: { tools: declared, problems, ...(notes && { notes }) } };
}

function withMore(agent: CompiledAgent, added: readonly ToolSpec[]): CompiledAgent {
  const { spec } = agent.manifest;
  const tools = [...agent.tools, ...added];
  return { ...agent, tools, policies: policiesOn(spec, tools), ...gatesOn(spec.approvals, tools) };
}
