import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, selectOne, table, text } from "../store/table.ts";

// Prompt prefixes: the system text, tools and reply schema that the model calls of an agent share. They come from the
// manifest and contain no user text. Each is stored once per tenant, and deleted when no context record refers to it.

const frameTable = table("model_frames", {
  /** SHA-256 of the body, in hexadecimal. */
  digest: text,
  body: text,
  /** Time of the last use, on the store's clock. */
  touched_at: integer,
});

/** Time after the last use during which calls may be in progress whose records do not exist yet. */
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

/** Stores a prompt prefix, or renews the time of an existing one. */
export function keepFrameOp(store: TenantStore, digest: string, body: string): WriteOp {
  return store.op(keepFrame, [digest, body]);
}

/** Returns a prompt prefix by its digest. */
export const frameByDigest = selectOne(frameTable, ["digest"]);

/** Deletes up to `limit` prompt prefixes that no context record refers to. Returns their number. */
export async function deleteUnusedFrames(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteUnused, [limit])]);
  return rows?.length ?? 0;
}
