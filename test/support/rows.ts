import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { insertManifestVersionOp } from "../../storage/tables/manifests.ts";
import type { NewRun } from "../../storage/tables/runs.ts";
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
    bytes: 0,
    revision: 0,
    epoch: 0,
    manifest: null,
    model_id: null,
    session_name: null,
    preview: null,
    parent_session_id: null,
    meta: {},
    ...changes,
  };
}

/** A run of a worker of host `here`, begun at time 1. */
export function newRun(run_id: string, changes: Partial<NewRun> = {}): NewRun {
  return {
    run_id,
    owner: "here:1:0",
    manifest: "m",
    manifest_digest: "d".repeat(64),
    manifest_version: null,
    parent_run_id: null,
    hops: 0,
    asked: {
      surface: "chat",
      request_id: "q",
      principal: { sub: "alice", scopes: ["chat"], scheme: "none", issuer: "" },
      routes: ["r"],
      temperature: 0,
      max_tokens: null,
    },
    idempotency_scope: null,
    started_at: 1,
    ...changes,
  };
}
