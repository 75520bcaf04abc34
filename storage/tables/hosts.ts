import { systemSql } from "../store/statements.ts";
import type { Scope, WriteOp } from "../store/store.ts";

// The processes that share a store. Each has an id that no other ever has, and a lease that it renews while it lives; expiries are
// compared with the store's clock. A host whose lease has expired is taken out by whoever sees it first, and what it owned
// belongs to nobody from then on: who has no row here is gone, and does not come back under the same id.

/** How a host or one of its workers names what it owns: the host's id, a colon, and the rest is the host's own affair. */
export type Owner = string;

/** Who is gone and has left runs and claims behind: every host without a lease but this one, or one worker, by its name. */
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

/** SQL that is true of an owner whose host has no lease and is not this one; takes `othersThan`. */
export function ownerIsGone(column: string): string {
  return `substr(${column}, 1, ?) <> ?
    AND NOT EXISTS (SELECT 1 FROM hosts WHERE substr(${column}, 1, length(hosts.id) + 1) = hosts.id || ':')`;
}

/** The parameters of `ownerIsGone`. */
export function othersThan(host: string): [length: number, prefix: Owner] {
  return [host.length + 1, `${host}:`];
}

/** A host is there. Written again, when nobody knows whether it was, it is there once. */
export function enterHostOp(store: Scope, id: string, leaseMs: number): WriteOp {
  return store.op(upsertHost, [id, leaseMs], 1);
}

/** A host is still there. Refuses with conflict when it was taken for gone: then nothing is its own any more. */
export function renewHostOp(store: Scope, id: string, leaseMs: number): WriteOp {
  return store.op(updateLease, [leaseMs, id], 1);
}

/** A host goes. */
export function leaveHostOp(store: Scope, id: string): WriteOp {
  return store.op(deleteHost, [id]);
}

/** Every other host is gone: this one holds what only one process can hold. */
export function lapseOthersOp(store: Scope, id: string): WriteOp {
  return store.op(deleteOthers, [id]);
}

/** Hosts whose lease has expired are gone. The batch answers a row for each. */
export function expireHostsOp(store: Scope): WriteOp {
  return store.op(deleteExpired, []);
}
