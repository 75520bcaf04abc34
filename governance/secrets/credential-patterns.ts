// Patterns of well-known credentials, whoever owns them.

/** The prefix of a credential, then the rest. The search looks for prefixes first, so they stay simple. */
const credentials: readonly (readonly [begins: string, follows: string])[] = [
  // AWS access key ids
  ["(?:AKIA|ASIA)", "[0-9A-Z]{16}(?![0-9A-Za-z])"],
  // OpenAI and compatible providers
  ["sk-", "(?:(?:proj|svcacct|admin|None|or-v1|ant-[a-z0-9]{2,10})-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})"],
  // GitHub
  ["gh[opsur]_", "[A-Za-z0-9]{30,}"],
  ["github_pat_", "[A-Za-z0-9_]{22,}"],
  // Slack
  ["(?:xox[abeoprs]|xapp)-", "[A-Za-z0-9-]{10,}"],
  // Stripe, live mode
  ["[rs]k_live_", "[A-Za-z0-9]{16,}"],
];

/** The start of a word. In JSON text, the preceding character may end an escape such as \n, which is not part of a word. */
const wordStart = String.raw`(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))`;

/** A private key, complete or truncated: a truncated key has no last line. */
const privateKey =
  "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" +
  String.raw`(?:[A-Za-z0-9+/=\s:,]|\\{1,8}[nrt]|-(?!----))*` +
  "(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?";

/**
 * Returns a pattern that finds credentials by their form. Each alternative matches or fails within a bounded distance, so
 * matching is linear.
 */
export function credentialPattern(): RegExp {
  // The word start is a lookbehind after the prefix; in front of it, it would be tested at every character.
  const words = credentials.map(([begins, follows]) => `${begins}(?<=${wordStart}${begins})${follows}`);
  return new RegExp([...words, privateKey].join("|"), "g");
}
