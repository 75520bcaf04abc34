import type { Target } from "../../governance/egress/target.ts";

// Finds addresses in error texts of providers: of the provider itself, and of its internal services.

/** The optional port and path after a host. */
const rest = String.raw`(?::\d+)?(?:\/[^\s"'<>]*)?`;
/** The start of a name or number. Every alternative starts only there, so that matching is linear. */
const start = String.raw`(?<![\w.-])`;

const patterns: readonly string[] = [
  // URLs of any scheme
  String.raw`(?<![\w+.-])[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]*`,
  // IPv6, shortened or full, then IPv4
  String.raw`(?<![\w:.])\[?(?:[0-9a-f:]+::[0-9a-f:.]*|::[0-9a-f][0-9a-f:.]*|(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4})(?:%\w+)?\]?${rest}`,
  String.raw`${start}(?:\d{1,3}\.){3}\d{1,3}${rest}`,
  // Names with dots, and names with a port
  String.raw`${start}(?:[\w-]+\.)+[a-z][\w-]*\w${rest}`,
  String.raw`${start}(?!\d+:)[\w-]+:(?:80|443|\d{4,5})(?!\d)${rest}`,
  // Plain names in the messages of resolvers and clients
  String.raw`(?<=\b(?:getaddrinfo \w{1,20}|lookup) )[\w.-]+`,
  String.raw`(?<=\bhost=['"]?)[\w.-]+`,
];

/** Returns a pattern that matches addresses, and the host and path of `target`. Use it with `replaceAll`. */
export function addressPattern(target: Target): RegExp {
  const path = target.pathname.replace(/\/(?:chat\/completions|messages|embeddings)$/, "");
  const known = [target.host, target.hostname, ...(path.length > "/v1".length ? [path] : [])].map(
    (text) => String.raw`(?<![\w-])${text.replaceAll(/[^\w-]/g, String.raw`\$&`)}(?![\w-])`,
  );
  return new RegExp([...known, ...patterns].join("|"), "gi");
}
