import { isIP, isIPv4, isIPv6 } from "node:net";
import { trimBlanks } from "../../bus/blanks.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Exchange } from "../engines/exchange.ts";

/** Returns the key under which requests without valid credentials are counted: the client's address, as the trusted proxy tells it. */
export function clientAddress(exchange: Exchange, settings: Pick<Settings, "trustedClientIpHeader">): string {
  const header = settings.trustedClientIpHeader.toLowerCase();
  // The last entry of the list is the one that the trusted proxy added; the client could forge the entries before it.
  const told = header === "" ? "" : trimBlanks(exchange.head.headers[header]?.split(",").at(-1) ?? "");
  return addressCaller(told, exchange.remoteAddress());
}

/**
 * Returns the key under which a client's requests are counted. It is the IPv4 address, also if embedded in IPv6, or the IPv6 /64 network,
 * the smallest that a provider assigns. `told` is the value that the trusted proxy sent, with or without a port; empty without a proxy. A
 * `told` that is no address is ignored, because it could change with each request; the connection's address counts then.
 */
export function addressCaller(told: string, connection: string): string {
  const address = addressIn(told) ?? connection;
  return `address/${isIPv6(address) ? ofIPv6(address) : address}`;
}

/** Returns the address without brackets and port, because the port differs for each connection; null if the text is no address. */
function addressIn(told: string): string | null {
  if (told.length > toldCharsMax) return null;
  const text = forwardedFor.exec(told)?.[1] ?? told;
  // Without brackets, the digits after the last colon of an IPv6 address may be a part of it.
  if (isIP(text) !== 0) return text;
  const { bracketed = "", plain = "" } = hostAndPort.exec(text)?.groups ?? {};
  if (isIPv6(bracketed)) return bracketed;
  return isIPv4(plain) ? plain : null;
}

/** Max characters that are parsed: more than an address needs, with the other parts of a Forwarded header. */
const toldCharsMax = 512;
/** The `for` parameter of the Forwarded header (RFC 7239). */
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

/** Returns the eight groups of an IPv6 address. */
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
