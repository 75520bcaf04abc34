import { loggedKeyPlace } from "../../bus/frames/entry-points.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";
import type { SeqRange } from "./events.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";
import { runKeys } from "./runs.ts";

const keyTable = table("idempotency", {
  scope: text,
  fingerprint: text,
  state: oneOf("in_progress", "done"),
  owner: text,
  run_id: text,
  /** JSON, in the format of the route that stored it. */
  answer: nullable(text),
  /** Expiry of the row; `neverExpires` for a claim whose expiry is set when its run ends. */
  expires_at: integer,
});

/** Expiry of a claim whose run may wait for people without a limit. */
export const neverExpires = Number.MAX_SAFE_INTEGER;

/** A repeatable request: its fingerprint, its state and its answer. */
export type IdempotencyRow = RowIn<typeof keyTable>;

const selectKey = tenantSql(
  "idempotency_by_scope",
  `SELECT ${keyTable.columns} FROM idempotency
   WHERE tenant_id = :tenant AND scope = ? AND expires_at > ?`,
);
// An expired key is taken over. A live one leaves the row unchanged, so the expected count fails.
const claimKey = tenantSql(
  "idempotency_claim",
  `INSERT INTO idempotency (tenant_id, scope, fingerprint, state, owner, run_id, answer, expires_at)
   VALUES (:tenant, ?, ?, 'in_progress', ?, ?, ?, ?)
   ON CONFLICT (tenant_id, scope) DO UPDATE SET fingerprint = excluded.fingerprint, state = excluded.state,
     owner = excluded.owner, run_id = excluded.run_id, answer = excluded.answer, expires_at = excluded.expires_at
   WHERE idempotency.expires_at <= ?`,
);
const settleKey = tenantSql(
  "idempotency_settle",
  "UPDATE idempotency SET state = 'done', answer = ?, expires_at = ? WHERE tenant_id = :tenant AND scope = ? AND run_id = ?",
);
const lapseKey = tenantSql(
  "idempotency_lapse",
  "UPDATE idempotency SET expires_at = ? WHERE tenant_id = :tenant AND scope = ? AND run_id = ?",
);
const releaseKey = tenantSql(
  "idempotency_release",
  "DELETE FROM idempotency WHERE tenant_id = :tenant AND scope = ? AND run_id = ? AND state = 'in_progress'",
);
/** A claim that no open run will settle. A suspended run has no process, and another process resumes it. */
const isAbandoned = `state = 'in_progress' AND NOT EXISTS
  (SELECT 1 FROM runs r WHERE r.tenant_id = idempotency.tenant_id AND r.idempotency_scope = idempotency.scope
   AND r.run_id = idempotency.run_id AND r.ended_at IS NULL)`;
const releaseOfExpired = systemSql(
  "idempotency_release_of_lapsed_hosts",
  `DELETE FROM idempotency WHERE ${isAbandoned} AND ${ownerIsGone("owner")}`,
);
const releaseOfWorker = systemSql(
  "idempotency_release_of_worker",
  `DELETE FROM idempotency WHERE ${isAbandoned} AND owner = ?`,
);
const deleteExpired = systemSql(
  "idempotency_delete_lapsed",
  `DELETE FROM idempotency WHERE (tenant_id, scope) IN
     (SELECT tenant_id, scope FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
   RETURNING expires_at`,
);

// The key of a stream holds a position in the log, and no text of the answer.
const deleteOfRuns = tenantSql(
  "idempotency_delete_of_runs",
  `DELETE FROM idempotency WHERE tenant_id = :tenant AND scope NOT LIKE '["stream"%' AND (scope, run_id) IN
     (SELECT idempotency_scope, run_id FROM runs
      WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ? AND idempotency_scope IS NOT NULL)`,
);

/** True if the scope of a key is that of an OpenAI route. */
export function isLoggedScope(scope: string): boolean {
  return scope.startsWith(`["${loggedKeyPlace}"`);
}

/** Returns the scope of a key: its namespace and the caller. */
export function keyScope(
  place: readonly (string | null)[],
  { scheme, issuer, sub }: { readonly scheme: string; readonly issuer: string; readonly sub: string },
  key: string,
): string {
  return JSON.stringify([...place, scheme, issuer, sub, key]);
}

/** Returns the row of a claimed or answered key that has not expired. */
export async function idempotencyKey(
  store: TenantStore,
  scope: string,
  now: number,
): Promise<IdempotencyRow | undefined> {
  const [row] = await store.read(selectKey, scope, now);
  return row && keyTable.decode(row);
}

/** Claims a key. The batch refuses with conflict if the key is claimed. */
export function claimKeyOp(store: TenantStore, key: Omit<IdempotencyRow, "state">, now: number): WriteOp {
  return store.op(claimKey, [key.scope, key.fingerprint, key.owner, key.run_id, key.answer, key.expires_at, now], 1);
}

/** Stores the answer until `expiresAt`, for repeated requests. */
export function settleKeyOp(
  store: TenantStore,
  scope: string,
  runId: string,
  answer: string,
  expiresAt: number,
): WriteOp {
  return store.op(settleKey, [answer, expiresAt, scope, runId]);
}

/** Sets the expiry of a key that was settled before its run ended. */
export function expireKeyOp(store: TenantStore, scope: string, runId: string, expiresAt: number): WriteOp {
  return store.op(lapseKey, [expiresAt, scope, runId]);
}

/** Deletes a claim, so that the request can be repeated and runs again. */
export function releaseKeyOp(store: TenantStore, scope: string, runId: string): WriteOp {
  return store.op(releaseKey, [scope, runId]);
}

/**
 * Deletes the keys and answers of a thread's runs with numbers in a range. Keys of streams stay, because without the
 * log their replay is empty. Place it before `deleteRunsOp` in the batch, because it reads the runs.
 */
export function deleteKeysOfRunsOp(store: TenantStore, threadKey: number, range: SeqRange): WriteOp {
  return store.op(deleteOfRuns, runKeys(threadKey, range));
}

/**
 * Deletes the claims of dead hosts or a dead worker, except those of suspended runs. Close the interrupted runs first.
 */
export async function releaseAbandonedKeys(store: Scope, gone: Gone): Promise<void> {
  const release =
    "worker" in gone ? store.op(releaseOfWorker, [gone.worker]) : store.op(releaseOfExpired, othersThan(gone.hostsBut));
  await store.write([release]);
}

/** Deletes up to `limit` expired keys. Returns their number. */
export async function deleteExpiredKeys(store: Scope, now: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteExpired, [now, limit])]);
  return rows?.length ?? 0;
}
