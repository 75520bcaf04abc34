import type { CompiledAgent, ToolNote } from "../../manifests/compile/compiled.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import type { Tool } from "./tool.ts";

// A tool source lists the tools that manifests may name, for the compiler, and resolves their names for runs. A run resolves its
// tools once, when it begins; later changes of a source affect later runs only.

/** A provider of tools: the built-in ones, or a plugin. */
export interface ToolSource {
  /** Name of the source, for error messages. */
  readonly name: string;
  /** Tools that manifests may name in spec.tools. */
  readonly offers: readonly ToolSpec[];
  /** Returns the tool with this name for a run of the agent; undefined if another source has it. */
  resolve(name: string, agent: CompiledAgent): Tool | undefined;
  /** True if the source must be opened for the agent. Present together with `open`. */
  serves?(agent: CompiledAgent): boolean;
  /**
   * Finds tools for a tenant's agent in addition to those that its manifest names. Reports missing ones in `problems`, or throws
   * if it finds none. `above` contains the allow_hosts lists of the agents above a sub-agent: each must admit a host.
   */
  open?(agent: CompiledAgent, tenantId: string, above: HostLists): OpenTools | Promise<OpenTools>;
}

/** Lists of allowed hosts. Each of them must admit a host. */
export type HostLists = readonly (readonly string[])[];

/** A source that must be opened. */
export type OpenableSource = ToolSource & Required<Pick<ToolSource, "serves" | "open">>;

/** The tools of an opened source for one agent; all runs of the agent share them. */
export interface OpenTools {
  readonly tools: readonly Tool[];
  /** Missing tools, each as a phrase for the model; absent for none. */
  readonly problems?: readonly string[];
  /** Untrusted text that explains the tools to the model; absent for none. */
  readonly notes?: readonly ToolNote[];
  /** True if a part could not be found for now: svc opens the source again after a while. */
  readonly isPartial?: boolean;
  /** Registers a function to call when the list of tools has changed; the next run then opens the source again. */
  onChange?(work: () => void): void;
  /** Called with true when the last run has left the tools, which stay open for a while, and with false when another one uses them. */
  idle?(isIdle: boolean): void;
  /** Called when no run uses the tools any more. */
  close?(): void;
}

/** The tools of one run by name: exactly those that its agent binds. */
export type BoundTools = ReadonlyMap<string, Tool>;

/** Returns a source of tools that are the same for every agent. */
export function toolList(name: string, tools: readonly Tool[]): ToolSource {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return { name, offers: tools, resolve: (wanted) => byName.get(wanted) };
}

/** Returns the tools of all sources by name. Throws if two sources offer the same name. */
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

/** Resolves the tools that an agent binds, for one run. A name that no source knows is dropped. */
export function bindTools(sources: readonly ToolSource[], agent: CompiledAgent): BoundTools {
  const bound = new Map<string, Tool>();
  for (const spec of agent.tools)
    for (const source of sources) {
      const tool = source.resolve(spec.name, agent);
      if (tool === undefined) continue;
      bound.set(spec.name, asDeclared(tool, spec));
      break;
    }
  for (const [name, tool] of agent.found?.tools ?? []) bound.set(name, tool as Tool);
  return bound;
}

/** Returns the tool with the effect and risk that the manifest declares. */
function asDeclared(tool: Tool, { effect, risk }: ToolSpec): Tool {
  if (tool.effect === effect && tool.risk === risk) return tool;
  const { name, description, parameters, workspace, timeoutMs } = tool;
  return {
    ...tool,
    ...{ name, description, parameters, workspace, timeoutMs, effect, risk },
    execute: tool.execute.bind(tool),
    ...(tool.binds && { binds: tool.binds.bind(tool) }),
    ...(tool.resume && { resume: tool.resume.bind(tool) }),
    ...(tool.preview && { preview: tool.preview.bind(tool) }),
    ...(tool.foresee && { foresee: tool.foresee.bind(tool) }),
    ...(tool.find && { find: tool.find.bind(tool) }),
  };
}
