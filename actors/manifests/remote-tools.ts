import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { RemoteServerView, SeenTool } from "../../bus/protocol/manifests.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { McpServer } from "../../manifests/sections/mcp-servers.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import type { McpConnections } from "../tools/mcp/connections.ts";
import type { ListedTool } from "../tools/mcp/listed-tool.ts";
import { boundName } from "../tools/mcp/names.ts";
import { approveTools, comparePins } from "../tools/mcp/pins.ts";
import { wantedTools } from "../tools/mcp/wanted-tools.ts";

/** The parts of the manifests actor that ask servers. */
interface Asking {
  readonly key: string;
  readonly env: Env;
  readonly deps: { readonly mcp: Pick<McpConnections, "hold">; readonly store: Store };
}

/** Returns the MCP servers of an agent with the tools that they list now. Asking pins nothing. */
export function remoteServers(agent: CompiledAgent, asking: Asking): Promise<RemoteServerView[]> {
  return Promise.all(agent.mcpServers.map((server) => viewOf(server, agent.name, asking)));
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
  const listed = await listedBy(server, agent.name, asking).catch(() => null);
  if (listed === null) throw new SvcError("conflict", { detail: `The MCP server ${name} does not answer.` });
  const now = new Map(listed.map((tool) => [tool.name, tool]));
  for (const { name: tool, digest } of wanted ?? []) {
    const found = now.get(tool);
    if (found === undefined) throw new SvcError("not_found", { subject: tool });
    // A server can show a person one tool and have another one approved.
    if (found.digest !== digest) throw new SvcError("conflict", { detail: `The tool ${tool} has changed since.` });
  }
  const approved =
    wanted === null ? listed : listed.filter(({ name: tool }) => wanted.some((seen) => seen.name === tool));
  await approveTools(store, asking.env, { manifest: agent.name, server: name, by }, approved);
  return approved.map((tool) => tool.name);
}

async function viewOf(server: McpServer, manifest: string, asking: Asking): Promise<RemoteServerView> {
  const listed = await listedBy(server, manifest, asking).catch(() => null);
  if (listed === null) return { server: server.name, available: false, tools: [], removed: [] };
  const store = asking.deps.store.tenant(asking.key);
  const { states, removed } = await comparePins(store, asking.env, manifest, { ...server, pin: "approved" }, listed);
  const tools = listed.map(({ name, description, parameters, digest }) => ({
    name,
    bound_name: boundName(server.name, name),
    ...{ description, parameters, digest },
    state: states.get(name) ?? "new",
  }));
  return { server: server.name, available: true, tools, removed };
}

async function listedBy(server: McpServer, manifest: string, { key, deps }: Asking): Promise<readonly ListedTool[]> {
  const { connection, release } = await deps.mcp.hold(server, manifest, key);
  try {
    return await wantedTools(server, connection);
  } finally {
    release();
  }
}
