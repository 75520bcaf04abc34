// Settings of the specification that this version does not support. None is silently ignored: a value other than the default
// stops the boot.

/** A setting without an implementation. */
export interface UnbuiltSetting {
  readonly name: string;
  /** The accepted value, which requires no feature. */
  readonly default: string;
  /** The missing feature, or why no version will support a value. */
  readonly help: string;
  /** Other values that require no feature. */
  readonly harmless?: readonly string[];
  /** Reasons for single values, which replace the general one. */
  readonly refusals?: Readonly<Record<string, string>>;
}

function unset(help: string, ...names: string[]): UnbuiltSetting[] {
  return names.map((name) => ({ name: `SVC_${name}`, default: "", help }));
}

function withDefaults(help: string, defaults: Readonly<Record<string, string>>): UnbuiltSetting[] {
  return Object.entries(defaults).map(([name, value]) => ({ name: `SVC_${name}`, default: value, help }));
}

export const unbuiltSettings: readonly UnbuiltSetting[] = [
  {
    name: "SVC_DURABILITY",
    default: "fibers",
    help: "the backend of durable runs",
    refusals: { temporal: "temporal is not a backend; fibers are the only durable backend" },
  },
  ...withDefaults("SVC_DATABASE_URL, SVC_REDIS_URL and SVC_CLUSTER_KEY together make processes share a deployment", {
    SCALE_OUT: "false",
  }),
  ...withDefaults("several regions", { MULTI_REGION: "false", CLOUD_PROVIDER: "local" }),
  ...unset("several regions", "FEDERATION"),
  ...withDefaults("process tuning", {
    HTTP_BACKLOG: "1024",
    HTTP_RUNTIME_THREADS: "1",
    TASK_RESULT_TTL_SECONDS: "3600",
    TRUSTED_PROXY_HOPS: "1",
  }),
  ...unset("policy bundles", "POLICY_BUNDLE_PUBKEY"),
  ...unset("the commerce layer", "ENTITY_SOURCES"),

  ...unset("webhooks that are sent in", "WEBHOOK_SECRET"),
  ...unset("its name is SVC_GITHUB_ORGS", "GITHUB_ORG_TENANTS"),
  ...unset("its name is SVC_GITHUB_INVITES, with SVC_GITHUB_SIGNUP=invite", "GITHUB_SIGNUP_LOGINS"),
  ...unset("its name is SVC_TOKEN_SIGNING_KEY", "GITHUB_TOKEN_KEY"),
  ...unset("its name is SVC_LOGIN_RETURN_ORIGINS", "GITHUB_REDIRECT_ORIGINS"),
  ...withDefaults("its name is SVC_TOKEN_TTL_SECONDS", { GITHUB_LOGIN_TTL_SECONDS: "28800" }),
  ...withDefaults("the callback is /auth/github/callback", { GITHUB_CALLBACK_PATH: "/api/auth/github/callback" }),
  ...unset("secrets of a cloud", "SECRET_NAMES", "GCP_PROJECT"),
  ...withDefaults("secrets of a cloud", { AWS_REGION: "us-east-1" }),

  ...withDefaults("row-level security", { DATABASE_RLS: "false" }),
  ...withDefaults("an old name of SVC_ATTACHMENT_RETENTION_DAYS", { ATTACHMENTS_RETENTION_DAYS: "0" }),

  ...unset("its name is SVC_REPO_CLONE_MAX_MB", "REPO_MAX_BYTES"),

  ...unset("a list of allowed models", "MODEL_ALLOWLIST"),
  ...withDefaults("memory", {
    MEMORY_RECALL_LIMIT: "8",
  }),

  ...withDefaults("polling of reattached streams, which receive events instead", {
    STREAM_RESUME_POLL_SECONDS: "1",
    STREAM_RESUME_POLL_MAX_SECONDS: "10",
  }),

  ...withDefaults("traces", {
    OTEL_INSECURE: "true",
    OTEL_LOGS: "false",
  }),
  ...withDefaults("SVC_METRICS_PORT is the port of every process", { WORKER_METRICS_PORT: "0" }),
  ...withDefaults("the audit warehouse", { WAREHOUSE: "none", AUDIT_WAREHOUSE: "none" }),
  ...unset("the audit warehouse", "WAREHOUSE_PATH", "WAREHOUSE_URL", "WAREHOUSE_DATABASE"),
];

/** Returns why this value of an unsupported setting stops the boot; null if it requires no feature. */
export function refuseUnbuilt(setting: UnbuiltSetting, value: string): string | null {
  if (sameValue(value, setting.default) || setting.harmless?.some((word) => sameValue(value, word))) return null;
  for (const [word, reason] of Object.entries(setting.refusals ?? {})) if (sameValue(value, word)) return reason;
  const otherwise = setting.default === "" ? "leave it unset" : `leave it at ${setting.default}`;
  return `is not supported by this version (${setting.help}); ${otherwise}`;
}

/** True if two spellings mean the same value: 1 and 1.0, true and 1. */
function sameValue(left: string, right: string): boolean {
  return plain(left) === plain(right);
}

function plain(value: string): string {
  const word = value.toLowerCase();
  if (word === "true") return "1";
  if (word === "false") return "0";
  return /^-?\d+(\.\d+)?$/.test(word) ? String(Number(word)) : word;
}
