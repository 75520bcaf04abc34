import type { Env } from "../../../bus/env.ts";
import { EgressBlocked } from "../../../governance/egress/failure.ts";
import type { Fetch } from "../../../governance/egress/sdk-fetch.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";
import type { McpTransport } from "./inbound-limits.ts";
import { OpenRequests } from "./open-requests.ts";

/** Opens a transport over HTTP; redirects stay within the origin. `authorization` is the header, null for none. */
export async function openHttpTransport(
  { url, transport }: Pick<McpServer, "url" | "transport">,
  authorization: string | null,
  send: Fetch,
  env: Pick<Env, "timer">,
): Promise<McpTransport> {
  const { SSEClientTransport, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const address = URL.parse(url ?? "");
  if (address === null) throw new EgressBlocked();
  const requestInit = { headers: { "user-agent": "svc", ...(authorization !== null && { authorization }) } };
  const requests = new OpenRequests(send, env);
  const options = { fetch: requests.fetch, requestInit };
  const made =
    transport === "sse"
      ? new SSEClientTransport(address, options)
      : new StreamableHTTPClientTransport(address, options);
  return Object.assign(made, { answered: (id: unknown) => requests.answered(id) });
}
