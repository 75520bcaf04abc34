import { Client, type ClientConfig, type QueryConfig } from "pg";
import type { PostgresConfig } from "../store/config.ts";

/** Returns the options of every connection to the database. */
export function clientConfig(config: PostgresConfig): ClientConfig {
  return {
    connectionString: config.url,
    fallback_application_name: "svc",
    connectionTimeoutMillis: Math.ceil(config.connectTimeoutSeconds * 1000),
    // Detects a server that vanished without closing the connection.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

/**
 * Opens a dedicated connection outside the pool. Throws if the search_path names no schema that the role may use: the
 * errors of later statements would name neither.
 */
export async function connectToSchema(config: PostgresConfig): Promise<Client> {
  const client = new Client(clientConfig(config));
  // A lost connection fails the pending statement, whose caller handles the error.
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ schema: string | null; path: string; database: string }>({
      text: "SELECT current_schema() AS schema, current_setting('search_path') AS path, current_database() AS database",
      // A server that accepts connections but does not answer must not block the start.
      query_timeout: Math.ceil(config.connectTimeoutSeconds * 1000),
    } as QueryConfig);
    const [place] = rows;
    if (place && place.schema === null)
      throw new Error(
        `the search_path of SVC_DATABASE_URL is ${place.path || "empty"}, and the database ${place.database} has no such schema` +
          " that this role may use; create the schema, or correct the search_path",
      );
    return client;
  } catch (error) {
    // Not awaited: an unresponsive server does not answer the termination message.
    void client.end().catch(() => {});
    throw error;
  }
}

/**
 * Settings of a session that batches rely on. READ COMMITTED, because a stricter default of the database would fail
 * concurrent turns with serialization errors. `durableCommits` explains the other.
 */
export const sessionSettings = `SELECT set_config('default_transaction_isolation', 'read committed', false);
  ${durableCommits("session")};
  ${timeLimits("session")}`;

/**
 * The same settings for one transaction, behind a pooler that may give each transaction another session. The isolation
 * level comes first: it cannot change once a statement has taken a snapshot.
 */
export const transactionSettings: readonly string[] = [
  "SET transaction_isolation TO 'read committed'",
  durableCommits("transaction"),
  timeLimits("transaction"),
];

/**
 * Limits the time of a statement, and of its wait for a lock. The client gives up after the same time, and the server would
 * otherwise continue. Limits of the role are left unchanged. The last setting makes a search of pgvector's index continue
 * until it has found enough rows of the tenant; without pgvector it has no effect.
 */
function timeLimits(scope: "session" | "transaction"): string {
  const isLocal = scope === "transaction";
  return `SELECT set_config(name, chosen.value, ${isLocal}) FROM (VALUES
    ('statement_timeout', '60000'), ('lock_timeout', '30000'), ('hnsw.iterative_scan', 'strict_order')) chosen (name, value)
    WHERE coalesce(current_setting(name, true), '') IN ('0', '', 'off')`;
}

/**
 * Raises synchronous_commit to `on`, so that acknowledged data is on the server's disk. A setting that also waits for
 * standbys is left unchanged.
 */
function durableCommits(scope: "session" | "transaction"): string {
  return `SELECT set_config('synchronous_commit', 'on', ${scope === "transaction"})
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`;
}
