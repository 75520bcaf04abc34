import { join, resolve } from "node:path";

/** Name of the lock file in a data directory, locked while a process uses the directory. */
export const lockName = "svc.lock";

/** Location of the database. The storage layer reads no settings; its callers pass this in. */
export type StoreConfig =
  | ({ readonly engine: "sqlite" } & SqliteConfig)
  | { readonly engine: "postgres"; readonly postgres: PostgresConfig };

/** Location of a SQLite database. */
export interface SqliteConfig {
  readonly path: string;
  /** The file whose lock says that the database belongs to this process, if any. */
  readonly lockPath?: string;
}

/** Connection settings of a Postgres database. The pool is per process. */
export interface PostgresConfig {
  readonly url: string;
  /** Connections that stay open. */
  readonly poolSize: number;
  /** Additional connections under load. */
  readonly maxOverflow: number;
  /** Maximum wait of a batch for a connection. */
  readonly poolTimeoutSeconds: number;
  /** Whether a connection is tested before use. */
  readonly prePing: boolean;
  readonly connectTimeoutSeconds: number;
  /** Set false with a pooler that does not track prepared statements. */
  readonly preparedStatements: boolean;
  /** True if other hosts use the database too: the lease of this one then replaces the lock on the database. */
  readonly shared?: boolean;
}

/**
 * Returns the engine of a database URL: postgres://…, sqlite:///path, or SQLite in the data directory if it is empty.
 */
export function storeConfig(databaseUrl: string, dataDir: string, pool: Omit<PostgresConfig, "url">): StoreConfig {
  const lockPath = join(resolve(dataDir), lockName);
  if (databaseUrl === "") return { engine: "sqlite", path: join(resolve(dataDir), "svc.db"), lockPath };
  if (databaseUrl.startsWith("sqlite:///"))
    return { engine: "sqlite", path: resolve(databaseUrl.slice("sqlite://".length)), lockPath };
  if (/^postgres(ql)?:\/\//.test(databaseUrl)) return { engine: "postgres", postgres: { ...pool, url: databaseUrl } };
  throw new Error("must begin with postgres:// or sqlite:///");
}
