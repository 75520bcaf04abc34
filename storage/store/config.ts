import { join, resolve } from "node:path";

/** The file in a data directory that is locked for as long as the directory belongs to a process. */
export const lockName = "svc.lock";

/** Where rows are kept. The storage layer reads no settings itself: it is given this. */
export type StoreConfig =
  | ({ readonly engine: "sqlite" } & SqliteConfig)
  | { readonly engine: "postgres"; readonly postgres: PostgresConfig };

/** Where a SQLite database is. */
export interface SqliteConfig {
  readonly path: string;
  /** The file whose lock says that the database belongs to this process, where there is one. */
  readonly lockPath?: string;
}

/** How a Postgres database is reached. The pool is per process. */
export interface PostgresConfig {
  readonly url: string;
  /** Connections that stay open. */
  readonly poolSize: number;
  /** Connections beyond them under load. */
  readonly maxOverflow: number;
  /** Maximum wait of a batch for a connection. */
  readonly poolTimeoutSeconds: number;
  /** Whether a connection is tested before use. */
  readonly prePing: boolean;
  readonly connectTimeoutSeconds: number;
  /** Set false with a pooler that does not track prepared statements. */
  readonly preparedStatements: boolean;
}

/** The engine that a database URL asks for: postgres://…, sqlite:///path, or SQLite under the data directory when it is empty. */
export function storeConfig(databaseUrl: string, dataDir: string, pool: Omit<PostgresConfig, "url">): StoreConfig {
  const lockPath = join(resolve(dataDir), lockName);
  if (databaseUrl === "") return { engine: "sqlite", path: join(resolve(dataDir), "svc.db"), lockPath };
  if (databaseUrl.startsWith("sqlite:///"))
    return { engine: "sqlite", path: resolve(databaseUrl.slice("sqlite://".length)), lockPath };
  if (/^postgres(ql)?:\/\//.test(databaseUrl)) return { engine: "postgres", postgres: { ...pool, url: databaseUrl } };
  throw new Error("must begin with postgres:// or sqlite:///");
}
