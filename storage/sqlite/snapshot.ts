import { existsSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { databaseName } from "../backup/contents.ts";
import { type DatabaseSnapshot, type KeptObject, objectTables } from "../backup/database.ts";
import { savedFile } from "../backup/saved-file.ts";
import { holdMs, holdsOfObjects } from "../store/object-hold.ts";
import { makePrivate } from "./private-files.ts";

/** Pages per step of a copy; the process does other work between the steps. */
const pagesAtOnce = 2_048;
const objectsAtOnce = 1_000;
const busyMs = 30_000;

/**
 * Takes a snapshot of a database that a server may use. An open read transaction excludes later writes and prevents a
 * restart of the copy. The write-ahead log grows until `close`. Throws if there is no database.
 */
export async function openSqliteSnapshot(path: string, id: string): Promise<DatabaseSnapshot> {
  if (!existsSync(path)) throw new Error(`${path} does not exist: there is nothing to back up.`);
  const writer = new Database(path, { timeout: busyMs, fileMustExist: true });
  const holdKey = holdsOfObjects.prefix + id;
  const setHold = () =>
    writer
      .prepare(
        `INSERT INTO kv (tenant_id, key, value, version, expires_at)
         VALUES (?, ?, 'backup', 1, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?)
         ON CONFLICT (tenant_id, key) DO UPDATE SET expires_at = excluded.expires_at`,
      )
      .run(holdsOfObjects.tenant_id, holdKey, holdMs);
  let reader: Database.Database;
  try {
    if (writer.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'kv'").get() === undefined)
      throw new Error(`${path} has no schema: there is nothing to back up.`);
    // Before the snapshot, so that objects deleted from now on are still there when it is taken.
    setHold();
    reader = new Database(path, { readonly: true, timeout: busyMs });
  } catch (error) {
    writer.close();
    throw error;
  }
  reader.exec("BEGIN");
  const names = reader
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all();
  const revisions = reader.prepare<[], string>("SELECT revision FROM schema_revisions ORDER BY revision").pluck().all();

  return {
    async save(directory) {
      makePrivate(join(directory, databaseName));
      await reader.backup(join(directory, databaseName), { progress: () => pagesAtOnce });
      const tables = names.map((name) => ({ name, rows: countRows(reader, name) }));
      return { engine: "sqlite", revisions, tables, database: await savedFile(directory, databaseName) };
    },
    async *keptObjects() {
      // A table is absent until its migration has run.
      for (const { query } of objectTables.filter(({ table }) => names.includes(table))) {
        const page = reader.prepare<[string, string, number], KeptObject>(query(["?", "?"], "?"));
        let last: Pick<KeptObject, "tenant_id" | "id"> | undefined = { tenant_id: "", id: "" };
        while (last !== undefined) {
          const objects: KeptObject[] = page.all(last.tenant_id, last.id, objectsAtOnce);
          if (objects.length > 0) yield objects;
          last = objects.length < objectsAtOnce ? undefined : objects.at(-1);
        }
      }
    },
    async hold() {
      setHold();
    },
    async close() {
      reader.close();
      writer.prepare("DELETE FROM kv WHERE tenant_id = ? AND key = ?").run(holdsOfObjects.tenant_id, holdKey);
      writer.close();
    },
  };
}

/** Returns the number of rows of a table. */
export function countRows(db: Database.Database, table: string): number {
  return (
    db
      .prepare<[], number>(`SELECT COUNT(*) FROM "${table.replaceAll('"', '""')}"`)
      .pluck()
      .get() ?? 0
  );
}
