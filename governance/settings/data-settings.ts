import { storeConfig } from "../../storage/store/config.ts";
import { bool, int, list, optionalPath, seconds, text } from "./setting.ts";
import { readTenantId } from "./tenant-id.ts";
import { refuseRawCredentials } from "./url-credentials.ts";

/** Settings of the database, files and retention. */
export const dataSettings = {
  databaseUrl: databaseUrl(),
  dbPoolSize: int("DB_POOL_SIZE", 10, [1, 1000], "Postgres connections that stay open."),
  dbMaxOverflow: int("DB_MAX_OVERFLOW", 20, [0, 1000], "Additional Postgres connections under load."),
  dbPoolTimeoutSeconds: seconds(
    "DB_POOL_TIMEOUT_SECONDS",
    30,
    [0.001, 3600],
    "Maximum wait of a batch for a connection.",
  ),
  dbPoolPrePing: bool("DB_POOL_PRE_PING", true, "Whether a connection is tested before use."),
  dbConnectTimeoutSeconds: seconds("DB_CONNECT_TIMEOUT_SECONDS", 10, [0.001, 600], "Maximum time to connect."),
  dbPreparedStatements: bool(
    "DB_PREPARED_STATEMENTS",
    true,
    "Set false with a pooler that does not track prepared statements.",
  ),
  tenantStoredBytes: int(
    "TENANT_STORED_BYTES",
    1_073_741_824,
    [0, Number.MAX_SAFE_INTEGER],
    "Maximum bytes of a tenant's manifests (every version), files, artifacts, plans, jobs and documents; 0 is no limit.",
  ),
  threadBytes: int(
    "THREAD_BYTES",
    67_108_864,
    [4096, 1_099_511_627_776],
    "Maximum bytes of the log of one thread, with 256 per event in addition to its text; svc refuses events beyond it.",
  ),
  tenantThreadBytes: int(
    "TENANT_THREAD_BYTES",
    0,
    [0, Number.MAX_SAFE_INTEGER],
    "Maximum bytes of a tenant's threads and workspaces, summed each minute; beyond it turns and forks are refused; 0 is no limit.",
  ),
  documentsMaxPerTenant: int("DOCUMENTS_MAX_PER_TENANT", 5000, [1, 1_000_000], "Maximum documents of a tenant."),
  maxUploadBytes: int("MAX_UPLOAD_BYTES", 600 * 1024, [600 * 1024, 12 * 1024 * 1024], "Maximum bytes of one file."),
  attachmentsMaxBytesPerTenant: int(
    "ATTACHMENTS_MAX_BYTES_PER_TENANT",
    268_435_456,
    [0, 1_099_511_627_776],
    "Maximum bytes of all files of a tenant, including those of its tools; 0 is no limit.",
  ),
  runRetentionDays: int(
    "FIBER_RETENTION_DAYS",
    7,
    [0, 3_650],
    "Days that the rows of runs are kept after their end; 0 keeps them. Threads stay.",
  ),
  auditRetentionDays: kept("AUDIT", 30, "audit rows are kept"),
  usageRetentionDays: kept("USAGE", 365, "usage is kept, in whole UTC days"),
  approvalRetentionDays: kept("APPROVAL", 0, "settled approval requests are kept"),
  attachmentRetentionDays: kept(
    "ATTACHMENT",
    0,
    "uploads are kept; images made by tools are deleted with their thread",
  ),
  artifactRetentionDays: kept("ARTIFACT", 30, "long tool results that were stored separately are kept"),
  sessionRetentionDays: kept("SESSION", 0, "threads without new events and without an open run are kept"),
  workspaceRoot: optionalPath("WORKSPACE_ROOT", "The folder for workspace tools; unset, they fail."),
  loadAgentsMd: bool(
    "LOAD_AGENTS_MD",
    false,
    "Whether agents that work in a workspace read its AGENTS.md before each step.",
  ),
  workspaceDeploymentTenants: list(
    "WORKSPACE_DEPLOYMENT_TENANTS",
    ["default"],
    "The tenants whose manifests may use the workspace root itself; a single comma means none.",
    { item: readTenantId },
  ),
};

function kept(what: string, days: number, help: string) {
  return int(`${what}_RETENTION_DAYS`, days, [0, 36_500], `Days that ${help}; 0 keeps them.`);
}

function databaseUrl() {
  const setting = text("DATABASE_URL", "", "postgres://… or sqlite:///path.", {
    secret: true,
    defaultWords: "SQLite under SVC_DATA_DIR",
  });
  const read = (value: string): string => {
    if (storeConfig(value, ".", unusedPool).engine === "postgres") refuseRawCredentials(value);
    return value;
  };
  return { ...setting, read };
}

/** The validation of a URL requires pool sizes but ignores them. */
const unusedPool = {
  poolSize: 1,
  maxOverflow: 0,
  poolTimeoutSeconds: 1,
  prePing: false,
  connectTimeoutSeconds: 1,
  preparedStatements: false,
};
