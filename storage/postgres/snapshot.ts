import type { Client } from "pg";
import type { SavedTable } from "../backup/contents.ts";
import { type DatabaseSnapshot, type KeptObject, objectTables } from "../backup/database.ts";
import { FileBeingSaved } from "../backup/saved-file.ts";
import type { PostgresConfig } from "../store/config.ts";
import { holdMs, holdsOfObjects } from "../store/object-hold.ts";
import { connectToSchema } from "./connection.ts";

/** Rows that are held in memory at once. */
const rowsAtOnce = 200;
const objectsAtOnce = 1_000;

/**
 * Takes a snapshot of a schema that a server may use: one transaction that sees the state at its start. The database
 * renders each row as a line of JSON, so that every value is restored unchanged.
 */
export async function openPostgresSnapshot(config: PostgresConfig, id: string): Promise<DatabaseSnapshot> {
  const writer = await connectToSchema(config);
  const reader = await connectToSchema(config).catch(async (error: unknown) => {
    await writer.end();
    throw error;
  });
  const holdKey = holdsOfObjects.prefix + id;
  const hold = async (): Promise<void> => {
    await writer.query(
      `INSERT INTO kv (tenant_id, key, value, version, expires_at)
       VALUES ($1, $2, 'backup', 1, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) + $3)
       ON CONFLICT (tenant_id, key) DO UPDATE SET expires_at = excluded.expires_at`,
      [holdsOfObjects.tenant_id, holdKey, holdMs],
    );
  };
  const close = async (): Promise<void> => {
    await reader.end().catch(() => {});
    await writer
      .query("DELETE FROM kv WHERE tenant_id = $1 AND key = $2", [holdsOfObjects.tenant_id, holdKey])
      .catch(() => {});
    await writer.end().catch(() => {});
  };
  try {
    const { rows } = await writer.query("SELECT to_regclass('kv') AS name");
    if (rows[0].name === null) throw new Error("the schema is empty: there is nothing to back up.");
    // Before the snapshot, so that objects deleted from now on are still there when it is taken.
    await hold();
    await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    // The first statement takes the snapshot; it lasts while objects are copied.
    await reader.query(patience);
  } catch (error) {
    await close();
    throw error;
  }

  async function saveTable(directory: string, name: string): Promise<SavedTable> {
    const file = await FileBeingSaved.create(directory, `tables/${name}.jsonl`);
    let rows = 0;
    try {
      await reader.query(
        `DECLARE saved NO SCROLL CURSOR FOR SELECT row_to_json(t)::text AS line FROM ${quoted(name)} t`,
      );
      for (;;) {
        const { rows: page } = await reader.query<{ line: string }>(`FETCH ${rowsAtOnce} FROM saved`);
        if (page.length === 0) break;
        rows += page.length;
        await file.write(Buffer.from(page.map(({ line }) => `${line}\n`).join("")));
      }
      await reader.query("CLOSE saved");
    } catch (error) {
      await file.close().catch(() => {});
      throw error;
    }
    return { name, rows, file: await file.close() };
  }

  return {
    async save(directory) {
      const tables: SavedTable[] = [];
      for (const name of await tablesOf(reader)) tables.push(await saveTable(directory, name));
      const { rows: applied } = await reader.query<{ revision: string }>(
        "SELECT revision FROM schema_revisions ORDER BY revision",
      );
      const revisions = applied.map(({ revision }) => revision);
      return { engine: "postgres", revisions, tables, sequences: await sequencesOf(reader) };
    },
    async *keptObjects() {
      // A table is absent until its migration has run.
      const names = await tablesOf(reader);
      for (const { query } of objectTables.filter(({ table }) => names.includes(table))) {
        let last: Pick<KeptObject, "tenant_id" | "id"> | undefined = { tenant_id: "", id: "" };
        while (last !== undefined) {
          const { rows }: { rows: KeptObject[] } = await reader.query<KeptObject>(
            query(["$1", "$2"], String(objectsAtOnce)),
            [last.tenant_id, last.id],
          );
          if (rows.length > 0) yield rows;
          last = rows.length < objectsAtOnce ? undefined : rows.at(-1);
        }
      }
    },
    hold,
    close,
  };
}

/** Removes the time limits on statements and idle times of the transaction. */
export const patience =
  "SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)";

/** Returns the tables of the schema. */
export async function tablesOf(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
  );
  return rows.map(({ name }) => name);
}

/** Returns a name quoted for SQL. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

async function sequencesOf(client: Client): Promise<Record<string, string>> {
  const { rows } = await client.query<{ name: string; last: string | null }>(
    "SELECT sequencename AS name, last_value::text AS last FROM pg_sequences WHERE schemaname = current_schema()",
  );
  return Object.fromEntries(rows.flatMap(({ name, last }) => (last === null ? [] : [[name, last]])));
}
