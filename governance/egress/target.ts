import { EgressBlocked } from "./failure.ts";

/** Where a request goes, read once from a URL and spelled in one way only: what is judged is what is connected to. */
export type Target = Readonly<Pick<URL, "origin" | "host" | "hostname" | "pathname" | "search">>;

/**
 * Reads an http or https URL as browsers do (WHATWG): numbers of an address in any base become dotted decimals, names become
 * ASCII, a zone id is no host. Throws EgressBlocked for other schemes and for a user name or password.
 */
export function readTarget(text: string): Target {
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
  if (!usable) throw new EgressBlocked();
  const { origin, host, hostname, pathname, search } = url;
  return { origin, host, hostname, pathname, search };
}
