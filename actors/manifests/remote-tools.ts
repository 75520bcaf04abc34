import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { RemoteServerView, SeenTool } from "../../bus/protocol/manifests.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { McpServer } from "../../manifests/sections/mcp-servers.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import type { McpConnections } from "../tools/mcp/connections.ts";
import type { Instructions, ListedTool } from "../tools/mcp/listed-tool.ts";
import { boundName } from "../tools/mcp/names.ts";
import { approveTools, comparePins } from "../tools/mcp/pins.ts";
import { instructionsPin, pinnedAs, wantedInstructions, wantedTools } from "../tools/mcp/wanted-tools.ts";

/** The parts of the manifests actor that ask servers. */
interface Asking {
  readonly key: string;
  readonly env: Env;
  readonly deps: {
    readonly mcp: Pick<McpConnections, "hold">;
    readonly store: Store;
    readonly settings: Pick<Settings, "tenantStoredBytes">;
  };
}

/** Returns the MCP servers of an agent with the tools that they list now. Asking pins nothing. */
export function remoteServers(agent: CompiledAgent, asking: Asking): Promise<RemoteServerView[]> {
  return Promise.all(agent.mcpServers.map((server) => viewOf(server, agent, asking)));
}

/**
 * Approves tools of a server as a person has seen them, or all as they are now. Returns the approved names. Refuses with not_found for an
 * unknown server or tool, and with conflict if a tool has changed since or the server does not answer.
 */
export async function approveRemoteTools(
  store: TenantStore,
  agent: CompiledAgent,
  name: string,
  wanted: readonly SeenTool[] | null,
  by: string,
  asking: Asking,
): Promise<readonly string[]> {
  const server = agent.mcpServers.find((each) => each.name === name);
  if (server === undefined) throw new SvcError("not_found", { subject: name });
  const told = await listedBy(server, agent, asking).catch(() => null);
  if (told === null) throw new SvcError("conflict", { detail: `The MCP server ${name} does not answer.` });
  const { listed, instructions } = told;
  const now = new Map(listed.map((tool) => [tool.name, tool]));
  for (const { name: tool, digest } of wanted ?? []) {
    const found = now.get(tool);
    if (found === undefined) throw new SvcError("not_found", { subject: tool });
    // A server can show a person one tool and have another one approved.
    if (found.digest !== digest) throw new SvcError("conflict", { detail: `The tool ${tool} has changed since.` });
  }
  const approved =
    wanted === null
      ? [...listed, ...pinnedAs(instructions)]
      : listed.filter(({ name: tool }) => wanted.some((seen) => seen.name === tool));
  const { tenantStoredBytes } = asking.deps.settings;
  await approveTools(store, asking.env, { manifest: agent.name, server: name, by }, approved, tenantStoredBytes);
  return approved.map((tool) => tool.name).filter((tool) => tool !== instructionsPin);
}

async function viewOf(server: McpServer, agent: CompiledAgent, asking: Asking): Promise<RemoteServerView> {
  const told = await listedBy(server, agent, asking).catch(() => null);
  if (told === null) return { server: server.name, available: false, tools: [], instructions: null, removed: [] };
  const { listed, instructions } = told;
  const store = asking.deps.store.tenant(asking.key);
  const seen = [...listed, ...pinnedAs(instructions)];
  const { states, removed } = await comparePins(store, asking.env, agent.name, { ...server, pin: "approved" }, seen, 0);
  const stateOf = (name: string) => states.get(name) ?? "new";
  const tools = listed.map(({ name, description, parameters, digest }) => ({
    name,
    bound_name: boundName(server.name, name),
    ...{ description, parameters, digest },
    state: stateOf(name),
  }));
  return {
    ...{ server: server.name, available: true, tools },
    instructions: instructions && { ...instructions, state: stateOf(instructionsPin) },
    removed: removed.filter((name) => name !== instructionsPin),
  };
}

async function listedBy(
  server: McpServer,
  agent: CompiledAgent,
  { key, deps }: Asking,
): Promise<{ readonly listed: readonly ListedTool[]; readonly instructions: Instructions | null }> {
  const { connection, release } = await deps.mcp.hold(server, agent, key);
  try {
    const listed = await wantedTools(server, connection);
    return { listed, instructions: await wantedInstructions(server, connection) };
  } finally {
    release();
  }
}
