import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import type { MovedRow, MoveSource, SourceTable } from "../move/parts.ts";

/** Opens a database to read all of its rows. Throws if it does not exist. */
export function openRowsOut(path: string): MoveSource {
  if (!existsSync(path)) throw new Error(`${path} does not exist: there is nothing to move.`);
  const db = new Database(path, { readonly: true, fileMustExist: true });
  // Without full-text indexes: they are virtual tables, and the target is indexed again at the end.
  const names = db
    .prepare<[], string>(
      "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all();
  return {
    revisions: () =>
      names.includes("schema_revisions")
        ? db.prepare<[], string>("SELECT revision FROM schema_revisions ORDER BY revision").pluck().all()
        : [],
    tables: () => names.map((name) => tableOf(db, name)),
    rows: ({ name, columns, key }, after) => {
      const list = (words: readonly string[]) => words.map(quoted).join(", ");
      const places = key.map(() => "?").join(", ");
      const where = after === null ? "" : ` WHERE (${list(key)}) > (${places})`;
      const statement = db.prepare<(string | bigint | number | null)[], MovedRow>(
        `SELECT ${list(columns)} FROM ${quoted(name)}${where} ORDER BY ${list(key)}`,
      );
      return statement
        .raw()
        .safeIntegers()
        .iterate(...(after ?? []));
    },
    close: () => db.close(),
  };
}

function tableOf(db: Database.Database, name: string): SourceTable {
  const found = db
    .prepare<[string], { name: string; pk: number }>("SELECT name, pk FROM pragma_table_info(?)")
    .all(name);
  const ordered = found.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
  if (ordered.length === 0) throw new Error(`the table ${name} has no primary key`);
  return { name, columns: found.map((column) => column.name), key: ordered.map((column) => column.name) };
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
