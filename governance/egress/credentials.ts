import type { EgressCredential } from "../settings/egress-credentials.ts";

/**
 * True if the credential may go with a request to this URL: over https, to its exact host and port, under its path prefix. A path
 * with an encoded separator or an empty segment never matches, because servers read those differently.
 */
export function coversUrl({ host, port, path_prefix }: EgressCredential, url: URL): boolean {
  if (url.protocol !== "https:" || url.hostname !== host || Number(url.port || 443) !== port) return false;
  return isBelow(url.pathname, path_prefix);
}

/** True if the path is the prefix or below it, by whole segments. */
export function isBelow(pathname: string, prefix: string): boolean {
  if (prefix === "/") return true;
  if (/%2f|%5c|%2e|\/\//i.test(pathname)) return false;
  const bare = prefix.replace(/\/$/, "");
  return pathname === bare ? !prefix.endsWith("/") : pathname.startsWith(`${bare}/`);
}
