import type { StoreConfig } from "./store/config.ts";

/** Returns the version of the extension with which a database compares vectors; null if it has none. Changes nothing. */
export async function vectorExtension(config: StoreConfig): Promise<string | null> {
  if (config.engine === "sqlite") {
    const { default: Database } = await import("better-sqlite3");
    const { loadVectorFunctions } = await import("./sqlite/vector-functions.ts");
    const db = new Database(":memory:");
    try {
      loadVectorFunctions(db);
      return `sqlite-vec ${db.prepare("SELECT vec_version()").pluck().get()}`;
    } catch {
      return null;
    } finally {
      db.close();
    }
  }
  const { connectToSchema } = await import("./postgres/connection.ts");
  const client = await connectToSchema(config.postgres);
  try {
    const { rows } = await client.query<{ version: string }>(
      "SELECT extversion AS version FROM pg_extension WHERE extname = 'vector'",
    );
    return rows[0] === undefined ? null : `pgvector ${rows[0].version}`;
  } finally {
    await client.end();
  }
}
