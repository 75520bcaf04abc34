import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, type RowIn, selectOne, table, text, upsertInto } from "../store/table.ts";

const summaryColumns = {
  name: text,
  version: integer,
  digest: text,
  created_at: integer,
  created_by: text,
  comment: text,
};
const versionTable = table("manifest_versions", {
  ...summaryColumns,
  /** JSON as the client sent it. */
  manifest: text,
});
const summaryTable = table("manifest_versions", summaryColumns);
const pointerTable = table("manifest_pointers", {
  name: text,
  version: integer,
  canary_version: nullable(integer),
  /** 0 to 100. */
  canary_weight: integer,
  updated_at: integer,
  updated_by: text,
});

/** One stored version of a tenant's manifest. The versions of a name count up from 1 and never change. */
export type ManifestVersionRow = RowIn<typeof versionTable>;

/** The active version, and the share of threads that get the canary. */
export type ManifestPointerRow = RowIn<typeof pointerTable>;

const selectPointers = tenantSql(
  "manifest_pointers",
  `SELECT ${pointerTable.columns} FROM manifest_pointers WHERE tenant_id = :tenant ORDER BY name`,
);
const selectVersions = tenantSql(
  "manifest_versions",
  `SELECT ${summaryTable.columns} FROM manifest_versions WHERE tenant_id = :tenant AND name = ? AND version < ?
   ORDER BY version DESC LIMIT ?`,
);

// Matches the JSON with or without a space; inside a string the quotes would be escaped.
const selectExpectingAnonymous = systemSql(
  "manifests_expecting_anonymous",
  `SELECT tenant_id, name FROM manifest_pointers AS pointer WHERE EXISTS (
     SELECT 1 FROM manifest_versions AS version
     WHERE version.tenant_id = pointer.tenant_id AND version.name = pointer.name AND version.version = pointer.version
       AND (version.manifest LIKE '%"allow_anonymous":true%' OR version.manifest LIKE '%"allow_anonymous": true%'))
   ORDER BY tenant_id, name LIMIT ?`,
);
const selectChanges = systemSql("manifest_changes", "SELECT value FROM counters WHERE name = 'manifest_changes'");
const countChange = systemSql(
  "manifest_changes_count",
  "UPDATE counters SET value = value + 1 WHERE name = 'manifest_changes'",
);

/** Returns the active versions of a manifest, if the tenant has stored it. */
export const manifestPointer = selectOne(pointerTable, ["name"]);

/** Returns the active versions of all manifests of the tenant. */
export async function manifestPointers(store: TenantStore): Promise<ManifestPointerRow[]> {
  return (await store.read(selectPointers)).map(pointerTable.decode);
}

/** Returns one stored version. */
export const manifestVersion = selectOne(versionTable, ["name", "version"]);

/**
 * Returns versions below `before`, newest first, without the manifests, because a page of those could be hundreds of
 * megabytes.
 */
export async function manifestVersions(
  store: TenantStore,
  name: string,
  before: number,
  limit: number,
): Promise<RowIn<typeof summaryTable>[]> {
  return (await store.read(selectVersions, name, before, limit)).map(summaryTable.decode);
}

/** Inserts a version. Refuses with conflict if it exists. */
export const insertManifestVersionOp = insertInto(versionTable);

/** Sets the active versions. Use in one batch with `countManifestChangeOp`. */
export const setManifestPointerOp = upsertInto(pointerTable, ["name"]);

/** Invalidates the cached manifests of all processes by counting a change. */
export function countManifestChangeOp(store: Scope): WriteOp {
  return store.op(countChange, [], 1);
}

/** Returns the manifests of all tenants whose active version admits callers without credentials. */
export async function manifestsExpectingAnonymous(
  store: Scope,
  limit: number,
): Promise<{ tenant_id: string; name: string }[]> {
  return (await store.readLong(selectExpectingAnonymous, limit)) as { tenant_id: string; name: string }[];
}

/** Returns a number that changes whenever an active version of any tenant changes. */
export async function manifestChanges(store: Scope): Promise<number> {
  const [row] = await store.read(selectChanges);
  return (row?.value as number | undefined) ?? 0;
}
