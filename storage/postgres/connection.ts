import type { ClientConfig } from "pg";
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
 * Raises synchronous_commit to `on`, for the session or for the transaction: what is acknowledged is on the server's disk. One
 * that waits for standbys too stays as the operator has set it.
 */
export function durableCommits(scope: "session" | "transaction"): string {
  return `SELECT set_config('synchronous_commit', 'on', ${scope === "transaction"})
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')`;
}
