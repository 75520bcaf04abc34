import { EgressBlocked } from "../../../governance/egress/failure.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { Store } from "../../../storage/store/store.ts";
import { requestFailure } from "../request-failure.ts";
import type { OpenTools, ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { secretParts, withoutSecrets } from "../without-secrets.ts";
import type { HeldConnection, McpConnections, McpDeps } from "./connections.ts";
import type { ListedTool } from "./listed-tool.ts";
import { boundName } from "./names.ts";
import { comparePins } from "./pins.ts";
import { wantedTools } from "./wanted-tools.ts";

// spec.mcp_servers: the tools of servers that speak the Model Context Protocol. svc asks a server for its tools at the first run of an
// agent; all runs of a tenant's agent share the list.

/** The default timeout of a call. */
const callMs = 30_000;

/** The source of tools in spec.mcp_servers. */
export function mcpSource(
  connections: McpConnections,
  deps: Pick<McpDeps, "env" | "audit"> & { readonly store: Store },
): ToolSource {
  return {
    name: "spec.mcp_servers",
    offers: [],
    resolve: () => undefined,
    serves: ({ mcpServers }) => mcpServers.length > 0,
    async open(agent, tenantId) {
      const opened = await Promise.all(
        agent.mcpServers.map((server) => openServer(server, agent, tenantId, connections, deps)),
      );
      return {
        tools: opened.flatMap(({ tools }) => tools),
        problems: opened.flatMap(({ problems = [] }) => problems),
        isPartial: opened.some(({ isPartial }) => isPartial === true),
        onChange(work) {
          for (const one of opened) one.onChange?.(work);
        },
        close() {
          for (const one of opened) one.close?.();
        },
      };
    },
  };
}

/** Opens one server. A server that does not answer is a problem of the answer: the agent works with the others. */
async function openServer(
  server: McpServer,
  agent: CompiledAgent,
  tenantId: string,
  connections: McpConnections,
  { env, audit, store }: Parameters<typeof mcpSource>[1],
): Promise<OpenTools> {
  let held: HeldConnection;
  try {
    held = await connections.hold(server, agent.name, tenantId);
  } catch (error) {
    const problems = [`the MCP server ${server.name} is unavailable: ${(error as Error).message}`];
    return { tools: [], problems, isPartial: true };
  }
  const { connection } = held;
  try {
    const listed = await wantedTools(server, connection);
    const { states, removed } = await comparePins(store.tenant(tenantId), env, agent.name, server, listed);
    const waiting = listed.filter(({ name }) => states.get(name) !== "pinned");
    if (waiting.length > 0 || removed.length > 0) {
      const named = (state: string) => waiting.filter(({ name }) => states.get(name) === state).map(({ name }) => name);
      audit.record(tenantId, {
        event_type: "mcp_tools_changed",
        status: "blocked",
        manifest_id: agent.name,
        principal_subj: "",
        payload: { server: server.name, added: named("new"), changed: named("changed"), removed },
      });
    }
    const pinned = listed.filter(({ name }) => states.get(name) === "pinned");
    const stops: (() => void)[] = [];
    return {
      tools: pinned.map((tool) => boundTool(server, tool, held)),
      problems: waiting.length === 0 ? [] : [`${waiting.length} tools of ${server.name} wait for approval`],
      onChange: (work) => void stops.push(connection.onChange(work)),
      close: () => {
        for (const stop of stops) stop();
        held.release();
      },
    };
  } catch (error) {
    held.release();
    const why = error instanceof EgressBlocked ? "egress_blocked: destination not permitted" : "it does not answer";
    // Opened again for a later run: the server may have come back.
    return { tools: [], problems: [`the MCP server ${server.name} is unavailable: ${why}`], isPartial: true };
  }
}

/** The tool that the model calls. Its effect and risk are the strongest, unless the manifest says otherwise: annotations are untrusted. */
function boundTool(server: McpServer, { name, description, parameters }: ListedTool, held: HeldConnection): Tool {
  const timeoutMs = server.timeout_ms ?? callMs;
  return {
    name: boundName(server.name, name),
    description,
    parameters,
    effect: "once",
    risk: "speaks",
    workspace: false,
    transport: "remote",
    // Later than the timeout of the request, which tells the server.
    timeoutMs: timeoutMs + 5_000,
    execute: (args: Readonly<Record<string, unknown>>, context) => call(server, name, args, held, context),
  };
}

async function call(
  server: McpServer,
  name: string,
  args: Readonly<Record<string, unknown>>,
  { connection, secret }: HeldConnection,
  context: ToolContext,
): Promise<ToolResult> {
  const timeoutMs = server.timeout_ms ?? callMs;
  const masked = (text: string): string => withoutSecrets(text, secretParts(secret));
  try {
    if (server.url !== null && !context.services.egress.agent.admits(server.url)) throw new EgressBlocked();
    return await connection.call(name, args, timeoutMs, context, masked);
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: string };
    if (code === "REQUEST_TIMEOUT") return toolError("timeout", `no answer within ${timeoutMs} ms`);
    // An error that the server has answered; other errors say nothing of the network.
    if (typeof code === "number") return toolError("provider_error", masked(message ?? "").slice(0, 4_000));
    return requestFailure(error, timeoutMs);
  }
}
