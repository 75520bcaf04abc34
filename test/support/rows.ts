import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { insertManifestVersionOp } from "../../storage/tables/manifests.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";

/** Rows that have nothing but a key: versions of a manifest. */
export function insertVersions(tenant: TenantStore, name: string, ...versions: number[]): WriteOp[] {
  return versions.map((version) =>
    insertManifestVersionOp(tenant, {
      name,
      version,
      manifest: "{}",
      digest: "d",
      created_at: 1,
      created_by: "test",
      comment: "made by a test",
    }),
  );
}

/** A thread without events, made at time 1. */
export function threadRow(thread_key: number, suffix: string, changes: Partial<ThreadRow> = {}): ThreadRow {
  return {
    thread_key,
    suffix,
    uid: "0".repeat(20),
    created_at: 1,
    updated_at: 1,
    next_seq: 0,
    leaf_seq: -1,
    revision: 0,
    manifest: null,
    model_id: null,
    session_name: null,
    preview: null,
    parent_session_id: null,
    meta: {},
    ...changes,
  };
}
