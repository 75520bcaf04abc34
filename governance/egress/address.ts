import { BlockList, isIP } from "node:net";
import { lazily } from "../../bus/lazily.ts";

/**
 * The source of a destination. `public`: from a tenant, a model or a document; only internet addresses are allowed. `operator`:
 * from the operator's settings; private networks and loopback are allowed too.
 */
export type EgressPolicy = "public" | "operator";

/**
 * True if a connection to this address is allowed. Accepts every spelling that `isIP` accepts. An IPv4 address inside IPv6
 * (`::ffff:0:0/96`) is judged as IPv4. Other text and addresses with a zone are refused.
 */
export function allowsAddress(policy: EgressPolicy, address: string): boolean {
  const version = isIP(address);
  if (version === 0 || address.includes("%")) return false;
  const family = version === 4 ? "ipv4" : "ipv6";
  if (nowhere().check(address, family) || metadata().check(address, family)) return false;
  if (policy === "operator") return true;
  return (family === "ipv4" || outside().check(address, family)) && !special().check(address, family);
}

/** IPv6 global unicast, and IPv4-mapped addresses. A list of IPv4 networks also matches mapped addresses. */
const outside = listOf("2000::/3", "::ffff:0:0/96");

/** Special-purpose networks, by the registries of IANA (RFC 6890 and its successors). */
const special = listOf(
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  // 6to4 relays
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  // IETF protocol assignments: Teredo, benchmarks, ORCHID
  "2001::/23",
  "2001:db8::/32",
  // 6to4, which embeds an IPv4 address
  "2002::/16",
  "3fff::/20",
);

/** True for the address of a cloud's metadata service, which returns credentials. Only an operator may name one, exactly. */
export function isMetadataAddress(address: string): boolean {
  return metadata().check(address, isIP(address) === 4 ? "ipv4" : "ipv6");
}

/** Addresses that no policy allows: multicast and reserved ranges. */
const nowhere = listOf("224.0.0.0/4", "240.0.0.0/4", "ff00::/8");

/** The metadata services of clouds. */
const metadata = listOf(
  // AWS and most others, then the credential services for containers and pods
  "169.254.169.254/32",
  "169.254.170.2/32",
  "169.254.170.23/32",
  "fd00:ec2::254/128",
  "fd00:ec2::23/128",
  // Google, Azure, Alibaba, Oracle
  "fd20:ce::254/128",
  "168.63.129.16/32",
  "100.100.100.200/32",
  "192.0.0.192/32",
);

function listOf(...networks: readonly string[]): () => BlockList {
  return lazily(() => networkList(networks));
}

/** Returns the list of these networks, each as address/bits. */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    list.addSubnet(address, Number(bits), isIP(address) === 4 ? "ipv4" : "ipv6");
  }
  return list;
}
