import { isIP } from "node:net";

/** Whether `entry` may stand in spec.network.allow_hosts: a host, `*.` before a host, or an IP address. */
export function isHostEntry(entry: string): boolean {
  if (isIP(entry) !== 0) return true;
  return isHostName(entry.startsWith("*.") ? entry.slice(2) : entry);
}

/** Whether a list admits the host of a URL, as `URL.hostname` writes it. `*.x` admits every host below x and never x. */
export function admitsHost(entries: readonly string[], hostname: string): boolean {
  const host = hostname.toLowerCase();
  return entries.some((entry) => {
    const wanted = entry.toLowerCase();
    if (wanted.startsWith("*.")) return host.endsWith(wanted.slice(1)) && host.length >= wanted.length;
    return host === (isIP(wanted) === 6 ? new URL(`http://[${wanted}]`).hostname : wanted);
  });
}

/** Letters, digits and hyphens in labels; a last label of digits would make it one of the many spellings of an IP address. */
function isHostName(name: string): boolean {
  if (name.length > 253) return false;
  const labels = name.split(".");
  const last = labels.at(-1) ?? "";
  if (/^(?:[0-9]+|0[xX][0-9a-fA-F]*)$/.test(last)) return false;
  return labels.every((label) => /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/.test(label));
}
