import type { Transport } from "@modelcontextprotocol/client";
import { EgressBlocked } from "../../../governance/egress/failure.ts";
import type { Fetch } from "../../../governance/egress/sdk-fetch.ts";
import type { McpServer } from "../../../manifests/sections/mcp-servers.ts";

/** Opens a transport over HTTP; redirects stay within the origin. `authorization` is the header, null for none. */
export async function openHttpTransport(
  { url, transport }: Pick<McpServer, "url" | "transport">,
  authorization: string | null,
  send: Fetch,
): Promise<Transport> {
  const { SSEClientTransport, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const address = URL.parse(url ?? "");
  if (address === null) throw new EgressBlocked();
  const requestInit = { headers: { "user-agent": "svc", ...(authorization !== null && { authorization }) } };
  return transport === "sse"
    ? new SSEClientTransport(address, { fetch: send, requestInit })
    : new StreamableHTTPClientTransport(address, { fetch: send, requestInit });
}
