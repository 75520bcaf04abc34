import { isGuessable } from "../secrets/guessable.ts";
import { type BrowserEntry, browserSecrets } from "./browser-settings.ts";
import type { EgressCredentials } from "./egress-credentials.ts";
import type { Jwks } from "./jwks.ts";
import type { ProviderOptions } from "./model-options.ts";
import { readServiceAccountKey } from "./object-settings.ts";
import { type OwnProvider, ownProviderSecrets } from "./own-providers.ts";
import type { VapidKey } from "./push-settings.ts";
import { type ConsumerSecrets, consumerSecretTexts } from "./queue-settings.ts";
import type { SandboxEntry } from "./runner-settings.ts";
import type { TokenKey } from "./token-keys.ts";
import { readHeaders } from "./tracing-settings.ts";
import type { Trigger } from "./triggers.ts";
import { literalSecrets, type WebhookEndpoints, webhookSecrets } from "./webhook-endpoints.ts";

type Environment = Readonly<Record<string, string | undefined>>;

interface SecretSources {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  readonly clusterKey: readonly string[];
  readonly consumerSharedSecret: ConsumerSecrets;
  readonly jwksPrivate: Jwks | null;
  readonly modelProviderOptions: Readonly<Record<string, ProviderOptions>>;
  readonly modelProviders: Readonly<Record<string, OwnProvider>>;
  readonly webhookEndpoints: WebhookEndpoints;
  readonly triggers: readonly Trigger[];
  readonly egressCredentials: EgressCredentials;
  readonly egressProxy: string;
  readonly searchApiKey: string;
  readonly shellRunnerToken: string;
  readonly sandboxes: Readonly<Record<string, SandboxEntry>>;
  readonly containerGatewayAuth: string;
  readonly auditKey: readonly string[];
  readonly otelHeaders: string;
  readonly s3AccessKey: string;
  readonly s3SecretKey: string;
  readonly gcsCredentials: string;
  readonly browsers: Readonly<Record<string, BrowserEntry>>;
  readonly tokenSigningKey: readonly TokenKey[];
  readonly pushVapidPrivateKey: VapidKey | null;
  readonly encryptionKey: readonly string[];
  readonly githubClientSecret: string;
  readonly googleClientSecret: string;
  readonly skillImportGithubToken: string;
}

/** Secret members of a private key. */
const privateMembers = ["d", "p", "q", "dp", "dq", "qi"] as const;

/** A text to mask, and the setting that contains it. */
export interface SecretValue {
  readonly setting: string;
  readonly text: string;
}

/** Returns every text of the settings that must be masked: keys, passwords, private numbers and named secrets. */
export function collectSecretValues(
  environment: Environment,
  values: SecretSources,
  /** Settings whose complete value is secret: keys of providers, and secret settings of plugins. */
  secretNames: readonly string[],
  secrets: Readonly<Record<string, string>>,
): readonly SecretValue[] {
  const of = (setting: string, texts: readonly string[]) => texts.map((text): SecretValue => ({ setting, text }));
  const options = Object.values(values.modelProviderOptions).flatMap(({ api_key }) => api_key ?? []);
  const found = [
    ...secretNames.flatMap((name) => of(name, [environment[name]?.trim() ?? ""])),
    ...Object.entries(secrets).flatMap(([name, text]) => of(`SVC_SECRET_${name}`, [text])),
    ...of("SVC_AUTH_API_KEYS", apiKeyTokens(environment)),
    ...of(
      "SVC_MODEL_PROVIDER_OPTIONS",
      options.filter((key) => !key.startsWith("secret:")),
    ),
    ...of("SVC_MODEL_PROVIDERS", ownProviderSecrets(values.modelProviders)),
    ...of(
      "SVC_TRIGGERS",
      values.triggers.flatMap(({ secrets }) => literalSecrets(secrets)),
    ),
    ...of("SVC_JWKS_PRIVATE", signingSecrets(values.jwksPrivate)),
    ...of(
      "SVC_TOKEN_SIGNING_KEY",
      values.tokenSigningKey.map((key) => String(key.private.d)),
    ),
    ...of("SVC_PUSH_VAPID_PRIVATE_KEY", [values.pushVapidPrivateKey?.private ?? ""]),
    ...of("SVC_ENCRYPTION_KEY", values.encryptionKey),
    ...of("SVC_GITHUB_CLIENT_SECRET", [values.githubClientSecret]),
    ...of("SVC_SKILL_IMPORT_GITHUB_TOKEN", literalSecrets([values.skillImportGithubToken])),
    ...of("SVC_GOOGLE_CLIENT_SECRET", [values.googleClientSecret]),
    ...of("SVC_DATABASE_URL", urlSecrets(values.databaseUrl)),
    ...of("SVC_CONSUMER_SHARED_SECRET", consumerSecretTexts(values.consumerSharedSecret)),
    ...of("SVC_REDIS_URL", urlSecrets(values.redisUrl)),
    ...of("SVC_CLUSTER_KEY", values.clusterKey),
    ...of("SVC_WEBHOOK_ENDPOINTS", webhookSecrets(values.webhookEndpoints)),
    ...of(
      "SVC_EGRESS_CREDENTIALS",
      Object.values(values.egressCredentials).flatMap(({ secret }) => literalSecrets([secret])),
    ),
    ...of("SVC_EGRESS_PROXY", urlSecrets(values.egressProxy)),
    ...of(
      "SVC_OTEL_HEADERS",
      readHeaders(values.otelHeaders).map(([, value]) => value),
    ),
    ...of("SVC_AUDIT_KEY", values.auditKey),
    ...of("SVC_BROWSERS", Object.values(values.browsers).flatMap(browserSecrets)),
    ...of("SVC_SEARCH_API_KEY", literalSecrets([values.searchApiKey])),
    ...of("SVC_SHELL_RUNNER_TOKEN", [values.shellRunnerToken]),
    ...of("SVC_CONTAINER_GATEWAY_AUTH", literalSecrets([values.containerGatewayAuth])),
    ...of("SVC_SANDBOXES", literalSecrets(Object.values(values.sandboxes).flatMap(({ auth }) => auth ?? []))),
    ...of("SVC_S3_ACCESS_KEY", literalSecrets([values.s3AccessKey])),
    ...of("SVC_S3_SECRET_KEY", literalSecrets([values.s3SecretKey])),
    ...of("SVC_GCS_CREDENTIALS", gcsSecrets(values.gcsCredentials)),
  ];
  return found.filter(({ text }) => text !== "");
}

/** Returns the settings whose secrets can be guessed, without duplicates. */
export function guessableSettings(values: readonly SecretValue[]): readonly string[] {
  return [...new Set(values.filter(({ text }) => isGuessable(text)).map(({ setting }) => setting))];
}

/** Returns the private numbers of signing keys. */
export function signingSecrets(jwks: Jwks | null): readonly string[] {
  const numbers = (jwks?.keys ?? []).flatMap((key) => privateMembers.map((member) => key[member]));
  return numbers.filter((number) => typeof number === "string");
}

/** Reads the keys from the environment again, because the parsed setting holds only their hashes. */
function apiKeyTokens(environment: Environment): readonly string[] {
  try {
    return Object.keys(JSON.parse(environment.SVC_AUTH_API_KEYS ?? "{}") as object);
  } catch {
    return [];
  }
}

/** Returns the private key of a service account, and the text that contains it. */
function gcsSecrets(text: string): readonly string[] {
  if (text === "" || text.startsWith("secret:")) return [];
  return [text, readServiceAccountKey(text).private_key];
}

/** Returns the password of a URL, and the URL that contains it. */
function urlSecrets(url: string): readonly string[] {
  // A URL with several servers is not one that URL parses.
  const password = URL.parse(url)?.password ?? /^[^/]*:\/\/[^:@/]*:([^@/]*)@/.exec(url)?.[1] ?? "";
  if (password === "") return [];
  let decoded = password;
  try {
    decoded = decodeURIComponent(password);
  } catch {
    // Not percent-encoded: the password is used as it is.
  }
  return [url, password, decoded];
}
