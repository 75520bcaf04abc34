import { SvcError } from "../../../bus/errors.ts";
import { EgressBlocked } from "../../../governance/egress/failure.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { admitsHost } from "../../../manifests/hosts.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { Store } from "../../../storage/store/store.ts";
import { requestFailure } from "../request-failure.ts";
import type { HostLists, OpenTools, ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { secretParts, withoutSecrets } from "../without-secrets.ts";
import type { HeldConnection, McpConnections, McpDeps } from "./connections.ts";
import type { ListedTool } from "./listed-tool.ts";
import { boundName } from "./names.ts";
import { comparePins } from "./pins.ts";
import { type ScreeningDeps, screenedTexts } from "./screened-tools.ts";
import { instructionsPin, pinnedAs, wantedInstructions, wantedTools } from "./wanted-tools.ts";

// spec.mcp_servers: the tools of servers that speak the Model Context Protocol. svc asks a server for its tools at the first run of an
// agent; all runs of a tenant's agent share the list.

/** The default timeout of a call. */
const callMs = 30_000;

/** The source of tools in spec.mcp_servers. */
export function mcpSource(
  connections: McpConnections,
  deps: Pick<McpDeps, "env" | "audit"> & {
    readonly store: Store;
    readonly settings: Pick<Settings, "tenantStoredBytes">;
  } & ScreeningDeps,
): ToolSource {
  return {
    name: "spec.mcp_servers",
    offers: [],
    resolve: () => undefined,
    serves: ({ mcpServers }) => mcpServers.length > 0,
    async open(agent, tenantId, above) {
      const opened = await Promise.all(
        agent.mcpServers.map((server) =>
          isAdmitted(server, above)
            ? openServer(server, agent, tenantId, connections, deps)
            : refusedServer(server, agent, tenantId, connections),
        ),
      );
      return {
        tools: opened.flatMap(({ tools }) => tools),
        problems: opened.flatMap(({ problems = [] }) => problems),
        notes: opened.flatMap(({ notes = [] }) => notes),
        isPartial: opened.some(({ isPartial }) => isPartial === true),
        onChange(work) {
          for (const one of opened) one.onChange?.(work);
        },
        idle(isIdle) {
          for (const one of opened) one.idle?.(isIdle);
        },
        close() {
          for (const one of opened) one.close?.();
        },
      };
    },
  };
}

/** True if the lists of the agents above a sub-agent admit the host of its server. */
function isAdmitted({ url }: McpServer, above: HostLists): boolean {
  const host = URL.parse(url ?? "")?.hostname;
  return host === undefined || above.every((list) => admitsHost(list, host));
}

/** A server that svc does not contact, because an agent above the sub-agent does not admit its host. */
function refusedServer(
  server: McpServer,
  agent: CompiledAgent,
  tenantId: string,
  connections: McpConnections,
): OpenTools {
  connections.refuse(server, agent, tenantId);
  return { tools: [], problems: [unavailable(server, blockedText)] };
}

/** Opens one server. A server that does not answer is a problem of the answer: the agent works with the others. */
async function openServer(
  server: McpServer,
  agent: CompiledAgent,
  tenantId: string,
  connections: McpConnections,
  { env, audit, store, settings, ...screening }: Parameters<typeof mcpSource>[1],
): Promise<OpenTools> {
  let held: HeldConnection;
  try {
    held = await connections.hold(server, agent, tenantId);
  } catch (error) {
    const problems = [unavailable(server, (error as Error).message)];
    return { tools: [], problems, isPartial: true };
  }
  const { connection } = held;
  try {
    const listed = await wantedTools(server, connection);
    const instructions = await wantedInstructions(server, connection);
    const { states, removed } = await comparePins(
      store.tenant(tenantId),
      env,
      agent.name,
      server,
      [...listed, ...pinnedAs(instructions)],
      settings.tenantStoredBytes,
    );
    const isPinned = ({ name }: { readonly name: string }) => states.get(name) === "pinned";
    const waiting = [...listed, ...pinnedAs(instructions)].filter((one) => !isPinned(one));
    const gone = removed.filter((name) => name !== instructionsPin);
    if (waiting.length > 0 || gone.length > 0) {
      const named = (state: string) =>
        waiting.filter(({ name }) => states.get(name) === state).map(({ name }) => name || "(instructions)");
      audit.record(tenantId, {
        event_type: "mcp_tools_changed",
        status: "blocked",
        manifest_id: agent.name,
        principal_subj: "",
        payload: { server: server.name, added: named("new"), changed: named("changed"), removed: gone },
      });
    }
    const pinned = listed.filter(isPinned);
    const approved = pinnedAs(instructions).some(isPinned) ? instructions : null;
    const texts = await screenedTexts(server, pinned, approved, agent, screening);
    const { tools, instructions: shown } = texts;
    const stops: (() => void)[] = [];
    return {
      tools: tools.map((tool) => boundTool(server, tool, held)),
      problems: [...problemsOf(server, waiting), ...texts.problems],
      notes: shown === null ? [] : [{ server: server.name, text: shown.text }],
      onChange: (work) => void stops.push(connection.onChange(work)),
      idle: (isIdle) => held.idle(isIdle),
      close: () => {
        for (const stop of stops) stop();
        held.release();
      },
    };
  } catch (error) {
    held.release();
    const ended = held.ended();
    const why = ended === null ? whyClosed(error) : `it ${ended}`;
    // Opened again for a later run: the server may have come back.
    return { tools: [], problems: [unavailable(server, why)], isPartial: true };
  }
}

/** The phrases that list the pending approvals. */
function problemsOf({ name }: McpServer, waiting: readonly { readonly name: string }[]): string[] {
  const tools = waiting.filter((one) => one.name !== instructionsPin).length;
  return [
    ...(tools > 0 ? [`${tools} tools of ${name} wait for approval`] : []),
    ...(tools < waiting.length ? [`the instructions of ${name} wait for approval`] : []),
  ];
}

/** Why a server has no tools. Texts of the server are untrusted, and stay out. */
function whyClosed(error: unknown): string {
  if (error instanceof EgressBlocked) return blockedText;
  return error instanceof SvcError ? error.code : "it does not answer";
}

const blockedText = "egress_blocked: destination not permitted";

/** Returns the phrase by which the model learns that it has no tools of a server. */
function unavailable({ name }: McpServer, why: string): string {
  return `the MCP server ${name} is unavailable: ${why}`;
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
  { connection, secrets, ended }: HeldConnection,
  context: ToolContext,
): Promise<ToolResult> {
  const timeoutMs = server.timeout_ms ?? callMs;
  const masked = (text: string): string => withoutSecrets(text, secrets.flatMap(secretParts));
  try {
    if (server.url !== null && !context.services.egress.agent.admits(server.url)) throw new EgressBlocked();
    return await connection.call(name, args, timeoutMs, context, masked);
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: string };
    // An error that the server has answered; other errors say nothing of the network.
    if (typeof code === "number") return toolError("provider_error", masked(message ?? "").slice(0, 4_000));
    if (code === "REQUEST_TIMEOUT") return toolError("timeout", `no answer within ${timeoutMs} ms`);
    const why = ended() ?? (code === "CONNECTION_CLOSED" ? "has closed the connection" : null);
    if (why !== null) return toolError("transport_unavailable", `the server ${why}: the call may have happened`);
    return requestFailure(error, timeoutMs);
  }
}
