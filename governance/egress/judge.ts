import { isIP } from "node:net";
import type { PrivateTarget } from "../settings/egress-targets.ts";
import { allowsAddress, type EgressPolicy, isMetadataAddress, networkList } from "./address.ts";

/** Host and port of a connection; the host as in `URL.hostname`. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** True if a socket for this host and port may go to the address. */
export type AddressJudge = (address: string, place: Place) => boolean;

/** Judges by a policy alone. */
export function policyJudge(policy: EgressPolicy): AddressJudge {
  return (address) => allowsAddress(policy, address);
}

/** Allows addresses of the internet, and those of SVC_EGRESS_PRIVATE at their ports. */
export function targetJudge(targets: readonly Pick<PrivateTarget, "host" | "cidr" | "port">[]): AddressJudge {
  const rules = targets.map(({ host, cidr, port }) => ({ host, port, ...networkOf(host, cidr) }));
  return (address, place) =>
    allowsAddress("public", address) ||
    rules.some(({ host, port, network, isSingle }) => {
      // A host is in brackets in a URL, and without them at undici.
      if (port !== place.port || (host !== null && bare(host) !== bare(place.host))) return false;
      const family = isIP(address) === 4 ? "ipv4" : "ipv6";
      if (network !== null && !network.check(address, family)) return false;
      return allowsAddress("operator", address) || (isSingle && isMetadataAddress(address));
    });
}

function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "");
}

/** The network that a target names; null for a host name, whose addresses are known at the connection only. */
function networkOf(host: string | null, cidr: string | null) {
  const literal = bare(host ?? "");
  const width = isIP(literal) === 4 ? 32 : 128;
  const text = cidr ?? (isIP(literal) === 0 ? null : `${literal}/${width}`);
  if (text === null) return { network: null, isSingle: false };
  const [address = "", bits] = text.split("/");
  return { network: networkList([text]), isSingle: Number(bits) === (isIP(address) === 4 ? 32 : 128) };
}
