/** Replaces secrets that an answer repeats, in their usual spellings, by [REDACTED]. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  let shown = text;
  for (const secret of new Set(secrets.flatMap(spellings))) shown = shown.replaceAll(secret, "[REDACTED]");
  return shown;
}

/** Longest first: a short spelling may be a part of a longer one. */
function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const all = [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    bytes.toString("base64"),
    bytes.toString("base64url"),
    // Markdown and HTML escape these characters.
    secret.replace(/[\\`*_[\]#+\-.!~]/g, "\\$&"),
    secret.replaceAll("_", "\\_"),
    secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;"),
  ];
  return [...new Set(all)].sort((a, b) => b.length - a.length);
}

/** The parts of a credential that an answer may repeat: all of it, and what follows its scheme. */
export function secretParts(secret: string): readonly string[] {
  const token = secret.slice(secret.indexOf(" ") + 1);
  return token.length < 8 ? [secret] : [secret, token];
}
