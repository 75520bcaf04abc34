import { migrations } from "../migrations/list.ts";
import type { Migration } from "../store/migration.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

const countTables = systemSql("schema_revisions_tables", {
  sqlite: "SELECT COUNT(*) AS tables FROM sqlite_schema WHERE name = 'schema_revisions'",
  postgres: "SELECT COUNT(*) AS tables FROM pg_class WHERE oid = to_regclass('schema_revisions')",
});
const selectRevisions = systemSql("schema_revisions", "SELECT revision, applied_at FROM schema_revisions");

/**
 * Times at which the revisions were applied, in epoch milliseconds, by revision; empty for a database without a schema.
 */
export type AppliedRevisions = ReadonlyMap<string, number>;

/** Reads the applied revisions. */
export async function appliedRevisions(store: Scope): Promise<AppliedRevisions> {
  const [found] = await store.read(countTables);
  const rows = found?.tables === 0 ? [] : await store.read(selectRevisions);
  return new Map(rows.map(({ revision, applied_at }) => [String(revision), Number(applied_at)]));
}

/** True if the database of an open store lacks a needed revision. */
export async function isSchemaBehind(store: Scope, needed: readonly Migration[] = migrations): Promise<boolean> {
  const applied = await appliedRevisions(store);
  return needed.some(({ revision }) => !applied.has(revision));
}

/** True if a revision was undone since `before` was read, whether or not it was applied again. */
export function wentBack(before: AppliedRevisions, now: AppliedRevisions): boolean {
  return [...before].some(([revision, at]) => now.get(revision) !== at);
}
