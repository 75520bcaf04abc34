import { tenantSql } from "./statements.ts";
import type { TenantStore, WriteOp } from "./store.ts";

/** One stored version of a tenant's manifest; versions of a name count up from 1 and never change. */
export interface ManifestVersionRow {
  readonly name: string;
  readonly version: number;
  /** JSON as it was sent. */
  readonly manifest: string;
  readonly digest: string;
  readonly created_at: number;
  readonly created_by: string;
  readonly comment: string;
}

/** Which version answers, and which share of threads gets the canary. */
export interface ManifestPointerRow {
  readonly name: string;
  readonly version: number;
  readonly canary_version: number | null;
  /** 0 to 100. */
  readonly canary_weight: number;
  readonly updated_at: number;
  readonly updated_by: string;
}

const versionColumns = "name, version, manifest, digest, created_at, created_by, comment";
const pointerColumns = "name, version, canary_version, canary_weight, updated_at, updated_by";

const selectPointer = tenantSql(
  "manifest_pointer",
  `SELECT ${pointerColumns} FROM manifest_pointers WHERE tenant_id = :tenant AND name = ?`,
);
const selectPointers = tenantSql(
  "manifest_pointers",
  `SELECT ${pointerColumns} FROM manifest_pointers WHERE tenant_id = :tenant ORDER BY name`,
);
const selectVersion = tenantSql(
  "manifest_version",
  `SELECT ${versionColumns} FROM manifest_versions WHERE tenant_id = :tenant AND name = ? AND version = ?`,
);
const selectVersions = tenantSql(
  "manifest_versions",
  `SELECT name, version, digest, created_at, created_by, comment FROM manifest_versions WHERE tenant_id = :tenant AND name = ? AND version < ?
   ORDER BY version DESC LIMIT ?`,
);
const insertVersion = tenantSql(
  "manifest_version_insert",
  `INSERT INTO manifest_versions (tenant_id, ${versionColumns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?)`,
);
const upsertPointer = tenantSql(
  "manifest_pointer_upsert",
  `INSERT INTO manifest_pointers (tenant_id, ${pointerColumns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, name) DO UPDATE SET version = excluded.version, canary_version = excluded.canary_version,
     canary_weight = excluded.canary_weight, updated_at = excluded.updated_at, updated_by = excluded.updated_by`,
);

/** Which versions of a manifest are in effect, if the tenant has stored it. */
export async function manifestPointer(store: TenantStore, name: string): Promise<ManifestPointerRow | undefined> {
  const [row] = await store.read(selectPointer, name);
  return row as unknown as ManifestPointerRow | undefined;
}

/** The same for every manifest of the tenant. */
export async function manifestPointers(store: TenantStore): Promise<ManifestPointerRow[]> {
  return (await store.read(selectPointers)) as unknown as ManifestPointerRow[];
}

/** One stored version. */
export async function manifestVersion(
  store: TenantStore,
  name: string,
  version: number,
): Promise<ManifestVersionRow | undefined> {
  const [row] = await store.read(selectVersion, name, version);
  return row as unknown as ManifestVersionRow | undefined;
}

/** Versions below `before`, newest first, without the manifests themselves: a page of them could be hundreds of megabytes. */
export async function manifestVersions(
  store: TenantStore,
  name: string,
  before: number,
  limit: number,
): Promise<Omit<ManifestVersionRow, "manifest">[]> {
  return (await store.read(selectVersions, name, before, limit)) as unknown as Omit<ManifestVersionRow, "manifest">[];
}

/** Refuses with conflict when the version exists. */
export function insertManifestVersionOp(store: TenantStore, row: ManifestVersionRow): WriteOp {
  return store.op(insertVersion, [
    row.name,
    row.version,
    row.manifest,
    row.digest,
    row.created_at,
    row.created_by,
    row.comment,
  ]);
}

/** Puts other versions into effect, or the first. */
export function setManifestPointerOp(store: TenantStore, row: ManifestPointerRow): WriteOp {
  return store.op(upsertPointer, [
    row.name,
    row.version,
    row.canary_version,
    row.canary_weight,
    row.updated_at,
    row.updated_by,
  ]);
}
