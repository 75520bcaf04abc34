import { isIP } from "node:net";

/**
 * True if only this machine can reach a server that listens on `host`. Names other than localhost are not resolved and count as
 * false.
 */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Returns the host as the Host header has it, without the port: lower case, IPv6 in brackets. */
export function headerHost(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host.toLowerCase();
}

/** Reads an item of SVC_ALLOWED_HOSTS. */
export function readHost(item: string): string {
  const bare = item.replace(/^\[(.*)\]$/, "$1");
  if (isIP(bare) !== 0) return headerHost(bare);
  if (!/^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,20}$/.test(item)) {
    throw new Error("must list host names or IP addresses, without scheme, port or wildcard");
  }
  return item.toLowerCase();
}

/** Reads an item of SVC_CORS_ORIGINS, in the spelling of browsers. */
export function readOrigin(item: string): string {
  const parsed = URL.parse(item);
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.origin !== item.toLowerCase().replace(/\/$/, "")) {
    throw new Error("must list origins such as https://app.example.com, without wildcards");
  }
  return parsed.origin;
}

/** Reads SVC_PUBLIC_URL: returns it without a slash at its end. */
export function readPublicUrl(text: string): string {
  const parsed = URL.parse(text);
  const isPlain = parsed && `${parsed.username}${parsed.password}${parsed.search}${parsed.hash}` === "";
  if (!isPlain || !/^https?:$/.test(parsed.protocol)) {
    throw new Error("must be a URL such as https://agents.example.com, without user name, query or fragment");
  }
  return parsed.href.replace(/\/+$/, "");
}
