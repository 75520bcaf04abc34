import { systemSql } from "../store/statements.ts";
import type { Scope, WriteOp } from "../store/store.ts";

// The processes that share a store. Each has a unique id and a lease, which it renews while it lives. The store's clock
// decides on expiry. The first process that sees an expired lease deletes the host's row, and nothing owned by that
// host has an owner from then on. A host without a row is dead and never returns under the same id.

/**
 * The owner name of a host or one of its workers: the host's id, a colon, and a suffix that only the host interprets.
 */
export type Owner = string;

/** The dead owners whose runs and claims remain: every host without a lease but this one, or one worker by name. */
export type Gone = { readonly hostsBut: string } | { readonly worker: Owner };

const upsertHost = systemSql(
  "host_enter",
  `INSERT INTO hosts (id, expires_at) VALUES (?, :now + ?)
   ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`,
);
const updateLease = systemSql("host_renew", "UPDATE hosts SET expires_at = :now + ? WHERE id = ?");
const deleteHost = systemSql("host_leave", "DELETE FROM hosts WHERE id = ?");
const deleteOthers = systemSql("hosts_lapse_others", "DELETE FROM hosts WHERE id <> ?");
const deleteExpired = systemSql("hosts_lapse", "DELETE FROM hosts WHERE expires_at <= :now RETURNING id");

/**
 * Returns SQL that is true of an owner whose host has no lease and is not this one; takes `othersThan` as parameters.
 */
export function ownerIsGone(column: string): string {
  return `substr(${column}, 1, ?) <> ?
    AND NOT EXISTS (SELECT 1 FROM hosts WHERE substr(${column}, 1, length(hosts.id) + 1) = hosts.id || ':')`;
}

/** Returns the parameters of `ownerIsGone`. */
export function othersThan(host: string): [length: number, prefix: Owner] {
  return [host.length + 1, `${host}:`];
}

/** Inserts the row of a host. Repeating it is harmless. */
export function enterHostOp(store: Scope, id: string, leaseMs: number): WriteOp {
  return store.op(upsertHost, [id, leaseMs], 1);
}

/** Renews the lease of a host. Refuses with conflict if the host was declared dead, after which it owns nothing. */
export function renewHostOp(store: Scope, id: string, leaseMs: number): WriteOp {
  return store.op(updateLease, [leaseMs, id], 1);
}

/** Deletes the row of a host that ends. */
export function leaveHostOp(store: Scope, id: string): WriteOp {
  return store.op(deleteHost, [id]);
}

/** Deletes every other host, because this one holds the lock that only one process can hold. */
export function lapseOthersOp(store: Scope, id: string): WriteOp {
  return store.op(deleteOthers, [id]);
}

/** Deletes hosts with an expired lease. The batch returns a row for each. */
export function expireHostsOp(store: Scope): WriteOp {
  return store.op(deleteExpired, []);
}
