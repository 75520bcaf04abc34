import { EgressBlocked } from "./failure.ts";

/** Where a request goes, read once from a URL and spelled in one way only: what is judged is what is connected to. */
export interface Target extends Readonly<Pick<URL, "origin" | "host" | "hostname" | "pathname" | "search">> {
  readonly isTls: boolean;
  readonly port: number;
}

/**
 * Reads an http or https URL as browsers do (WHATWG): numbers of an address in any base become dotted decimals, names become
 * ASCII, a zone id is no host. Throws EgressBlocked for other schemes and for a user name or password.
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
