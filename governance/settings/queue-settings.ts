import { parseStrictJson } from "../../bus/strict-json.ts";
import { readRedisUrl } from "./redis-place.ts";
import { type Setting, text } from "./setting.ts";
import { readTenantId } from "./tenant-id.ts";
import { refuseRawCredentials } from "./url-credentials.ts";

/** Settings of queues for external consumers. */
export const queueSettings = {
  redisUrl: redisUrl(),
  consumerSharedSecret: consumerSecrets(),
  consumerTenant: text(
    "CONSUMER_TENANT",
    "default",
    "The tenant of a bare SVC_CONSUMER_SHARED_SECRET; * is every tenant.",
    {
      item: (value) => (value === "*" ? value : readTenantId(value)),
    },
  ),
};

/** The secret of consumers: one for SVC_CONSUMER_TENANT, or one per tenant. */
export type ConsumerSecrets = string | Readonly<Record<string, string>>;

function consumerSecrets(): Setting<ConsumerSecrets> {
  const help =
    "The secret that queue consumers send in X-Svc-Consumer-Secret, or a JSON object of tenants and their secrets.";
  const setting = text("CONSUMER_SHARED_SECRET", "", help, { secret: true });
  const read = (value: string): ConsumerSecrets => {
    if (!value.startsWith("{")) return value;
    let found: unknown;
    try {
      found = parseStrictJson(value);
    } catch {
      throw new Error("must be a secret, or a JSON object of tenants and their secrets");
    }
    const entries = Object.entries(found as object);
    if (entries.length === 0 || !entries.every(([, secret]) => typeof secret === "string" && secret !== ""))
      throw new Error("must have a secret for each of its tenants");
    return Object.fromEntries(entries.map(([tenant, secret]) => [readTenantId(tenant), secret as string]));
  };
  return { ...setting, read };
}

/** Returns all consumer secrets, for the mask. */
export function consumerSecretTexts(secrets: ConsumerSecrets): readonly string[] {
  return typeof secrets === "string" ? [secrets] : Object.values(secrets);
}

function redisUrl() {
  const setting = text("REDIS_URL", "", "Redis for spec.queues: redis://host:port/database, or rediss:// for TLS.", {
    secret: true,
  });
  const read = (value: string): string => {
    refuseRawCredentials(value);
    readRedisUrl(value);
    return value;
  };
  return { ...setting, read };
}
