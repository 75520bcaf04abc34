import type { Settings } from "../governance/settings/settings.ts";
import type { Reply } from "./exchange/reply.ts";
import type { RequestHead } from "./exchange/request-head.ts";
import { publicUrlOf } from "./public-url.ts";

// RFC 9728: a client that was refused learns from a document where it gets a token. Only the mode jwt has an issuer to name.

/** The path of the document. The path of the resource follows it; empty for the whole server. */
export const protectedResourcePath = "/.well-known/oauth-protected-resource";
/** The path of the MCP server, which is a resource of its own for its clients. */
export const mcpPath = "/mcp";

type Named = Pick<Settings, "authMode" | "jwtIssuer" | "publicUrl" | "trustedClientIpHeader">;

/** True if the document exists. */
export function namesIssuer({ authMode, jwtIssuer }: Named): boolean {
  return authMode === "jwt" && jwtIssuer !== "";
}

/** Adds the URL of the document to the challenge of a 401 (RFC 9728, section 5.1). Other answers stay as they are. */
export function namingResource(reply: Reply, head: RequestHead, settings: Named): Reply {
  if (!("status" in reply) || reply.status !== 401 || !namesIssuer(settings)) return reply;
  const challenge = reply.headers?.["www-authenticate"];
  if (challenge === undefined) return reply;
  const resource = head.path === mcpPath ? mcpPath : "";
  const url = `${publicUrlOf(head, settings)}${protectedResourcePath}${resource}`;
  return { ...reply, headers: { ...reply.headers, "www-authenticate": `${challenge}, resource_metadata="${url}"` } };
}
