import type { Target } from "../../governance/egress/target.ts";

// What in a provider's words says where something is: of the provider itself, and of what it is made of behind its door.

/** What may follow a host: a port, and a path there. */
const rest = String.raw`(?::\d+)?(?:\/[^\s"'<>]*)?`;
/** Where a name or a number may begin. Every alternative begins at such a place only, so that the work is linear in the text. */
const start = String.raw`(?<![\w.-])`;

const patterns: readonly string[] = [
  // URLs of any kind
  String.raw`(?<![\w+.-])[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]*`,
  // IPv6, shortened or whole, then IPv4
  String.raw`(?<![\w:.])\[?(?:[0-9a-f:]+::[0-9a-f:.]*|::[0-9a-f][0-9a-f:.]*|(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4})(?:%\w+)?\]?${rest}`,
  String.raw`${start}(?:\d{1,3}\.){3}\d{1,3}${rest}`,
  // Names with dots, and those with a port
  String.raw`${start}(?:[\w-]+\.)+[a-z][\w-]*\w${rest}`,
  String.raw`${start}(?!\d+:)[\w-]+:(?:80|443|\d{4,5})(?!\d)${rest}`,
  // Plain names where resolvers and clients put them
  String.raw`(?<=\b(?:getaddrinfo \w{1,20}|lookup) )[\w.-]+`,
  String.raw`(?<=\bhost=['"]?)[\w.-]+`,
];

/** Finds addresses in words, and the host and path of `target` wherever they stand. Take it out with `replaceAll`. */
export function addressPattern(target: Target): RegExp {
  const path = target.pathname.replace(/\/(?:chat\/completions|messages|embeddings)$/, "");
  const known = [target.host, target.hostname, ...(path.length > "/v1".length ? [path] : [])].map(
    (text) => String.raw`(?<![\w-])${text.replaceAll(/[^\w-]/g, String.raw`\$&`)}(?![\w-])`,
  );
  return new RegExp([...known, ...patterns].join("|"), "gi");
}
