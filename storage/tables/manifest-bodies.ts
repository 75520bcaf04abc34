import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, selectOne, table, text } from "../store/table.ts";

// What a durable run was accepted with, kept once for each tenant and digest: a run goes on by it whatever becomes of the manifest
// meanwhile (decision 101). It counts into no quota, and goes some time after the last run that refers to it.

const bodyTable = table("manifest_bodies", {
  /** SHA-256 of the body. */
  digest: text,
  /** When it was kept last. */
  kept_at: integer,
  body: text,
});

/** A body as it is stored. */
export type ManifestBodyRow = RowIn<typeof bodyTable>;

/** A body that no run refers to is there for this long, so that one which is just being accepted finds it. */
const graceMs = 3_600_000;
/** Whoever has kept a body may rely on it for this long: well within its grace. */
export const keptMs = 600_000;

const keepBody = tenantSql(
  "manifest_body_keep",
  `INSERT INTO manifest_bodies (tenant_id, ${bodyTable.columns}) VALUES (:tenant, ?, :now, ?)
   ON CONFLICT (tenant_id, digest) DO UPDATE SET kept_at = excluded.kept_at`,
);
const deleteUnused = systemSql(
  "manifest_bodies_delete_unused",
  // The time is asked for twice: one that was kept again meanwhile stays.
  `DELETE FROM manifest_bodies WHERE kept_at <= :now - ${graceMs} AND (tenant_id, digest) IN
     (SELECT b.tenant_id, b.digest FROM manifest_bodies b WHERE b.kept_at <= :now - ${graceMs} AND NOT EXISTS
       (SELECT 1 FROM fibers f WHERE f.tenant_id = b.tenant_id AND f.manifest_body = b.digest) LIMIT ?)
   RETURNING digest`,
);

/** A body of a tenant by its digest. */
export const manifestBody = selectOne(bodyTable, ["digest"]);

/** Keeps a body; one that is there stays. */
export function keepBodyOp(store: TenantStore, { digest, body }: Pick<ManifestBodyRow, "digest" | "body">): WriteOp {
  return store.op(keepBody, [digest, body]);
}

/** Deletes at most `limit` bodies that no run refers to; answers how many. */
export async function deleteUnusedBodies(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteUnused, [limit])]);
  return rows?.length ?? 0;
}
