import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, selectOne, table, text } from "../store/table.ts";

// What the model calls of an agent have in common: its system text, its tools, what its answers have to be like. It is the manifest's own
// text and nobody's words, is kept once for each tenant, and goes when no call on record was made with it.

const frameTable = table("model_frames", {
  /** SHA-256 of the body, hexadecimal. */
  digest: text,
  body: text,
  /** By the store's clock, when somebody last said that it is in use. */
  touched_at: integer,
});

/** So long after somebody has said that a frame is in use calls may be on their way that no record names yet. */
const graceMs = 24 * 3_600_000;

const keepFrame = tenantSql(
  "model_frame_keep",
  `INSERT INTO model_frames (tenant_id, digest, body, touched_at) VALUES (:tenant, ?, ?, :now)
   ON CONFLICT (tenant_id, digest) DO UPDATE SET touched_at = excluded.touched_at`,
);
const deleteUnused = systemSql(
  "model_frames_delete_unused",
  `DELETE FROM model_frames WHERE (tenant_id, digest) IN
     (SELECT f.tenant_id, f.digest FROM model_frames f WHERE f.touched_at <= :now - ${graceMs}
        AND NOT EXISTS (SELECT 1 FROM model_calls c WHERE c.tenant_id = f.tenant_id AND c.frame = f.digest) LIMIT ?)
   RETURNING digest`,
);

/** Keeps a frame, or says that it is in use. */
export function keepFrameOp(store: TenantStore, digest: string, body: string): WriteOp {
  return store.op(keepFrame, [digest, body]);
}

/** A frame by its digest. */
export const frameByDigest = selectOne(frameTable, ["digest"]);

/** Deletes at most `limit` frames that no call on record was made with; answers how many. */
export async function deleteUnusedFrames(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteUnused, [limit])]);
  return rows?.length ?? 0;
}
