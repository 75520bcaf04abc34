import type { MessagePort } from "node:worker_threads";
import type { Env } from "../bus/env.ts";
import type { StoreConfig } from "./config.ts";
import { StorePort } from "./port.ts";
import { LongReads } from "./sqlite/long-reads.ts";
import { SqliteReader } from "./sqlite/reader.ts";
import { createStore, type Store } from "./store.ts";

/**
 * A thread's own store over its port to the store thread. Writes always go there; on SQLite reads are made here, on a connection
 * of this thread, the long ones in a pool of threads, and on Postgres they go there too. It is not to be used after `close`.
 */
export function openStore(env: Env, config: StoreConfig, port: MessagePort): Store {
  const remote = new StorePort(env, port);
  if (config.engine === "postgres") return createStore(remote);

  const reader = new SqliteReader(config.path);
  const longReads = new LongReads(config.path);
  return createStore({
    inOrder: true,
    write: (ops) => remote.write(ops),
    read: async (statement, params) => reader.read(statement, params),
    readLong: (statement, params) => longReads.read(statement, params),
    check: () => remote.check(),
    close() {
      remote.close();
      reader.close();
      longReads.close();
    },
  });
}
