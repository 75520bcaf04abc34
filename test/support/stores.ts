import { join } from "node:path";
import { systemEnv } from "../../bus/env.ts";
import { openStore } from "../../storage/client.ts";
import { migrate } from "../../storage/migrate.ts";
import { type StoreThread, startStoreThread } from "../../storage/start.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import type { Dialect } from "../../storage/store/dialect.ts";
import type { Store } from "../../storage/store/store.ts";
import { testDatabase } from "./postgres.ts";
import { type Cleanup, tempDir } from "./temp.ts";

/** Both engines: a suite of the store is run over each of them. */
export const dialects: readonly Dialect[] = ["sqlite", "postgres"];

/** A store as the server runs it: its own database at the newest revision, the store thread, and a client's connection to it. */
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
  const config = await emptyDatabase(dialect, atEnd);
  await migrate(config, { target: "head", downgrade: false });
  return runStore(config, atEnd);
}

/** The store thread and a client on a database that is there already. */
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
