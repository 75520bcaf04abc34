import { migrations } from "./migrations/list.ts";
import { systemSql } from "./statements.ts";
import type { Scope } from "./store.ts";

const selectRevisions = systemSql("schema_revisions", "SELECT revision FROM schema_revisions");

/** Whether the database of an open store lacks a revision that this version needs. Refuses with storage_unavailable when it has none. */
export async function isSchemaBehind(store: Scope): Promise<boolean> {
  const rows = await store.read(selectRevisions);
  const applied = new Set(rows.map((row) => row.revision));
  return migrations.some(({ revision }) => !applied.has(revision));
}
