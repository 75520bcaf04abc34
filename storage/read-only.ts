import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { openPool } from "./postgres/pool.ts";
import { SqliteReader } from "./sqlite/reader.ts";
import type { StoreConfig } from "./store/config.ts";
import { createStore, type Store } from "./store/store.ts";

/** Opens a store for reading only, also while a server uses it. Writes are refused. */
export function openReadOnly(config: StoreConfig, env: Env): Store {
  const write = () => Promise.reject(new SvcError("storage_unavailable", { subject: "read_only" }));
  const only = { inOrder: true, write, check: async () => {} };
  if (config.engine === "sqlite") {
    const reader = new SqliteReader(config.path);
    return createStore({
      ...only,
      read: async (statement, params) => reader.read(statement, params),
      close: () => reader.close(),
    });
  }
  const pool = openPool({ ...config.postgres, poolSize: 1, maxOverflow: 1 }, env);
  return createStore({
    ...only,
    async read({ name, text }, params) {
      const [rows] = await pool.run([{ key: name, text: text.postgres, params }]);
      return rows ?? [];
    },
    close: () => void pool.close(),
  });
}
