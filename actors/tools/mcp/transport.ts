import { EgressBlocked } from "../../../governance/egress/failure.ts";
import type { OpenTransport } from "./connection.ts";

/** Opens a transport over HTTP; redirects stay within the origin. */
export const openHttpTransport: OpenTransport = async ({ server: { url, transport }, authorization, send }) => {
  const { SSEClientTransport, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const address = URL.parse(url ?? "");
  if (address === null) throw new EgressBlocked();
  const requestInit = { headers: { "user-agent": "svc", ...(authorization !== null && { authorization }) } };
  return transport === "sse"
    ? new SSEClientTransport(address, { fetch: send, requestInit })
    : new StreamableHTTPClientTransport(address, { fetch: send, requestInit });
};
