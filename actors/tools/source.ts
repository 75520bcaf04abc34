import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import type { Tool } from "./tool.ts";

// Where tools come from. A source says what manifests may name, for the compiler, and gives the tool behind a name to a run. A run
// asks once, when it begins, and keeps to what it got: what a source offers later is for later runs.

/** A place that tools come from: what is built in, a plugin. */
export interface ToolSource {
  /** As it is called where two sources offer one name. */
  readonly name: string;
  /** What manifests may name in spec.tools. */
  readonly offers: readonly ToolSpec[];
  /** The tool that a run of this agent calls by this name; undefined when it is of another source. */
  resolve(name: string, agent: CompiledAgent): Tool | undefined;
}

/** The tools of one run by their names: those that its agent has bound, and no others. */
export type BoundTools = ReadonlyMap<string, Tool>;

/** A source of tools that are the same for every agent. */
export function toolList(name: string, tools: readonly Tool[]): ToolSource {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return { name, offers: tools, resolve: (wanted) => byName.get(wanted) };
}

/** What all sources offer, by name. Throws when two of them offer one name: nobody could say which is meant. */
export function offeredTools(sources: readonly Pick<ToolSource, "name" | "offers">[]): ReadonlyMap<string, ToolSpec> {
  const offered = new Map<string, ToolSpec>();
  const owners = new Map<string, string>();
  for (const source of sources)
    for (const tool of source.offers) {
      const owner = owners.get(tool.name);
      if (owner !== undefined) throw new Error(`the tool ${tool.name} is offered by ${owner} and by ${source.name}`);
      owners.set(tool.name, source.name);
      offered.set(tool.name, tool);
    }
  return offered;
}

/** Resolves the tools that an agent has bound, for one run. A name that no source knows any more is not bound. */
export function bindTools(sources: readonly ToolSource[], agent: CompiledAgent): BoundTools {
  const bound = new Map<string, Tool>();
  for (const spec of agent.tools)
    for (const source of sources) {
      const tool = source.resolve(spec.name, agent);
      if (tool === undefined) continue;
      bound.set(spec.name, asDeclared(tool, spec));
      break;
    }
  return bound;
}

/** The tool with the nature that the manifest says it has. */
function asDeclared(tool: Tool, { effect, risk }: ToolSpec): Tool {
  if (tool.effect === effect && tool.risk === risk) return tool;
  const { name, description, parameters, workspace, timeoutMs } = tool;
  return {
    ...tool,
    ...{ name, description, parameters, workspace, timeoutMs, effect, risk },
    execute: tool.execute.bind(tool),
    ...(tool.resume && { resume: tool.resume.bind(tool) }),
    ...(tool.preview && { preview: tool.preview.bind(tool) }),
    ...(tool.foresee && { foresee: tool.foresee.bind(tool) }),
    ...(tool.find && { find: tool.find.bind(tool) }),
  };
}
