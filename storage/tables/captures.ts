import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, type RowIn, table, text } from "../store/table.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";

// Turns whose facts are to be captured. The last batch of a run inserts a row, and the batch that stores the facts deletes
// it, so that a turn is captured once. A worker claims a row for a time. A claim counts as an attempt, and the batch of a
// worker that has lost its claim is refused. Times are those of the store's clock.

const captureTable = table(
  "captures",
  {
    run_id: text,
    thread_key: integer,
    thread_id: text,
    manifest_id: text,
    /** Subject and owner of the memories; see memories.ts. */
    principal: text,
    owner: text,
    /** The events of the turn in the log of its thread; the last is not included. */
    from_seq: integer,
    until_seq: integer,
    request_id: text,
    /** Sources of untrusted text that the turn had read. */
    taint: json<readonly string[]>(),
    lost_with: nullable(text),
    due_at: integer,
    /** Number of claims. */
    attempts: integer,
    /** The worker that captures it. */
    claimed_by: nullable(text),
    /** Number of pauses because a budget was spent. */
    pauses: integer,
  },
  ({ text: thread_id, threadKey: thread_key }) => ({
    ...{ run_id: "row", thread_key, thread_id, manifest_id: "m", principal: thread_id, owner: thread_id },
    ...{
      from_seq: 1,
      until_seq: 5,
      request_id: "r",
      taint: [thread_id],
      lost_with: null,
      due_at: 5,
      attempts: 0,
      claimed_by: null,
      pauses: 0,
    },
  }),
);

/** A turn whose facts are to be captured. */
export type CaptureRow = RowIn<typeof captureTable>;

const { columns } = captureTable;
const insertCapture = insertInto(captureTable);
// The outer condition repeats the inner one, because another process may claim a row between the two.
const claimDue = tenantSql(
  "captures_claim",
  `UPDATE captures SET attempts = attempts + 1, claimed_by = ?, due_at = :now + ?
   WHERE tenant_id = :tenant AND due_at <= :now AND run_id IN
     (SELECT run_id FROM captures WHERE tenant_id = :tenant AND due_at <= :now ORDER BY due_at LIMIT ?)
   RETURNING ${columns}`,
);
const deleteCapture = tenantSql(
  "capture_delete",
  "DELETE FROM captures WHERE tenant_id = :tenant AND run_id = ? AND attempts = ?",
);
const putOff = tenantSql(
  "capture_put_off",
  `UPDATE captures SET claimed_by = NULL, due_at = :now + ?, attempts = attempts - ?, pauses = pauses + ?
   WHERE tenant_id = :tenant AND run_id = ? AND attempts = ?`,
);
const deleteOfThread = tenantSql(
  "captures_delete_of_thread",
  "DELETE FROM captures WHERE tenant_id = :tenant AND thread_key = ?",
);
const deleteOfThreadId = tenantSql(
  "captures_delete_of_thread_id",
  `DELETE FROM captures WHERE tenant_id = :tenant AND thread_key IN
     (SELECT t.thread_key FROM threads t WHERE t.tenant_id = :tenant AND t.suffix = ?)`,
);
const deleteOfPrincipal = tenantSql(
  "captures_delete_of_principal",
  "DELETE FROM captures WHERE tenant_id = :tenant AND principal = ?",
);
const releaseOfExpired = systemSql(
  "captures_release_of_lapsed_hosts",
  `UPDATE captures SET claimed_by = NULL, due_at = :now WHERE claimed_by IS NOT NULL AND ${ownerIsGone("claimed_by")}`,
);
const releaseOfWorker = systemSql(
  "captures_release_of_worker",
  "UPDATE captures SET claimed_by = NULL, due_at = :now WHERE claimed_by = ?",
);
const selectTenants = systemSql(
  "captures_due_tenants",
  `SELECT tenant_id FROM captures WHERE due_at <= :now AND tenant_id > ? GROUP BY tenant_id ORDER BY tenant_id LIMIT ?`,
);

/** Returns the operation that a turn's last batch adds. */
export function addCaptureOp(
  store: TenantStore,
  capture: Omit<CaptureRow, "due_at" | "attempts" | "claimed_by" | "pauses">,
): WriteOp {
  return insertCapture(store, { ...capture, due_at: 0, attempts: 0, claimed_by: null, pauses: 0 });
}

/** Claims up to `limit` due turns for `forMs` milliseconds. */
export async function claimCaptures(
  store: TenantStore,
  { owner, forMs, limit }: { readonly owner: string; readonly forMs: number; readonly limit: number },
): Promise<CaptureRow[]> {
  const [rows] = await store.write([store.op(claimDue, [owner, forMs, limit])]);
  return (rows ?? []).map((row) => captureTable.decode(row));
}

/** Ends a capture. Refuses with conflict if the claim is no longer valid. */
export function endCaptureOp(store: TenantStore, { run_id, attempts }: CaptureRow): WriteOp {
  return store.op(deleteCapture, [run_id, attempts], 1);
}

/** Postpones a capture. Its claim counts as an attempt, as a pause, or not at all. */
export function putOffCaptureOp(
  store: TenantStore,
  { run_id, attempts }: CaptureRow,
  ms: number,
  counts: "attempt" | "pause" | "nothing",
): WriteOp {
  return store.op(putOff, [ms, counts === "attempt" ? 0 : 1, counts === "pause" ? 1 : 0, run_id, attempts]);
}

/** Drops the captures of a thread. */
export function deleteCapturesOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadKey]);
}

/** Drops the captures of a person or of a thread, which is named by its suffix. */
export function deleteCapturesOfOp(
  store: TenantStore,
  of: { readonly principal: string } | { readonly suffix: string },
): WriteOp {
  return "principal" in of ? store.op(deleteOfPrincipal, [of.principal]) : store.op(deleteOfThreadId, [of.suffix]);
}

/** Releases the claims of a dead host or worker, so that its turns are due at once. */
export async function releaseCaptures(store: Scope, gone: Gone): Promise<void> {
  const release =
    "worker" in gone ? store.op(releaseOfWorker, [gone.worker]) : store.op(releaseOfExpired, othersThan(gone.hostsBut));
  await store.write([release]);
}

/** Returns tenants with due captures, in pages. */
export async function tenantsWithCaptures(store: Scope, after: string, limit: number): Promise<string[]> {
  return (await store.read(selectTenants, after, limit)).map((row) => row.tenant_id as string);
}
