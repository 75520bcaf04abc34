import { nearest } from "../../bus/nearest.ts";
import { readHostPort } from "./browser-settings.ts";
import { clusterConfigOf, clusterRefusals } from "./cluster-settings.ts";
import { decisionProviders } from "./decision-options.ts";
import { isLoopback } from "./hosts.ts";
import { issuerRefusals } from "./jwt-verifiers.ts";
import { metadataHost, namesMetadata } from "./metadata-service.ts";
import { keyedProviders, modelProviders } from "./model-options.ts";
import { readServiceAccountKey } from "./object-settings.ts";
import { type Settings, settingNames } from "./settings.ts";
import { hasSignIn, signInRefusals } from "./sign-in-methods.ts";
import { updateWebhookRefusals } from "./skill-sources.ts";
import { secretReferences } from "./webhook-endpoints.ts";

/** The built-in offline model. */
const demoModelId = "demo";
/** Shorter keys can be guessed. */
const apiKeyCharsMin = 16;

/** A model provider of a plugin. */
interface PluginProvider {
  readonly name: string;
  /** Present if the provider has a decider. */
  readonly openDecider?: unknown;
}

/**
 * Returns why a server with these settings does not start, one sentence per problem; empty if it starts. `ofPlugins` are the
 * model providers of plugins.
 */
export function bootRefusals(settings: Settings, ofPlugins: readonly PluginProvider[] = []): readonly string[] {
  const refusals: string[] = [];
  const own = ofPlugins.map(({ name }) => name);
  const providers: readonly string[] = [...modelProviders, ...Object.keys(settings.modelProviders), ...own];
  const production = settings.environment === "production";

  if (settings.authMode === "none") {
    if (!isLoopback(settings.host)) {
      refusals.push(`SVC_AUTH_MODE=none is only for loopback, but SVC_HOST is ${settings.host}; use api_key or jwt.`);
    }
    if (production) {
      refusals.push("SVC_AUTH_MODE=none is not for production; use api_key or jwt.");
    } else if (settings.environment === "staging" && !settings.allowInsecure) {
      refusals.push("SVC_AUTH_MODE=none outside development needs SVC_ALLOW_INSECURE=true.");
    }
  }
  if (production && settings.demoModel) refusals.push("SVC_DEMO_MODEL=true is not for production.");
  if (production && settings.defaultModelId === demoModelId) {
    refusals.push(`SVC_DEFAULT_MODEL_ID=${demoModelId} is not for production.`);
  }
  if (production && (settings.testClockOffsetMs !== 0 || settings.testProtocolVersion !== 0)) {
    refusals.push("SVC_TEST_CLOCK_OFFSET_MS and SVC_TEST_PROTOCOL_VERSION are not for production; unset them.");
  }
  if (settings.duties.length === 0) {
    refusals.push("SVC_DUTIES names no duty, so the process would do nothing; leave it unset for all duties.");
  }
  refusals.push(...clusterRefusals(settings), ...signInRefusals(settings), ...issuerRefusals(settings));
  refusals.push(...updateWebhookRefusals(settings.skillUpdateWebhooks, settings.webhookEndpoints));
  if (settings.githubKeepTokens && settings.encryptionKey.length === 0)
    refusals.push("SVC_GITHUB_KEEP_TOKENS needs SVC_ENCRYPTION_KEY, which encrypts the tokens in the database.");
  if (clusterConfigOf(settings) !== null && hasSignIn(settings) && settings.tokenSigningKey.length === 0)
    refusals.push(
      "SVC_TOKEN_SIGNING_KEY must be set where hosts share a deployment, so that each verifies the tokens of all.",
    );
  if (settings.workers > 1 && clusterConfigOf(settings) === null) {
    refusals.push(
      "SVC_WORKERS above 1 needs SVC_DATABASE_URL with postgres://, SVC_REDIS_URL and SVC_CLUSTER_KEY, by which processes share a deployment; use 1.",
    );
  }
  for (const [id, { provider }] of Object.entries(settings.modelRoutes)) {
    if (!providers.includes(provider)) {
      refusals.push(`SVC_MODEL_ROUTES: ${id} names an unknown provider; known are ${providers.join(", ")}.`);
    }
  }
  const withDecider = ofPlugins.flatMap(({ name, openDecider }) => (openDecider ? [name] : []));
  const deciding: readonly string[] = [...decisionProviders, ...withDecider];
  for (const [id, { provider }] of Object.entries(settings.decisionRoutes)) {
    if (!deciding.includes(provider)) {
      refusals.push(`SVC_DECISION_ROUTES: ${id} names an unknown provider; known are ${deciding.join(", ")}.`);
    }
  }
  const keyed: readonly string[] = [...keyedProviders, ...own];
  for (const provider of Object.keys(settings.modelProviderOptions)) {
    if (Object.hasOwn(settings.modelProviders, provider)) {
      refusals.push(
        `SVC_MODEL_PROVIDER_OPTIONS: ${provider} is declared in SVC_MODEL_PROVIDERS; set its options there.`,
      );
    } else if (!keyed.includes(provider)) {
      refusals.push(`SVC_MODEL_PROVIDER_OPTIONS names an unknown provider; known are ${keyed.join(", ")}.`);
    }
  }
  const mayBePlain = settings.environment === "development" && settings.allowInsecure;
  for (const [id, { url }] of Object.entries(settings.webhookEndpoints)) {
    if (mayBePlain || URL.parse(url)?.protocol === "https:") continue;
    refusals.push(
      `SVC_WEBHOOK_ENDPOINTS: the url of ${id} is not https; http needs SVC_ENVIRONMENT=development and SVC_ALLOW_INSECURE=true.`,
    );
  }
  for (const { id, name } of secretReferences(settings.webhookEndpoints)) {
    // Secret files are read at each use and may be created later.
    if (settings.secretsBackend !== "env" || Object.hasOwn(settings.secrets, name)) continue;
    refusals.push(`SVC_WEBHOOK_ENDPOINTS: a secret of ${id} names an SVC_SECRET_ variable that is not set.`);
  }
  refusals.push(
    ...searchRefusals(settings, mayBePlain),
    ...runnerRefusals(settings, mayBePlain),
    ...bucketRefusals(settings, mayBePlain),
  );
  if (listensEverywhere(settings.browserProxyBind))
    for (const [id, { proxy }] of Object.entries(settings.browsers)) {
      if (proxy === null)
        refusals.push(
          `SVC_BROWSERS: ${id} needs proxy, because SVC_BROWSER_PROXY_BIND names no address to connect to.`,
        );
    }
  if (production && settings.shellLocal === "trusted")
    refusals.push("SVC_SHELL_LOCAL=trusted is not for production; use bwrap.");
  if (production && Object.keys(settings.testResolve).length > 0)
    refusals.push("SVC_TEST_RESOLVE is not for production.");
  if (settings.runtimeKeys && settings.authMode !== "api_key")
    refusals.push("SVC_RUNTIME_KEYS needs SVC_AUTH_MODE=api_key.");
  const { anonymousTenant } = settings;
  if (anonymousTenant !== "" && settings.authMode === "none") {
    refusals.push("SVC_ANONYMOUS_TENANT needs api_key or jwt: with SVC_AUTH_MODE=none no caller needs credentials.");
  }
  if (settings.allowedTenants.length > 0) {
    if (anonymousTenant !== "" && !settings.allowedTenants.includes(anonymousTenant)) {
      refusals.push("SVC_ANONYMOUS_TENANT names a tenant that is not in SVC_ALLOWED_TENANTS.");
    }
    for (const { entry, tenant_id } of settings.authApiKeys) {
      if (settings.allowedTenants.includes(tenant_id)) continue;
      refusals.push(`SVC_AUTH_API_KEYS: entry ${entry} names a tenant that is not in SVC_ALLOWED_TENANTS.`);
    }
    for (const { id, tenant_id } of settings.triggers) {
      if (settings.allowedTenants.includes(tenant_id)) continue;
      refusals.push(`SVC_TRIGGERS: ${id} names a tenant that is not in SVC_ALLOWED_TENANTS.`);
    }
  }
  return refusals;
}

/** True if the proxy listens on every address of the machine. */
function listensEverywhere(bind: string): boolean {
  const { host } = readHostPort(bind, "SVC_BROWSER_PROXY_BIND");
  return host === "0.0.0.0" || host === "[::]";
}

/** Returns what is missing or unsafe in the settings of runners and gateways. */
function runnerRefusals(settings: Settings, mayBePlain: boolean): string[] {
  const { shellRunnerUrl, shellRunnerToken, containerGatewayUrl, sandboxes } = settings;
  const refusals: string[] = [];
  if (shellRunnerUrl !== "" && shellRunnerToken === "")
    refusals.push("SVC_SHELL_RUNNER_URL needs SVC_SHELL_RUNNER_TOKEN, of at least 32 characters.");
  const urls = { SVC_SHELL_RUNNER_URL: shellRunnerUrl, SVC_CONTAINER_GATEWAY_URL: containerGatewayUrl };
  const all = [...Object.entries(urls), ...Object.values(sandboxes).map(({ url }) => ["SVC_SANDBOXES", url] as const)];
  for (const [name, text] of all) {
    const url = URL.parse(text);
    if (url === null || url.protocol === "https:" || mayBePlain || isLoopback(url.hostname)) continue;
    refusals.push(
      `${name} is not https; http is for loopback, or needs SVC_ENVIRONMENT=development and SVC_ALLOW_INSECURE=true.`,
    );
  }
  return refusals;
}

/** Returns what is missing or unsafe in the settings of web search. */
function searchRefusals(settings: Settings, mayBePlain: boolean): string[] {
  const { searchBackend, searchUrl, searchApiKey, secretsBackend, secrets } = settings;
  const refusals: string[] = [];
  if (searchBackend !== "none" && searchUrl === "")
    refusals.push(`SVC_SEARCH_BACKEND=${searchBackend} needs SVC_SEARCH_URL.`);
  if (searchUrl !== "" && !mayBePlain && URL.parse(searchUrl)?.protocol !== "https:")
    refusals.push("SVC_SEARCH_URL is not https; http needs SVC_ENVIRONMENT=development and SVC_ALLOW_INSECURE=true.");
  const [, name = null] = /^secret:(.*)$/s.exec(searchApiKey) ?? [];
  if (name !== null && secretsBackend === "env" && !Object.hasOwn(secrets, name))
    refusals.push("SVC_SEARCH_API_KEY names an SVC_SECRET_ variable that is not set.");
  return refusals;
}

/** Returns what is missing or unsafe in the settings of an object store in a bucket. */
function bucketRefusals(settings: Settings, mayBePlain: boolean): string[] {
  const { objectStore, s3Bucket, s3AccessKey, s3SecretKey, gcsBucket, gcsEndpoint, gcsCredentials } = settings;
  if (objectStore !== "s3" && objectStore !== "gcs") return [];
  const refusals: string[] = [];
  const isS3 = objectStore === "s3";
  const [bucket, key] = isS3 ? ["SVC_S3_BUCKET", "SVC_S3_ACCESS_KEY"] : ["SVC_GCS_BUCKET", "SVC_GCS_CREDENTIALS"];
  if ((isS3 ? s3Bucket : gcsBucket) === "") refusals.push(`SVC_OBJECT_STORE=${objectStore} needs ${bucket}.`);
  if (isS3 && (s3AccessKey === "") !== (s3SecretKey === ""))
    refusals.push("SVC_S3_ACCESS_KEY and SVC_S3_SECRET_KEY must be set together.");
  if ((isS3 ? s3AccessKey + s3SecretKey : gcsCredentials) === "" && !namesMetadata(settings))
    refusals.push(
      `${key} is not set: for the role of the instance, SVC_EGRESS_PRIVATE must name {"host": "${metadataHost}", "port": 80, "tenants": []}.`,
    );
  const isPlain = (url: string): boolean => URL.parse(url)?.protocol !== "https:";
  const isLiteral = gcsCredentials !== "" && !gcsCredentials.startsWith("secret:");
  const urls = [gcsEndpoint, ...(isLiteral ? [readServiceAccountKey(gcsCredentials).token_uri] : [])];
  if (!isS3 && !mayBePlain && urls.some(isPlain))
    refusals.push(
      "SVC_GCS_ENDPOINT and token_uri must be https; http needs SVC_ENVIRONMENT=development and SVC_ALLOW_INSECURE=true.",
    );
  const named = { SVC_S3_ACCESS_KEY: s3AccessKey, SVC_S3_SECRET_KEY: s3SecretKey, SVC_GCS_CREDENTIALS: gcsCredentials };
  for (const [setting, text] of Object.entries(named)) {
    const [, name = null] = /^secret:(.*)$/s.exec(text) ?? [];
    if (name !== null && settings.secretsBackend === "env" && !Object.hasOwn(settings.secrets, name))
      refusals.push(`${setting} names an SVC_SECRET_ variable that is not set.`);
  }
  return refusals;
}

/** Returns warnings about settings that are allowed but probably not intended, one sentence each. */
export function bootWarnings(settings: Settings): readonly string[] {
  const warnings: string[] = [];
  const production = settings.environment === "production";
  const { authMode } = settings;

  const named = settingNames();
  for (const name of settings.unknownNames) {
    const near = nearest(name, named);
    const hint = near === null ? "" : ` Did you mean ${near}?`;
    warnings.push(`${name} is not a setting of this version; it is ignored.${hint}`);
  }
  if (authMode === "api_key" && settings.authApiKeys.length === 0) {
    warnings.push("SVC_AUTH_API_KEYS is empty, so no caller can authenticate; `svc keys` makes a key.");
  }
  if (
    authMode === "jwt" &&
    settings.jwksPublic === null &&
    settings.jwtVerifiers.length === 0 &&
    !hasSignIn(settings)
  ) {
    warnings.push(
      "SVC_JWKS_PUBLIC is not set, nor is SVC_JWT_VERIFIERS, so no token can be verified and no caller can authenticate.",
    );
  }
  for (const reason of settings.jwksPublic?.skipped ?? []) {
    warnings.push(`SVC_JWKS_PUBLIC: ${reason}; this key is skipped.`);
  }
  if (authMode === "jwt" && settings.environment !== "development" && settings.allowedTenants.length === 0) {
    warnings.push("SVC_ALLOWED_TENANTS is empty, so a token may name any tenant.");
  }
  if (production && settings.chatScopes === "any") {
    warnings.push("SVC_CHAT_SCOPES=strict is recommended in production: now a key with any scope may chat.");
  }
  if (settings.anonymousTenant !== "" && settings.rateLimit === 0) {
    warnings.push("SVC_ANONYMOUS_TENANT is set and SVC_RATE_LIMIT is 0: callers without credentials are not limited.");
  }
  if (production && settings.objectStore === "memory") {
    warnings.push("SVC_OBJECT_STORE=memory loses every object when the server stops.");
  }
  if (!isLoopback(settings.host) && !settings.fromEnvironment.includes("SVC_ALLOWED_HOSTS")) {
    warnings.push(
      "SVC_ALLOWED_HOSTS is not set: requests with a Host other than the server's address or localhost are refused.",
    );
  }
  if (settings.guessableSettings.length > 0) {
    warnings.push(
      `${settings.guessableSettings.join(", ")}: secrets of fewer than 16 characters, or of words alone, can be guessed, so they are masked only in audit rows and log lines; use longer ones.`,
    );
  }
  for (const { entry, length } of settings.authApiKeys) {
    if (length < apiKeyCharsMin) {
      warnings.push(`SVC_AUTH_API_KEYS: the key of entry ${entry} has ${length} characters and can be guessed.`);
    }
  }
  return warnings;
}
