import { SvcError } from "../../../bus/errors.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { invalidDomain } from "../core/shop-errors.ts";

/**
 * Returns the host in the form of Host headers: lower case, punycode, without a port. Refuses with invalid_domain addresses, single
 * labels and hosts of this server.
 */
export function readDomain(
  given: string,
  { allowedHosts, publicUrl }: Pick<Settings, "allowedHosts" | "publicUrl">,
): string {
  const parsed = /[\s/?#@:\\]/.test(given) ? null : URL.parse(`https://${given}`);
  const host = parsed?.hostname.replace(/\.$/, "") ?? "";
  const isName = /^(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+$/.test(host) && host.length <= 253;
  const isAddress = /^[\d.]+$/.test(host) || /(^|\.)(localhost|local|internal|invalid|test|onion)$/.test(host);
  const ownHost = URL.parse(publicUrl)?.hostname ?? "";
  if (!isName || isAddress || host === ownHost || allowedHosts.includes(host))
    throw new SvcError(invalidDomain, { detail: given.slice(0, 255) });
  return host;
}
