/** The Postgres database of each data directory whose server is several hosts; see two-hosts.ts. */
export const hostDatabases = new Map<string, string>();
