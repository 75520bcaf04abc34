import { int, list, text } from "./setting.ts";

/** Bytes of the shortest key: those of the hash. */
const keyBytesMin = 32;

/** Settings of a deployment of several hosts. */
export const clusterSettings = {
  clusterKey: list(
    "CLUSTER_KEY",
    [],
    "With Postgres and SVC_REDIS_URL, lets hosts share the database. Keys that sign what they send each other: the first signs, all verify.",
    { secret: true, item: readClusterKey },
  ),
  redisPrefix: text(
    "REDIS_PREFIX",
    "svc",
    "The beginning of every key of this deployment in Redis, but those of queues.",
    {
      pattern: /^[A-Za-z0-9:_-]{1,64}$/,
      reason: "must be 1 to 64 letters, digits, colons, hyphens or underscores",
    },
  ),
  replicaId: text("REPLICA_ID", "", "The name of this host in GET /hosts.", {
    defaultWords: "the machine's host name",
    pattern: /^[\w.:-]{1,128}$/,
    reason: "must be 1 to 128 letters, digits, dots, colons, hyphens or underscores",
  }),
  testClockOffsetMs: int(
    "TEST_CLOCK_OFFSET_MS",
    0,
    [-86_400_000, 86_400_000],
    "For tests: milliseconds by which the clock of this process is ahead; production refuses it.",
  ),
  testProtocolVersion: int(
    "TEST_PROTOCOL_VERSION",
    0,
    [0, 1_000],
    "For tests: version of the protocol between hosts that this process speaks, 0 for its own; production refuses it.",
  ),
};

function readClusterKey(key: string): string {
  if (Buffer.byteLength(key) < keyBytesMin) throw new Error(`must have at least ${keyBytesMin} bytes in each key`);
  return key;
}

/** What the hosts of a deployment need to reach each other. */
export interface ClusterConfig {
  readonly redisUrl: string;
  readonly prefix: string;
  readonly keys: readonly string[];
}

interface ClusterSources {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  readonly clusterKey: readonly string[];
  readonly redisPrefix: string;
  readonly auditKey: readonly string[];
  readonly objectStore: string;
}

/** Returns null for a process that has its database for itself. */
export function clusterConfigOf(settings: Omit<ClusterSources, "auditKey" | "objectStore">): ClusterConfig | null {
  const { redisUrl, redisPrefix: prefix, clusterKey: keys } = settings;
  const isCluster = isPostgres(settings) && redisUrl !== "" && keys.length > 0;
  return isCluster ? { redisUrl, prefix, keys } : null;
}

/** Returns what a host with a cluster key lacks, or must not have; empty if nothing. */
export function clusterRefusals(settings: ClusterSources): readonly string[] {
  if (settings.clusterKey.length === 0) return [];
  if (clusterConfigOf(settings) !== null)
    return [
      ...(settings.auditKey.length > 0
        ? []
        : ["SVC_CLUSTER_KEY needs SVC_AUDIT_KEY: every host of a deployment seals audit rows with the same key."]),
      ...(settings.objectStore === "memory"
        ? ["SVC_OBJECT_STORE=memory is of one process; hosts of a deployment need fs on a shared folder, s3 or gcs."]
        : []),
    ];
  const missing = [
    ...(isPostgres(settings) ? [] : ["SVC_DATABASE_URL with postgres://"]),
    ...(settings.redisUrl === "" ? ["SVC_REDIS_URL"] : []),
  ];
  return [`SVC_CLUSTER_KEY needs ${missing.join(" and ")}, which hosts of a deployment share.`];
}

function isPostgres({ databaseUrl }: { readonly databaseUrl: string }): boolean {
  return /^postgres(ql)?:/.test(databaseUrl);
}
