// Credentials that are known by their form, whoever they belong to.

/** How a credential begins, and what follows. The beginning is what the search looks for, so it is kept plain. */
const credentials: readonly (readonly [begins: string, follows: string])[] = [
  // AWS access key ids
  ["(?:AKIA|ASIA)", "[0-9A-Z]{16}(?![0-9A-Za-z])"],
  // OpenAI and its likes
  ["sk-", "(?:(?:proj|svcacct|admin|None|or-v1|ant-[a-z0-9]{2,10})-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})"],
  // GitHub
  ["gh[opsur]_", "[A-Za-z0-9]{30,}"],
  ["github_pat_", "[A-Za-z0-9_]{22,}"],
  // Slack
  ["(?:xox[abeoprs]|xapp)-", "[A-Za-z0-9-]{10,}"],
  // Stripe, live mode
  ["[rs]k_live_", "[A-Za-z0-9]{16,}"],
];

/** The start of a word. In JSON text the character before may be the last of an escape such as \n, which is no part of a word. */
const wordStart = String.raw`(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))`;

/** A whole private key, or as much of one as there is: a key that was cut off has no last line. */
const privateKey =
  "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" +
  String.raw`(?:[A-Za-z0-9+/=\s:,]|\\{1,8}[nrt]|-(?!----))*` +
  "(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?";

/** Finds credentials by their form. Every alternative keeps what it has looked at or fails within a bounded distance. */
export function credentialPattern(): RegExp {
  // The start of a word is asked for after the beginning was found: asked for before, it would be asked at every character.
  const words = credentials.map(([begins, follows]) => `${begins}(?<=${wordStart}${begins})${follows}`);
  return new RegExp([...words, privateKey].join("|"), "g");
}
