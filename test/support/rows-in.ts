import Database from "better-sqlite3";
import type { StoreConfig } from "../../storage/store/config.ts";
import { onServer } from "./postgres-server.ts";

/** Changes rows of a database without the store. Returns the number of changed rows. Parameters are question marks. */
export async function changeIn(
  config: StoreConfig,
  statement: string,
  ...values: (string | number)[]
): Promise<number> {
  if (config.engine === "postgres") {
    let count = 0;
    const numbered = statement.replace(/\?/g, () => `$${++count}`);
    return onServer(config.postgres.url, async (client) => (await client.query(numbered, values)).rowCount ?? 0);
  }
  const db = new Database(config.path, { timeout: 10_000 });
  try {
    return db.prepare(statement).run(...values).changes;
  } finally {
    db.close();
  }
}

/** Reads rows of a database without the store. */
export async function rowsIn(config: StoreConfig, query: string): Promise<Record<string, unknown>[]> {
  if (config.engine === "postgres")
    return onServer(config.postgres.url, async (client) => (await client.query(query)).rows);
  const db = new Database(config.path, { readonly: true, timeout: 10_000 });
  try {
    return db.prepare<[], Record<string, unknown>>(query).all();
  } finally {
    db.close();
  }
}
