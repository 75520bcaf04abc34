import { createHash, timingSafeEqual } from "node:crypto";
import type { LeaseProof } from "../../bus/protocol/lease.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, oneOf, type RowIn, table, text } from "../store/table.ts";

// The clients that drive or watch a thread: one row per hold, with an expiry on the store's clock. A unique index
// allows one driver per thread. The row stores the hash of a token that only its holder has.

const leaseTable = table("thread_leases", {
  thread_key: integer,
  /** SHA-256 of the token, as base64url. */
  token_hash: text,
  mode: oneOf("exclusive", "shared"),
  /** A name that the client chooses for itself. */
  holder_id: text,
  /** First characters of the token, by which the holder recognizes it. */
  token_hint: text,
  expires_at: integer,
});

/** A stored hold. */
export type LeaseRow = RowIn<typeof leaseTable>;

/** A hold to take or renew. */
export type Hold = Omit<LeaseRow, "expires_at"> & { readonly lastsMs: number };

/** Max watchers of a thread. A further one replaces the hold that expires first. */
export const observersMax = 256;
const hintChars = 6;

const ofThread = "tenant_id = :tenant AND thread_key = ?";
const { columns } = leaseTable;

// Inserts nothing if the thread was deleted.
const insertLease = tenantSql(
  "thread_lease_take",
  `INSERT INTO thread_leases (tenant_id, ${columns})
   SELECT :tenant, thread_key, ?, ?, ?, ?, :now + ? FROM threads WHERE ${ofThread}`,
);
const renewLease = tenantSql(
  "thread_lease_renew",
  `UPDATE thread_leases SET mode = ?, holder_id = ?, expires_at = :now + ?
   WHERE ${ofThread} AND token_hash = ? AND expires_at > :now`,
);
const endLease = tenantSql(
  "thread_lease_end",
  `DELETE FROM thread_leases WHERE ${ofThread} AND token_hash = ? AND expires_at > :now`,
);
const lapseLeases = tenantSql(
  "thread_leases_lapse",
  `DELETE FROM thread_leases WHERE ${ofThread} AND expires_at <= :now`,
);
const thinObservers = tenantSql(
  "thread_leases_thin",
  `DELETE FROM thread_leases WHERE ${ofThread} AND token_hash IN (
     SELECT token_hash FROM thread_leases WHERE ${ofThread} AND mode = 'shared'
     ORDER BY expires_at DESC, token_hash LIMIT ? OFFSET ?)`,
);
const deleteLeases = tenantSql("thread_leases_delete", `DELETE FROM thread_leases WHERE ${ofThread}`);
const selectLive = tenantSql(
  "thread_leases_live",
  `SELECT ${columns} FROM thread_leases WHERE ${ofThread} AND expires_at > :now
   ORDER BY mode, expires_at DESC, token_hash LIMIT ${2 * observersMax}`,
);
const liveOfSuffix = `SELECT ${columns} FROM thread_leases
   WHERE tenant_id = :tenant AND thread_key = (SELECT thread_key FROM threads WHERE tenant_id = :tenant AND suffix = ?)
     AND expires_at > :now`;
// A UNION, because with an OR SQLite would scan the holds of the whole tenant.
const selectDecisive = tenantSql(
  "thread_leases_decisive",
  `${liveOfSuffix} AND mode = 'exclusive' UNION ALL ${liveOfSuffix} AND mode = 'shared' AND token_hash = ?`,
);
// The outer condition repeats the inner one, because a hold may be renewed between the two.
const deleteExpired = systemSql(
  "thread_leases_delete_lapsed",
  `DELETE FROM thread_leases WHERE expires_at <= :now AND (tenant_id, thread_key, token_hash) IN
     (SELECT tenant_id, thread_key, token_hash FROM thread_leases WHERE expires_at <= :now ORDER BY expires_at LIMIT ?)
   RETURNING expires_at`,
);

/** Returns the hash under which the store keeps a token. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}

/** Returns the public part of a token. */
export function hintOf(token: string): string {
  return token.slice(0, hintChars);
}

/** True if the hold has this token hash; compared in constant time. */
export function isHoldOf({ token_hash }: LeaseRow, hash: string): boolean {
  const [held, asked] = [Buffer.from(token_hash), Buffer.from(hash)];
  return held.length === asked.length && timingSafeEqual(held, asked);
}

/**
 * Returns operations that take a new hold. Refuses with conflict if the thread has a driver, or was deleted. First
 * deletes expired holds and, if there are too many watchers, those that expire first.
 */
export function takeLeaseOps(store: TenantStore, hold: Hold): WriteOp[] {
  const { thread_key, token_hash, mode, holder_id, token_hint, lastsMs } = hold;
  const take = store.op(insertLease, [token_hash, mode, holder_id, token_hint, lastsMs, thread_key], 1);
  const lapse = store.op(lapseLeases, [thread_key]);
  if (mode === "exclusive") return [lapse, take];
  return [lapse, store.op(thinObservers, [thread_key, thread_key, observersMax, observersMax - 1]), take];
}

/**
 * Returns operations that extend a hold, or change its mode. Refuses with conflict if it has expired, or another client
 * drives.
 */
export function renewLeaseOps(
  store: TenantStore,
  { thread_key, token_hash, mode, holder_id, lastsMs }: Hold,
): WriteOp[] {
  const renew = store.op(renewLease, [mode, holder_id, lastsMs, thread_key, token_hash], 1);
  return [store.op(lapseLeases, [thread_key]), renew];
}

/** Ends a hold. Refuses with conflict if it has expired. */
export function endLeaseOp(store: TenantStore, { thread_key, token_hash }: LeaseRow): WriteOp {
  return store.op(endLease, [thread_key, token_hash], 1);
}

/** Ends every hold of a thread. */
export function deleteLeasesOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteLeases, [threadKey]);
}

/** Returns the holds of a thread: the driver first, then the watchers, latest expiry first. */
export async function liveLeases(store: TenantStore, threadKey: number): Promise<LeaseRow[]> {
  const rows = await store.read(selectLive, threadKey);
  return rows.map((row) => leaseTable.decode(row));
}

/**
 * Returns why a client may not drive a thread: it only watches, or another client drives; null if it may. Expired holds
 * and unknown tokens are ignored.
 */
export async function leaseRefusal(
  store: TenantStore,
  suffix: string,
  { token_hash }: LeaseProof,
): Promise<"lease_read_only" | "lease_held" | null> {
  const rows = await store.read(selectDecisive, suffix, suffix, token_hash ?? "");
  const holds = rows.map((row) => leaseTable.decode(row));
  const own = token_hash === null ? undefined : holds.find((hold) => isHoldOf(hold, token_hash));
  if (own !== undefined) return own.mode === "exclusive" ? null : "lease_read_only";
  return holds.length > 0 ? "lease_held" : null;
}

/** Deletes up to `limit` expired holds. Returns their number. */
export async function deleteExpiredLeases(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteExpired, [limit])]);
  return rows?.length ?? 0;
}
