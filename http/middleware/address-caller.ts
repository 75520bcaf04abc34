import { isIP, isIPv4, isIPv6 } from "node:net";

/**
 * Under what the requests of a client are counted: an IPv4 address, in an IPv6 one too; of IPv6 the network of 64 bits, which is the
 * least that anybody is given. `told` is what the proxy in front says, with a port or without one; it is empty where nobody says it. What
 * is no address says nothing: it could be another one with each request, and the connection counts in its place.
 */
export function addressCaller(told: string, connection: string): string {
  const address = addressIn(told) ?? connection;
  return `address/${isIPv6(address) ? ofIPv6(address) : address}`;
}

/** An address without its brackets and its port, which is another one for each connection; null when there is none. */
function addressIn(told: string): string | null {
  if (told.length > toldCharsMax) return null;
  const text = forwardedFor.exec(told)?.[1] ?? told;
  // Without brackets what stands behind the last colon of an IPv6 address may be a part of it.
  if (isIP(text) !== 0) return text;
  const { bracketed = "", plain = "" } = hostAndPort.exec(text)?.groups ?? {};
  if (isIPv6(bracketed)) return bracketed;
  return isIPv4(plain) ? plain : null;
}

/** More than an address needs, with what stands beside it in the header Forwarded; it bounds what is looked through. */
const toldCharsMax = 512;
/** Who has sent it, in the header Forwarded (RFC 7239). */
const forwardedFor = /(?:^|;)[ \t]*for="?([^";]+)"?[ \t]*(?:;|$)/i;
const hostAndPort = /^(?:\[(?<bracketed>[^\]]+)\]|(?<plain>[^:]+))(?::\d{1,5})?$/;

function ofIPv6(address: string): string {
  const groups = groupsOf(address);
  const [a, b, c, d, e, f, high = 0, low = 0] = groups;
  const isMapped = a === 0 && b === 0 && c === 0 && d === 0 && e === 0 && f === 0xffff;
  if (isMapped) return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(":")}::/64`;
}

/** The eight numbers of an address. */
function groupsOf(address: string): number[] {
  const [head = "", tail] = (address.split("%")[0] as string).split("::");
  const before = numbersOf(head);
  if (tail === undefined) return before;
  const after = numbersOf(tail);
  return [...before, ...Array<number>(Math.max(0, 8 - before.length - after.length)).fill(0), ...after];
}

function numbersOf(groups: string): number[] {
  if (groups === "") return [];
  return groups.split(":").flatMap((group) => {
    if (!group.includes(".")) return [Number.parseInt(group, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = group.split(".").map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}
