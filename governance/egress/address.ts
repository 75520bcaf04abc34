import { BlockList, isIP } from "node:net";
import { lazily } from "../../bus/lazily.ts";

/**
 * Whose word a destination rests on. `public`: a tenant's, a model's or a document's, which may lead to the internet alone.
 * `operator`: a URL of the operator's own settings, which may be on the operator's own network or machine.
 */
export type EgressPolicy = "public" | "operator";

/**
 * Whether a connection may go to this address, in any spelling that `isIP` knows. An IPv4 address inside an IPv6 one
 * (`::ffff:0:0/96`) is judged as what it is. What is no address, or names a zone, is refused.
 */
export function allowsAddress(policy: EgressPolicy, address: string): boolean {
  const version = isIP(address);
  if (version === 0 || address.includes("%")) return false;
  const family = version === 4 ? "ipv4" : "ipv6";
  if (nowhere().check(address, family)) return false;
  if (policy === "operator") return true;
  return (family === "ipv4" || outside().check(address, family)) && !special().check(address, family);
}

/** Of IPv6 what is global unicast, and IPv4 in its clothes. A list of IPv4 networks finds mapped addresses by itself. */
const outside = listOf("2000::/3", "::ffff:0:0/96");

/** What has a purpose of its own, by the registries of IANA (RFC 6890 and what came after it). */
const special = listOf(
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  // Relays of 6to4
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  // Protocols of the IETF: Teredo, benchmarks, ORCHID
  "2001::/23",
  "2001:db8::/32",
  // 6to4, which carries an IPv4 address
  "2002::/16",
  "3fff::/20",
);

/** Where nobody's model or tool is: groups, what is reserved, and the servers that tell machines of a cloud their credentials. */
const nowhere = listOf(
  "224.0.0.0/4",
  "240.0.0.0/4",
  "ff00::/8",
  // AWS and most others, then containers and pods there
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
  return lazily(() => {
    const list = new BlockList();
    for (const network of networks) {
      const [address = "", bits] = network.split("/");
      list.addSubnet(address, Number(bits), isIP(address) === 4 ? "ipv4" : "ipv6");
    }
    return list;
  });
}
