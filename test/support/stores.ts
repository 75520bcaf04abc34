import { join } from "node:path";
import { systemEnv } from "../../bus/env.ts";
import { openStore } from "../../storage/client.ts";
import { prepareVectorIndex } from "../../storage/postgres/vector-index.ts";
import { type StoreThread, startStoreThread } from "../../storage/start.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import type { Dialect } from "../../storage/store/dialect.ts";
import type { Store } from "../../storage/store/store.ts";
import { migratedDatabase, pgvectorDatabase, testDatabase } from "./postgres.ts";
import { copyMigrated } from "./sqlite-image.ts";
import { type Cleanup, tempDir } from "./temp.ts";

/** Both engines: a suite of the store, and of code that relies on its promises after a crash, runs on each of them. */
export const dialects: readonly Dialect[] = ["sqlite", "postgres"];

/** The engines of the other suites: SQLite, and for `npm run test:long` Postgres. */
export const gateDialects: readonly Dialect[] = process.env.SVC_TEST_DIALECT === "postgres" ? ["postgres"] : ["sqlite"];

/**
 * A store as the server runs it: its own database at the newest revision, the store thread, and a client's connection
 * to it.
 */
export interface TestStore {
  readonly config: StoreConfig;
  readonly thread: StoreThread;
  readonly store: Store;
  /** Another thread's store, over its own port. */
  another(): Store;
}

/** An empty database of one engine, removed after the suite. */
export async function emptyDatabase(dialect: Dialect, atEnd: Cleanup): Promise<StoreConfig & { real: boolean }> {
  if (dialect === "sqlite") return { engine: "sqlite", path: join(tempDir(atEnd), "svc.db"), real: true };
  const { config, real } = await testDatabase(atEnd);
  return { engine: "postgres", postgres: config, real };
}

/** A store of one engine at the newest revision; everything is closed and removed after the suite. */
export async function testStore(dialect: Dialect, atEnd: Cleanup): Promise<TestStore> {
  return runStore(await newestDatabase(dialect, atEnd), atEnd);
}

/** A store of one engine that compares vectors of `dimensions`. */
export async function vectorStore(dialect: Dialect, dimensions: number, atEnd: Cleanup): Promise<TestStore> {
  if (dialect === "sqlite") return testStore(dialect, atEnd);
  const { config } = await pgvectorDatabase(atEnd);
  await prepareVectorIndex(config, dimensions);
  return runStore({ engine: "postgres", postgres: config }, atEnd);
}

/** A database of one engine at the newest revision, removed after the suite. */
async function newestDatabase(dialect: Dialect, atEnd: Cleanup): Promise<StoreConfig> {
  if (dialect === "postgres") return { engine: "postgres", postgres: (await migratedDatabase(atEnd)).config };
  const path = join(tempDir(atEnd), "svc.db");
  await copyMigrated(path);
  return { engine: "sqlite", path };
}

/** The store thread and a client on an existing database. */
export async function runStore(config: StoreConfig, atEnd: Cleanup): Promise<TestStore> {
  const thread = startStoreThread(config);
  const opened: Store[] = [];
  const another = (): Store => {
    const store = openStore(systemEnv(), config, thread.attach());
    opened.push(store);
    return store;
  };
  atEnd.after(async () => {
    for (const store of opened) store.close();
    await thread.close();
  });
  await thread.ready;
  return { config, thread, store: another(), another };
}
