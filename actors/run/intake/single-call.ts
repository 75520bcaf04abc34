import { SvcError } from "../../../bus/errors.ts";
import { offered } from "../../../bus/nearest.ts";
import { toJsonText } from "../../../bus/protocol/json-text.ts";
import type { OfferedTool, OfferedTools, SingleCall, ToolsAsked } from "../../../bus/protocol/single-call.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { bindTools } from "../../tools/source.ts";
import type { Tool } from "../../tools/tool.ts";
import type { RunDeps } from "../context/deps.ts";
import { admitCaller } from "./admission.ts";

// Decision 168: a client of MCP calls the tools of an agent one by one. Each call is a run without a thread and without a person, so tools
// that need one of them are neither listed nor called.

/**
 * Returns the call as the controls of input let it in. Refuses with unknown_tool, also for a tool that a single call may not use, and with
 * content_screening_denied.
 */
export async function admitCall(
  call: SingleCall,
  agent: CompiledAgent,
  tenantId: string,
  screen: ((text: string) => Promise<string>) | null,
  deps: RunDeps,
): Promise<SingleCall> {
  const tools = await callable(agent, tenantId, deps);
  if (!tools.some(({ name }) => name === call.name)) {
    const names = tools.map(({ name }) => name);
    const message = `This agent has no tool of this name.${offered(call.name, names)}`;
    throw new SvcError("unknown_tool", { subject: call.name.slice(0, 64), message });
  }
  return screen === null ? call : { ...call, arguments: await screen(call.arguments) };
}

/** Lists the tools that a caller may call one by one. Refuses as a turn of the agent does. */
export async function offeredTools({ principal, manifest }: ToolsAsked, deps: RunDeps): Promise<OfferedTools> {
  const agent = await admitCaller({ principal, manifest, thread_suffix: null }, deps);
  const found = await callable(agent, principal.tenant_id, deps);
  const tools: readonly OfferedTool[] = found.map(
    ({ name, description, parameters, shownParameters = parameters }) => ({
      name,
      description,
      inputSchema: shownParameters,
    }),
  );
  return { tools: toJsonText(tools) };
}

/**
 * Returns the tools that an agent binds and that need neither a thread nor a person. Opens the tool sources of the agent; they stay
 * open for a while, so that a run which follows finds them open.
 */
async function callable(
  agent: CompiledAgent,
  tenantId: string,
  { toolSources, toolSets }: RunDeps,
): Promise<readonly Tool[]> {
  const opened = await toolSets.opening(agent, tenantId)?.();
  opened?.close();
  const bound = opened?.agent ?? agent;
  const needsThread = ({ needs, workspace }: Tool): boolean =>
    needs !== undefined || (workspace && agent.workspaceScope === "thread");
  return [...bindTools(toolSources, bound).values()].filter((tool) => !needsThread(tool));
}
