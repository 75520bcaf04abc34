import { EgressBlocked } from "./failure.ts";

/**
 * The destination of a request, parsed once from its URL into a canonical form, so that the checked address and the connected
 * address are the same.
 */
export interface Target extends Readonly<Pick<URL, "origin" | "host" | "hostname" | "pathname" | "search">> {
  readonly isTls: boolean;
  readonly port: number;
}

/**
 * Parses an http or https URL as browsers do (WHATWG): IPv4 in any base becomes dotted decimal, and names become ASCII. Throws
 * EgressBlocked for other schemes, zone ids and credentials in the URL.
 */
export function readTarget(text: string): Target {
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
  if (!usable) throw new EgressBlocked();
  const { origin, host, hostname, pathname, search } = url;
  const isTls = url.protocol === "https:";
  const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
  return { origin, host, hostname, pathname, search, isTls, port };
}
