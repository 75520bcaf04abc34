import type { Jwks } from "./jwks.ts";
import type { ProviderOptions } from "./model-options.ts";

type Environment = Readonly<Record<string, string | undefined>>;

interface SecretSources {
  readonly databaseUrl: string;
  readonly jwksPrivate: Jwks | null;
  readonly modelProviderOptions: Readonly<Record<string, ProviderOptions>>;
}

/** Members of a private key that are secret. */
const privateMembers = ["d", "p", "q", "dp", "dq", "qi"] as const;

/** Every text of the settings that must be masked wherever it turns up: keys, passwords, private numbers, secrets by name. */
export function collectSecretValues(
  environment: Environment,
  values: SecretSources,
  providerKeys: Readonly<Record<string, string>>,
  secrets: Readonly<Record<string, string>>,
): readonly string[] {
  const found = new Set<string>([...Object.values(providerKeys), ...Object.values(secrets)]);
  for (const token of apiKeyTokens(environment)) found.add(token);
  for (const { api_key } of Object.values(values.modelProviderOptions)) {
    if (api_key !== undefined && !api_key.startsWith("secret:")) found.add(api_key);
  }
  for (const text of signingSecrets(values.jwksPrivate)) found.add(text);
  for (const text of databaseSecrets(values.databaseUrl)) found.add(text);
  found.delete("");
  return [...found];
}

/** The private numbers of keys that sign. */
export function signingSecrets(jwks: Jwks | null): readonly string[] {
  const numbers = (jwks?.keys ?? []).flatMap((key) => privateMembers.map((member) => key[member]));
  return numbers.filter((number) => typeof number === "string");
}

/** The keys themselves are read from the text: the setting keeps their hashes alone. */
function apiKeyTokens(environment: Environment): readonly string[] {
  try {
    return Object.keys(JSON.parse(environment.SVC_AUTH_API_KEYS ?? "{}") as object);
  } catch {
    return [];
  }
}

function databaseSecrets(databaseUrl: string): readonly string[] {
  const password = URL.parse(databaseUrl)?.password ?? "";
  if (password === "") return [];
  let decoded = password;
  try {
    decoded = decodeURIComponent(password);
  } catch {
    // Not percent-encoded then: the text as it stands is the password.
  }
  return [databaseUrl, password, decoded];
}
