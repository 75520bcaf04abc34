import type { EntryPoint } from "../../bus/protocol/run.ts";
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
  /** JSON, in the form of the route that stored it. */
  answer: nullable(text),
  /** Of a claim: `neverExpires`, where the end of its run says when it expires. */
  expires_at: integer,
});

/** When a claim expires whose run may wait for as long as people take. */
export const neverExpires = Number.MAX_SAFE_INTEGER;

/** A request that may be sent again: what it was, whether it is over, and what it was answered. */
export type IdempotencyRow = RowIn<typeof keyTable>;

const selectKey = tenantSql(
  "idempotency_by_scope",
  `SELECT ${keyTable.columns} FROM idempotency
   WHERE tenant_id = :tenant AND scope = ? AND expires_at > ?`,
);
// A key that has expired is taken over; one that is alive leaves the row unchanged, and then the expected count fails.
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
/** A claim that no open run is going to settle. A suspended run has no process, and another one resumes it. */
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

// The key of a stream says where in the log its answer is, and has no words of it.
const deleteOfRuns = tenantSql(
  "idempotency_delete_of_runs",
  `DELETE FROM idempotency WHERE tenant_id = :tenant AND scope NOT LIKE '["stream"%' AND (scope, run_id) IN
     (SELECT idempotency_scope, run_id FROM runs
      WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ? AND idempotency_scope IS NOT NULL)`,
);

/**
 * The place of a turn's key: a stream's belongs to its thread, those of other entry points to the caller alone. Routes of the
 * OpenAI protocol have a place each, streamed or not.
 */
export function keyPlace(surface: EntryPoint, suffix: string | null): readonly (string | null)[] {
  switch (surface) {
    case "chat_stream":
      return ["stream", suffix];
    case "openai":
    case "openai_stream":
      return [loggedPlace, "completions"];
    case "responses":
    case "responses_stream":
      return [loggedPlace, "responses"];
    case "trigger":
      return ["trigger"];
    default:
      return ["chat"];
  }
}

/** Of keys whose answer is read from the log where the turn has one. */
const loggedPlace = "v1";

/** True if the scope of a key is that of a route of the OpenAI protocol. */
export function isLoggedScope(scope: string): boolean {
  return scope.startsWith(`["${loggedPlace}"`);
}

/** What a key belongs to: the place where it was sent, and who has sent it. */
export function keyScope(
  place: readonly (string | null)[],
  { scheme, issuer, sub }: { readonly scheme: string; readonly issuer: string; readonly sub: string },
  key: string,
): string {
  return JSON.stringify([...place, scheme, issuer, sub, key]);
}

/** The row of a key that is claimed or answered and has not lapsed. */
export async function idempotencyKey(
  store: TenantStore,
  scope: string,
  now: number,
): Promise<IdempotencyRow | undefined> {
  const [row] = await store.read(selectKey, scope, now);
  return row && keyTable.decode(row);
}

/** Claims a key; the batch refuses with conflict when somebody holds it. */
export function claimKeyOp(store: TenantStore, key: Omit<IdempotencyRow, "state">, now: number): WriteOp {
  return store.op(claimKey, [key.scope, key.fingerprint, key.owner, key.run_id, key.answer, key.expires_at, now], 1);
}

/** Keeps the answer until `expiresAt` for those who send the request again. */
export function settleKeyOp(
  store: TenantStore,
  scope: string,
  runId: string,
  answer: string,
  expiresAt: number,
): WriteOp {
  return store.op(settleKey, [answer, expiresAt, scope, runId]);
}

/** Says when a key expires that was settled before its run was over. */
export function expireKeyOp(store: TenantStore, scope: string, runId: string, expiresAt: number): WriteOp {
  return store.op(lapseKey, [expiresAt, scope, runId]);
}

/** Forgets a claim, so that the request can be sent again and runs. */
export function releaseKeyOp(store: TenantStore, scope: string, runId: string): WriteOp {
  return store.op(releaseKey, [scope, runId]);
}

/**
 * Forgets what was answered to requests of the runs of a thread with numbers in a range, and their keys. Those of streams stay: their
 * replay is empty without the log. Goes before `deleteRunsOp` in its batch: the runs say which there are.
 */
export function deleteKeysOfRunsOp(store: TenantStore, threadKey: number, range: SeqRange): WriteOp {
  return store.op(deleteOfRuns, runKeys(threadKey, range));
}

/**
 * Deletes the claims of hosts or a worker that are gone, except those of suspended runs. Their interrupted runs must have been closed
 * before.
 */
export async function releaseAbandonedKeys(store: Scope, gone: Gone): Promise<void> {
  const release =
    "worker" in gone ? store.op(releaseOfWorker, [gone.worker]) : store.op(releaseOfExpired, othersThan(gone.hostsBut));
  await store.write([release]);
}

/** Deletes at most `limit` keys whose time is over; answers how many. */
export async function deleteExpiredKeys(store: Scope, now: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteExpired, [now, limit])]);
  return rows?.length ?? 0;
}
