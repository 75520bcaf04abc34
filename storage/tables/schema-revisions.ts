import { migrations } from "../migrations/list.ts";
import type { Migration } from "../store/migration.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

const countTables = systemSql("schema_revisions_tables", {
  sqlite: "SELECT COUNT(*) AS tables FROM sqlite_schema WHERE name = 'schema_revisions'",
  postgres: "SELECT COUNT(*) AS tables FROM pg_class WHERE oid = to_regclass('schema_revisions')",
});
const selectRevisions = systemSql("schema_revisions", "SELECT revision FROM schema_revisions");

/** Whether the database of an open store lacks a revision that is needed. */
export async function isSchemaBehind(store: Scope, needed: readonly Migration[] = migrations): Promise<boolean> {
  const [found] = await store.read(countTables);
  const rows = found?.tables === 0 ? [] : await store.read(selectRevisions);
  const applied = new Set(rows.map((row) => row.revision));
  return needed.some(({ revision }) => !applied.has(revision));
}
