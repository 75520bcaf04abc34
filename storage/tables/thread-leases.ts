import { createHash, timingSafeEqual } from "node:crypto";
import type { LeaseProof } from "../../bus/protocol/lease.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, oneOf, type RowIn, table, text } from "../store/table.ts";

// Who drives a conversation, and who watches it: a row for each hold, which lasts until a time of the store's clock. One that drives is
// the only one of its conversation, by an index. A hold is known by the hash of its token, which nobody but its holder has.

const leaseTable = table("thread_leases", {
  thread_key: integer,
  /** SHA-256 of the token, as base64url. */
  token_hash: text,
  mode: oneOf("exclusive", "shared"),
  /** A name that the client chooses for itself. */
  holder_id: text,
  /** The token's first characters, by which its holder knows it. */
  token_hint: text,
  expires_at: integer,
});

/** A hold as it is stored. */
export type LeaseRow = RowIn<typeof leaseTable>;

/** A hold as it is taken or renewed. */
export type Hold = Omit<LeaseRow, "expires_at"> & { readonly lastsMs: number };

/** Those who watch one conversation. Beyond it the hold that ends first makes room. */
export const observersMax = 256;
const hintChars = 6;

const ofThread = "tenant_id = :tenant AND thread_key = ?";
const { columns } = leaseTable;

// A conversation that is gone meanwhile is held by nobody.
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
// With an OR in the place of the second part SQLite would read the holds of the whole tenant.
const selectDecisive = tenantSql(
  "thread_leases_decisive",
  `${liveOfSuffix} AND mode = 'exclusive' UNION ALL ${liveOfSuffix} AND mode = 'shared' AND token_hash = ?`,
);
// Asked again outside, for a hold may have been renewed since the inner query has seen it.
const deleteExpired = systemSql(
  "thread_leases_delete_lapsed",
  `DELETE FROM thread_leases WHERE expires_at <= :now AND (tenant_id, thread_key, token_hash) IN
     (SELECT tenant_id, thread_key, token_hash FROM thread_leases WHERE expires_at <= :now ORDER BY expires_at LIMIT ?)
   RETURNING expires_at`,
);

/** By what the store knows a token. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}

/** What of a token anybody may see. */
export function hintOf(token: string): string {
  return token.slice(0, hintChars);
}

/** Whether a hold is the one of this token's hash; how long that takes says nothing of it. */
export function isHoldOf({ token_hash }: LeaseRow, hash: string): boolean {
  const [held, asked] = [Buffer.from(token_hash), Buffer.from(hash)];
  return held.length === asked.length && timingSafeEqual(held, asked);
}

/**
 * Takes a new hold. Refuses with conflict when another drives already, or the conversation is gone. Holds that are over and, of too
 * many that watch, the first to end go before it.
 */
export function takeLeaseOps(store: TenantStore, hold: Hold): WriteOp[] {
  const { thread_key, token_hash, mode, holder_id, token_hint, lastsMs } = hold;
  const take = store.op(insertLease, [token_hash, mode, holder_id, token_hint, lastsMs, thread_key], 1);
  const lapse = store.op(lapseLeases, [thread_key]);
  if (mode === "exclusive") return [lapse, take];
  return [lapse, store.op(thinObservers, [thread_key, thread_key, observersMax, observersMax - 1]), take];
}

/** Lengthens a hold, or lets it drive, or watch. Refuses with conflict when it is over, or another drives already. */
export function renewLeaseOps(
  store: TenantStore,
  { thread_key, token_hash, mode, holder_id, lastsMs }: Hold,
): WriteOp[] {
  const renew = store.op(renewLease, [mode, holder_id, lastsMs, thread_key, token_hash], 1);
  return [store.op(lapseLeases, [thread_key]), renew];
}

/** Ends a hold. Refuses with conflict when it is over. */
export function endLeaseOp(store: TenantStore, { thread_key, token_hash }: LeaseRow): WriteOp {
  return store.op(endLease, [thread_key, token_hash], 1);
}

/** Ends every hold of a conversation. */
export function deleteLeasesOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteLeases, [threadKey]);
}

/** The holds of a conversation: who drives it first, then those who watch, the last to end first. */
export async function liveLeases(store: TenantStore, threadKey: number): Promise<LeaseRow[]> {
  const rows = await store.read(selectLive, threadKey);
  return rows.map((row) => leaseTable.decode(row));
}

/**
 * Why a client may not drive a conversation now: it only watches, or another drives; null when it may. A hold that is over counts for
 * nothing, and nor does a token that nobody was given.
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

/** Deletes at most `limit` holds whose time is over; answers how many. */
export async function deleteExpiredLeases(store: Scope, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteExpired, [limit])]);
  return rows?.length ?? 0;
}
