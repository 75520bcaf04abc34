import type { Client } from "pg";
import type { PostgresConfig } from "../store/config.ts";
import { indexedDimensionsMax } from "../tables/vectors.ts";
import { connectToSchema } from "./connection.ts";

/**
 * Creates the extension pgvector and the index of vectors with these dimensions, as far as the server and the role allow
 * it. Without the extension vectors are off; without the index every search is exact.
 */
export async function prepareVectorIndex(config: PostgresConfig, dimensions: number): Promise<void> {
  const client = await connectToSchema(config);
  try {
    await attempt(client, "CREATE EXTENSION IF NOT EXISTS vector");
    const { rows } = await client.query(
      "SELECT to_regtype('vector') IS NOT NULL AND to_regclass('vectors') IS NOT NULL AS is_there",
    );
    if (!rows[0].is_there || dimensions > indexedDimensionsMax) return;
    await attempt(client, "SELECT set_config('statement_timeout', '0', false)");
    await attempt(
      client,
      `CREATE INDEX IF NOT EXISTS vectors_near_${dimensions} ON vectors
       USING hnsw ((CAST(embedding AS vector(${dimensions}))) vector_cosine_ops) WHERE dimensions = ${dimensions}`,
    );
  } finally {
    await client.end();
  }
}

/** Another host may create the same object at this moment, and the role may lack the right. */
async function attempt(client: Client, text: string): Promise<void> {
  await client.query(text).catch(() => {});
}
