import { isIP } from "node:net";

/** True if the entry is valid in spec.network.allow_hosts: a host, `*.` before a host, or an IP address. */
export function isHostEntry(entry: string): boolean {
  if (isIP(entry) !== 0) return true;
  return isHostName(entry.startsWith("*.") ? entry.slice(2) : entry);
}

/**
 * True if the list admits the host of a URL, in the form of `URL.hostname`. `*.x` admits every host below x, but not x.
 */
export function admitsHost(entries: readonly string[], hostname: string): boolean {
  const host = hostname.toLowerCase();
  return entries.some((entry) => {
    const wanted = entry.toLowerCase();
    if (wanted.startsWith("*.")) return host.endsWith(wanted.slice(1)) && host.length >= wanted.length;
    return host === (isIP(wanted) === 6 ? new URL(`http://[${wanted}]`).hostname : wanted);
  });
}

/**
 * True for labels of letters, digits and hyphens. A numeric last label is excluded, because it would make the name an
 * alternative spelling of an IP address.
 */
function isHostName(name: string): boolean {
  if (name.length > 253) return false;
  const labels = name.split(".");
  const last = labels.at(-1) ?? "";
  if (/^(?:[0-9]+|0[xX][0-9a-fA-F]*)$/.test(last)) return false;
  return labels.every((label) => /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/.test(label));
}
