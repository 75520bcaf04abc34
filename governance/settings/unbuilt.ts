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

const oneProcess = "in this version one process has the database; SVC_DUTIES selects its work";

export const unbuiltSettings: readonly UnbuiltSetting[] = [
  {
    name: "SVC_DURABILITY",
    default: "fibers",
    help: "the backend of durable runs",
    refusals: { temporal: "temporal is not a backend; fibers are the only durable backend" },
  },
  {
    name: "SVC_PROCESS_ROLE",
    default: "all",
    help: "processes with one role",
    harmless: ["cli"],
    refusals: {
      api: oneProcess,
      worker: oneProcess,
      scheduler: oneProcess,
    },
  },
  ...withDefaults("several hosts", { SCALE_OUT: "false", MULTI_REGION: "false", CLOUD_PROVIDER: "local" }),
  ...unset("several hosts", "REPLICA_ID", "FEDERATION"),
  ...withDefaults("process tuning", {
    HTTP_BACKLOG: "1024",
    HTTP_RUNTIME_THREADS: "1",
    RESPAWN_FAILED_WORKERS: "true",
    TASK_RESULT_TTL_SECONDS: "3600",
    TRUSTED_PROXY_HOPS: "1",
  }),
  ...unset("policy bundles", "POLICY_BUNDLE_PUBKEY"),
  ...withDefaults("the commerce layer", { COMMERCE_ENABLED: "false" }),
  ...unset("the commerce layer", "ENTITY_SOURCES"),

  ...unset("other token verifiers", "JWT_VERIFIERS", "TOKEN_SIGNING_KEY", "TOKEN_TTL_SECONDS"),
  ...unset("webhooks that are sent in", "WEBHOOK_SECRET"),
  ...unset(
    "sign-in through a code host",
    "GITHUB_CLIENT_ID",
    "GITHUB_CLIENT_SECRET",
    "GITHUB_ORG_TENANTS",
    "GITHUB_ORGS",
    "GITHUB_OIDC_AUDIENCE",
    "GITHUB_OIDC_ISSUER",
    "GITHUB_ACTIONS_GRANTS",
    "GITHUB_TOKEN_KEY",
    "GITHUB_REDIRECT_ORIGINS",
    "GITHUB_APP_SLUG",
    "GITHUB_SIGNUP_LOGINS",
    "GITHUB_SIGNUP",
    "GITHUB_INVITES",
    "GITHUB_KEEP_TOKENS",
    "GITHUB_URL",
    "GITHUB_API_URL",
    "LOGIN_RETURN_ORIGINS",
  ),
  ...withDefaults("sign-in through a code host", {
    GITHUB_LOGIN_TTL_SECONDS: "28800",
    GITHUB_TIMEOUT_SECONDS: "10",
    GITHUB_DEVICE_STARTS_PER_HOUR: "10",
    GITHUB_DEVICE_STARTS_PER_HOUR_TOTAL: "300",
    GITHUB_OIDC_TTL_SECONDS: "900",
    GITHUB_CALLBACK_PATH: "/api/auth/github/callback",
  }),
  ...unset("sign-in through Google", "GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET", "GOOGLE_ACCOUNTS", "GOOGLE_ISSUER"),
  ...unset("secrets of a cloud", "SECRET_NAMES", "GCP_PROJECT"),
  ...withDefaults("secrets of a cloud", { AWS_REGION: "us-east-1" }),
  ...unset("encryption at rest", "ENCRYPTION_KEY"),

  ...withDefaults("row-level security", { DATABASE_RLS: "false" }),
  ...unset("the s3 object store", "S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "S3_BUCKET"),
  ...withDefaults("the s3 object store", { S3_REGION: "us-east-1" }),
  ...unset("the gcs object store", "GCS_BUCKET"),
  ...withDefaults("an old name of SVC_ATTACHMENT_RETENTION_DAYS", { ATTACHMENTS_RETENTION_DAYS: "0" }),
  ...withDefaults("the document corpus", { DOCUMENTS_MAX_PER_TENANT: "5000" }),

  ...unset("repositories of threads", "REPO_CHECKOUT_ROOT", "REPO_HOSTS", "REPO_MAX_BYTES"),
  ...withDefaults("repositories of threads", {
    REPO_CLONE_MAX_MB: "500",
    REPO_CHECKOUT_TTL_DAYS: "14",
    REPO_CLONE_TIMEOUT_SECONDS: "600",
  }),
  ...unset(
    "remote and command-line tools",
    "MCP_STDIO_ALLOWED_COMMANDS",
    "SHELL_ALLOWED_COMMANDS",
    "SHELL_RUNNER_URL",
    "SHELL_RUNNER_TOKEN",
    "SANDBOX_ALLOWED_IMAGES",
    "SANDBOXES",
    "CONTAINER_GATEWAY_URL",
  ),
  ...withDefaults("agent files in workspaces", { LOAD_AGENTS_MD: "false" }),

  ...unset("a list of allowed models", "MODEL_ALLOWLIST"),
  ...withDefaults("memory", {
    MEMORY_EMBEDDING_MODEL: "bge-base-en-v1.5",
    MEMORY_EMBEDDING_DIM: "768",
    MEMORY_RECALL_LIMIT: "8",
  }),

  ...unset("webhooks of skills", "SKILL_UPDATE_WEBHOOKS"),
  ...unset("channels", "CHANNELS", "SLACK_API_URL"),
  ...unset("push notifications", "PUSH_VAPID_PRIVATE_KEY", "PUSH_VAPID_SUBJECT"),
  ...withDefaults("push notifications", {
    PUSH_TIMEOUT_SECONDS: "10",
    PUSH_ALLOWED_HOSTS:
      "web.push.apple.com,*.push.apple.com,fcm.googleapis.com,updates.push.services.mozilla.com,*.notify.windows.com",
  }),
  ...withDefaults("polling of reattached streams, which receive events instead", {
    STREAM_RESUME_POLL_SECONDS: "1",
    STREAM_RESUME_POLL_MAX_SECONDS: "10",
  }),

  ...withDefaults("traces", {
    OTEL_ENABLED: "false",
    OTEL_ENDPOINT: "http://localhost:4317",
    OTEL_PROTOCOL: "grpc",
    OTEL_INSECURE: "true",
    OTEL_SAMPLE_RATIO: "1",
    OTEL_CAPTURE_CONTENT: "false",
    OTEL_CAPTURE_IDENTITY: "true",
    OTEL_LOGS: "false",
  }),
  ...unset("traces", "OTEL_SERVICE_NAME", "OTEL_HEADERS"),
  ...withDefaults("metrics of workers", { METRICS_PORT: "0", WORKER_METRICS_PORT: "0" }),
  ...withDefaults("the audit warehouse", { WAREHOUSE: "none", AUDIT_WAREHOUSE: "none" }),
  ...unset("the audit warehouse", "WAREHOUSE_PATH", "WAREHOUSE_URL", "WAREHOUSE_DATABASE"),

  ...unset(
    "skills",
    "SKILLS_DIR",
    "SKILL_PUBLISH_MIN_EVAL_UPLIFT",
    "SKILL_IMPROVE_MODEL",
    "SKILL_EVAL_MODEL",
    "SKILL_EVAL_JUDGE_MODEL",
    "SKILL_IMPORT_GITHUB_TOKEN",
    "SKILL_IMPORT_SOURCES",
  ),
  ...withDefaults("skills", {
    SKILL_PUBLISH_MIN_QUALITY: "0",
    SKILL_PUBLISH_BLOCK_ON_ADVISORY: "false",
    SKILL_PUBLISH_REQUIRE_EVAL: "false",
    SKILL_EVAL_MAX_SCENARIOS: "10",
    SKILL_EVAL_MAX_TOKENS: "2048",
    SKILL_IMPROVE_MAX_TOKENS: "8192",
    SKILL_JOB_DEADLINE_SECONDS: "1200",
    SKILL_JOBS_MAX_QUEUED: "20",
    SKILL_JOBS_DAILY_LIMIT: "200",
    SKILL_IMPORT_MIN_AGE_DAYS: "0",
    SKILL_IMPORT_CALLS_PER_HOUR: "500",
    SKILL_IMPORT_CALLS_PER_HOUR_TOTAL: "4000",
    SKILL_IMPORT_CHECK_HOURS: "0",
  }),
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
