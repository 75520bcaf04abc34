import { mayDeleteObjects } from "../store/object-hold.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";

// Artifacts: long tool results, whose text is in the object store. As for files, a row is inserted before its text is stored and
// deleted after it. Its state is `draft` while the text is being stored, then `kept`, and `gone` until the text is deleted.
//
// An artifact is deleted with its thread, unless a fork still shows it. The fork then owns it. An artifact of a run without a
// thread stays a draft, which only that run reads and deletes.

const artifactTable = table(
  "artifacts",
  {
    artifact_id: text,
    /** The agent whose call had the result. */
    manifest: text,
    tool: text,
    /** Where untrusted text came from, as of the result; a read has it again (decision 114). */
    taint: json<readonly string[]>(),
    /** UTF-16 code units of the text. */
    chars: integer,
    size_bytes: integer,
    created_at: integer,
    state: oneOf("draft", "kept", "gone"),
    /** The thread that owns the artifact; null for a run without a thread. */
    thread_key: nullable(integer),
  },
  ({ text: tool, threadKey: thread_key }) => ({
    ...({ artifact_id: "row", manifest: "m", tool, taint: [tool], chars: 5, size_bytes: 5, created_at: 5 } as const),
    ...({ state: "kept", thread_key } as const),
  }),
);

/** A stored artifact. */
export type ArtifactRow = RowIn<typeof artifactTable>;

/** An artifact whose text must be deleted, or was never stored. */
export type DroppedArtifact = Pick<ArtifactRow, "artifact_id" | "manifest" | "size_bytes"> & {
  readonly tenant_id: string;
};

/** Position after a page of artifacts to delete. */
export type DroppedArtifactCursor = Pick<DroppedArtifact, "tenant_id" | "artifact_id"> & {
  readonly created_at: number;
};

const insertArtifact = insertInto(artifactTable);
const keepArtifact = tenantSql(
  "artifact_keep",
  "UPDATE artifacts SET state = 'kept' WHERE tenant_id = :tenant AND artifact_id = ? AND state = 'draft'",
);
const selectArtifact = tenantSql(
  "artifact_of_manifest",
  `SELECT ${artifactTable.columns} FROM artifacts
   WHERE tenant_id = :tenant AND artifact_id = ? AND manifest = ? AND state = 'kept'`,
);
const selectOfThread = tenantSql(
  "artifact_of_thread",
  `SELECT ${artifactTable.columns} FROM artifacts
   WHERE tenant_id = :tenant AND artifact_id = ? AND state = 'kept' AND (thread_key = ? OR EXISTS
     (SELECT 1 FROM artifact_shares s WHERE s.tenant_id = :tenant AND s.thread_key = ? AND s.artifact_id = artifacts.artifact_id))`,
);
const shareArtifact = tenantSql(
  "artifact_share",
  `INSERT INTO artifact_shares (tenant_id, thread_key, artifact_id)
   SELECT :tenant, CAST(? AS BIGINT), artifact_id FROM artifacts
   WHERE tenant_id = :tenant AND artifact_id = ? AND state = 'kept' AND (thread_key = ? OR EXISTS
     (SELECT 1 FROM artifact_shares s WHERE s.tenant_id = :tenant AND s.thread_key = ? AND s.artifact_id = artifacts.artifact_id))
   ON CONFLICT DO NOTHING`,
);
/** Locks the tenant's shares, so that sharing and dropping artifacts wait for each other and see each other's result. */
const lockShares = tenantSql(
  "artifact_shares_lock",
  "UPDATE stored_bytes SET bytes = bytes WHERE tenant_id = :tenant AND kind = 'artifacts'",
);
const unshareOfThread = tenantSql(
  "artifact_shares_delete",
  "DELETE FROM artifact_shares WHERE tenant_id = :tenant AND thread_key = ?",
);
const passOn = tenantSql(
  "artifacts_pass_on",
  `UPDATE artifacts SET thread_key =
     (SELECT MIN(s.thread_key) FROM artifact_shares s WHERE s.tenant_id = :tenant AND s.artifact_id = artifacts.artifact_id)
   WHERE tenant_id = :tenant AND thread_key = ? AND state = 'kept' AND EXISTS
     (SELECT 1 FROM artifact_shares s WHERE s.tenant_id = :tenant AND s.artifact_id = artifacts.artifact_id)`,
);
const dropOfThread = tenantSql(
  "artifacts_drop_of_thread",
  "UPDATE artifacts SET state = 'gone' WHERE tenant_id = :tenant AND thread_key = ?",
);
const deleteArtifact = tenantSql(
  "artifact_delete",
  "DELETE FROM artifacts WHERE tenant_id = :tenant AND artifact_id = ? AND state <> 'kept'",
);
// Excludes all artifacts while a backup copies objects, because its snapshot may refer to them.
const selectDropped = systemSql(
  "artifacts_dropped",
  `SELECT tenant_id, artifact_id, manifest, size_bytes, created_at FROM artifacts
   WHERE state <> 'kept' AND (state = 'gone' OR created_at < ?) AND (created_at, tenant_id, artifact_id) > (?, ?, ?) AND ${mayDeleteObjects}
   ORDER BY created_at, tenant_id, artifact_id LIMIT ?`,
);
const selectGone = tenantSql(
  "artifacts_gone",
  `SELECT tenant_id, artifact_id, manifest, size_bytes FROM artifacts INDEXED BY artifacts_unkept
   WHERE tenant_id = :tenant AND state <> 'kept' AND state = 'gone' AND ${mayDeleteObjects} ORDER BY created_at LIMIT ?`,
);

/** Inserts the draft row of an artifact. */
export function draftArtifactOp(store: TenantStore, artifact: Omit<ArtifactRow, "state">): WriteOp {
  return insertArtifact(store, { ...artifact, state: "draft" });
}

/** Makes an artifact visible after its text is stored. Refuses with conflict if it was deleted before. */
export function keepArtifactOp(store: TenantStore, artifactId: string): WriteOp {
  return store.op(keepArtifact, [artifactId], 1);
}

/** Returns an artifact of a manifest. */
export async function artifactOfManifest(
  store: TenantStore,
  artifactId: string,
  manifest: string,
): Promise<ArtifactRow | undefined> {
  const [row] = await store.read(selectArtifact, artifactId, manifest);
  return row && artifactTable.decode(row);
}

/** Returns an artifact that a thread owns, or shows as a fork. */
export async function artifactOfThread(
  store: TenantStore,
  artifactId: string,
  threadKey: number,
): Promise<ArtifactRow | undefined> {
  const [row] = await store.read(selectOfThread, artifactId, threadKey, threadKey);
  return row && artifactTable.decode(row);
}

/** Lets a thread show artifacts that the thread `from` owns or shows. They stay as long as one of their threads exists. */
export function shareArtifactsOps(
  store: TenantStore,
  threadKey: number,
  from: number,
  artifactIds: readonly string[],
): WriteOp[] {
  if (artifactIds.length === 0) return [];
  return [store.op(lockShares, []), ...artifactIds.map((id) => store.op(shareArtifact, [threadKey, id, from, from]))];
}

/** Drops the artifacts of a thread that no other thread shows. */
export function dropArtifactsOfThreadOps(store: TenantStore, threadKey: number): WriteOp[] {
  return [
    store.op(lockShares, []),
    ...[unshareOfThread, passOn, dropOfThread].map((statement) => store.op(statement, [threadKey])),
  ];
}

/** Deletes the row after the text. Refuses with conflict if it is deleted already. */
export function deleteArtifactOp(store: TenantStore, artifactId: string): WriteOp {
  return store.op(deleteArtifact, [artifactId], 1);
}

/**
 * Returns artifacts of all tenants that are marked as deleted, and drafts from before a time, whose run has ended, in pages.
 * None while objects are held.
 */
export async function droppedArtifacts(
  store: Scope,
  draftsBefore: number,
  after: DroppedArtifactCursor | null,
  limit: number,
): Promise<(DroppedArtifact & DroppedArtifactCursor)[]> {
  const { created_at, tenant_id, artifact_id } = after ?? { created_at: -1, tenant_id: "", artifact_id: "" };
  const rows = await store.read(selectDropped, draftsBefore, created_at, tenant_id, artifact_id, limit);
  return rows as unknown as (DroppedArtifact & DroppedArtifactCursor)[];
}

/** Returns deleted artifacts of a tenant whose text may be deleted now. */
export async function goneArtifacts(store: TenantStore, limit: number): Promise<DroppedArtifact[]> {
  return (await store.read(selectGone, limit)) as unknown as DroppedArtifact[];
}
