import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, selectOne, table, text } from "../store/table.ts";

// The manifests that durable runs were accepted with, stored once per tenant and digest. A run resumes with the stored
// one even if the manifest changes (decision 101). They count against no quota, and are deleted some time after the
// last run that refers to them.

const bodyTable = table("manifest_bodies", {
  /** SHA-256 of the body. */
  digest: text,
  /** Time of the last store. */
  kept_at: integer,
  body: text,
});

/** A stored body. */
export type ManifestBodyRow = RowIn<typeof bodyTable>;

/** Min lifetime of an unreferenced body, so that a run that is being accepted still finds it. */
const graceMs = 3_600_000;
/** Time after a store during which the caller may rely on the body; well below the min lifetime. */
export const keptMs = 600_000;

const keepBody = tenantSql(
  "manifest_body_keep",
  `INSERT INTO manifest_bodies (tenant_id, ${bodyTable.columns}) VALUES (:tenant, ?, :now, ?)
   ON CONFLICT (tenant_id, digest) DO UPDATE SET kept_at = excluded.kept_at`,
);
const deleteUnused = systemSql(
  "manifest_bodies_delete_unused",
  // The outer condition repeats the time, so that a body that is stored again at the same moment stays.
  `DELETE FROM manifest_bodies WHERE kept_at <= :now - ${graceMs} AND (tenant_id, digest) IN
     (SELECT b.tenant_id, b.digest FROM manifest_bodies b WHERE b.kept_at <= :now - ${graceMs} AND NOT EXISTS
       (SELECT 1 FROM fibers f WHERE f.tenant_id = b.tenant_id AND f.manifest_body = b.digest) AND NOT EXISTS
       (SELECT 1 FROM eval_runs e WHERE e.tenant_id = b.tenant_id AND e.status = 'in_progress' AND e.body = b.digest) LIMIT ?)
   RETURNING digest`,
);

/** Returns a body of a tenant by its digest. */
export const manifestBody = selectOne(bodyTable, ["digest"]);

/** Stores a body, or renews the time of an existing one. */
export function keepBodyOp(store: TenantStore, { digest, body }: Pick<ManifestBodyRow, "digest" | "body">): WriteOp {
  return store.op(keepBody, [digest, body]);
}

/** Deletes up to `limit` bodies that no run refers to. Returns their number. */
export async function deleteUnusedBodies(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteUnused, [limit])]);
  return rows?.length ?? 0;
}
