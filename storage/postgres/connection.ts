import { Client, type ClientConfig, type QueryConfig } from "pg";
import type { PostgresConfig } from "../store/config.ts";

/** How every connection to the database is made. */
export function clientConfig(config: PostgresConfig): ClientConfig {
  return {
    connectionString: config.url,
    fallback_application_name: "svc",
    connectionTimeoutMillis: Math.ceil(config.connectTimeoutSeconds * 1000),
    // A server that is gone without a word is noticed.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

/**
 * Opens a connection of its own, outside the pool. Throws when the search_path names no schema that the role may use: every later
 * statement would fail with a sentence that names neither.
 */
export async function connectToSchema(config: PostgresConfig): Promise<Client> {
  const client = new Client(clientConfig(config));
  // A lost connection fails the statement under way, which is where it is handled.
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ schema: string | null; path: string; database: string }>({
      text: "SELECT current_schema() AS schema, current_setting('search_path') AS path, current_database() AS database",
      // A server that accepts connections and then is silent must not hold the start.
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
    // Not awaited: a silent server does not answer the goodbye.
    void client.end().catch(() => {});
    throw error;
  }
}

/**
 * Sets what batches rely on for the whole session. READ COMMITTED: under a stricter default of the database, concurrent turns fail
 * with serialization errors. See `durableCommits` for the other.
 */
export const sessionSettings = `SELECT set_config('default_transaction_isolation', 'read committed', false);
  ${durableCommits("session")}`;

/**
 * The same for one transaction, behind a pooler that may hand each transaction another session. The isolation level comes first: it
 * cannot change once a statement has taken a snapshot.
 */
export const transactionSettings: readonly string[] = [
  "SET transaction_isolation TO 'read committed'",
  durableCommits("transaction"),
];

/**
 * Raises synchronous_commit to `on`: what is acknowledged is on the server's disk. A value that waits for standbys too stays as the
 * operator has set it.
 */
function durableCommits(scope: "session" | "transaction"): string {
  return `SELECT set_config('synchronous_commit', 'on', ${scope === "transaction"})
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`;
}
