import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";

const lists = new WeakMap<CompiledAgent, string>();

/** JSON text of an agent's tools for a provider, null when it has none. Made once for each compiled agent. */
export function toolListJson(agent: CompiledAgent): string | null {
  if (agent.tools.length === 0) return null;
  let list = lists.get(agent);
  if (list === undefined) {
    list = JSON.stringify(
      agent.tools.map((tool) => ({
        type: "function",
        function: {
          name: tool.name,
          description: tool.description,
          parameters: tool.told ?? tool.parameters,
          ...(tool.strict !== undefined && { strict: tool.strict }),
        },
      })),
    );
    lists.set(agent, list);
  }
  return list;
}
