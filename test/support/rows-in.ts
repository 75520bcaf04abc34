import Database from "better-sqlite3";
import type { StoreConfig } from "../../storage/store/config.ts";
import { onServer } from "./postgres-server.ts";

/** Reads rows of a database without the store. */
export async function rowsIn(config: StoreConfig, query: string): Promise<Record<string, unknown>[]> {
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) => (await client.query(query)).rows);
  const db = new Database(config.path, { readonly: true });
  try {
    return db.prepare<[], Record<string, unknown>>(query).all();
  } finally {
    db.close();
  }
}
