import { SvcError } from "../../bus/errors.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope, WriteOp } from "../store/store.ts";

// The processes that share a store. Each has a unique id and a lease, which it renews while it lives. The store's clock
// decides on expiry. The first process that sees an expired lease deletes the host's row, and nothing owned by that
// host has an owner from then on. A host without a row is dead and never returns under the same id.
//
// The single row of `cluster` counts the changes of this list, so that a host reads the list only after a change.

/**
 * The owner name of a host or one of its workers: the host's id, a colon, and a suffix that only the host interprets.
 */
export type Owner = string;

/** The dead owners whose runs and claims remain: every host without a lease but this one, or one worker by name. */
export type Gone = { readonly hostsBut: string } | { readonly worker: Owner };

/** Whether a host has the database for itself, or shares it with hosts of the same mode. */
export type HostMode = "alone" | "cluster";

/** The description of a host for the others. */
export interface HostCard {
  /** For operators. */
  readonly name: string;
  /** Numbers of its nodes that hold actors. */
  readonly nodes: readonly number[];
  readonly duties: readonly string[];
  readonly version: string;
  /** Version of the protocol between hosts. */
  readonly protocol: number;
  /** Digests of what the hosts of a deployment should have in common. */
  readonly digests: { readonly settings: string; readonly manifests: string; readonly plugins: string };
  /** Ids of the folders or buckets that hosts share; empty for one that is not known or not used. */
  readonly places?: { readonly objects: string; readonly workspaces: string; readonly checkouts: string };
  /** Epoch milliseconds, by its own clock. */
  readonly started_at: number;
}

/** A host as the others see it. */
export interface HostRow {
  readonly id: string;
  readonly mode: HostMode;
  /** True while it drains: it takes no more work. */
  readonly leaving: boolean;
  readonly card: HostCard;
  /** Milliseconds until its lease ends; negative after that. */
  readonly lease_ms: number;
}

/** The row of the cluster. */
export interface ClusterRow {
  /** Grows with each change of the list of hosts. */
  readonly view_number: number;
  /** Id of the host that starts the periodic tasks; empty for none yet. */
  readonly scheduler: string;
  /** The store's clock. */
  readonly now: number;
}

const insertHost = systemSql(
  "host_enter",
  `INSERT INTO hosts (expires_at, id, mode, card)
   SELECT :now + ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM hosts WHERE id <> ? AND (mode <> ? OR mode = 'alone'))
   ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`,
);
const updateLease = systemSql("host_renew", "UPDATE hosts SET expires_at = :now + ? WHERE id = ?");
const updateLeaving = systemSql("host_leaving", "UPDATE hosts SET leaving = 1 WHERE id = ?");
const deleteHost = systemSql("host_leave", "DELETE FROM hosts WHERE id = ?");
const deleteOthers = systemSql("hosts_lapse_others", "DELETE FROM hosts WHERE mode = ? AND id <> ?");
const deleteOtherMode = systemSql("hosts_lapse_mode", "DELETE FROM hosts WHERE mode <> ? AND expires_at <= :now");
// A clock that jumped ahead would end every lease, so nothing is removed at a time that the caller does not expect.
const isExpired = "expires_at <= :now AND :now BETWEEN ? AND ?";
const noteExpired = systemSql(
  "hosts_note_expired",
  `UPDATE cluster SET view_number = view_number + 1 WHERE id = 1 AND EXISTS (SELECT 1 FROM hosts WHERE ${isExpired})`,
);
const deleteExpired = systemSql("hosts_lapse", `DELETE FROM hosts WHERE ${isExpired} RETURNING id`);
const raiseView = systemSql("cluster_changed", "UPDATE cluster SET view_number = view_number + 1 WHERE id = 1");
const selectCluster = systemSql("cluster_view", "SELECT view_number, scheduler, :now AS now FROM cluster WHERE id = 1");
const selectHosts = systemSql(
  "hosts_list",
  "SELECT id, mode, leaving, card, expires_at - :now AS lease_ms FROM hosts ORDER BY id",
);
const selectHost = systemSql("host_by_id", "SELECT id FROM hosts WHERE id = ?");
const updateScheduler = systemSql(
  "cluster_take_schedule",
  `UPDATE cluster SET scheduler = ?, scheduler_epoch = scheduler_epoch + 1, view_number = view_number + 1
   WHERE id = 1 AND scheduler = ?`,
);
const updateDeployment = systemSql(
  "cluster_name",
  "UPDATE cluster SET deployment_id = ? WHERE id = 1 AND deployment_id = ''",
);
const selectDeployment = systemSql("cluster_deployment", "SELECT deployment_id FROM cluster WHERE id = 1");

/**
 * Returns SQL that is true of an owner whose host has no lease and is not this one; takes `othersThan` as parameters.
 */
export function ownerIsGone(column: string): string {
  return `substr(${column}, 1, ?) <> ?
    AND NOT ${hasHost(column)}`;
}

/** Returns SQL that is true of an owner whose host has a row. */
export function hasHost(column: string): string {
  return `EXISTS (SELECT 1 FROM hosts WHERE substr(${column}, 1, length(hosts.id) + 1) = hosts.id || ':')`;
}

/** Splits the name of an owner that is a node into host and number; null for another owner. */
export function nodeOfOwner(owner: Owner): { readonly host: string; readonly number: number } | null {
  const [host = "", number = ""] = owner.split(":");
  return /^\d+$/.test(number) ? { host, number: Number(number) } : null;
}

/** Returns the parameters of `ownerIsGone`. */
export function othersThan(host: string): [length: number, prefix: Owner] {
  return [host.length + 1, `${host}:`];
}

/** Names of the statements that take and renew a lease. Their first parameter is its length in milliseconds. */
export const leaseStatements: ReadonlySet<string> = new Set([insertHost.name, updateLease.name]);

/**
 * Inserts the row of a host; it may be repeated. Refuses with conflict if a host of the other mode is present, and if one of
 * mode `alone` is.
 */
export function enterHostOps(
  store: Scope,
  host: { readonly id: string; readonly mode: HostMode; readonly card: HostCard | null },
  leaseMs: number,
): WriteOp[] {
  const { id, mode, card } = host;
  return [
    // The first statement locks the row of the cluster, so that two hosts enter one after the other.
    store.op(raiseView, [], 1),
    store.op(insertHost, [leaseMs, id, mode, JSON.stringify(card ?? {}), id, mode], 1),
  ];
}

/** Renews the lease of a host. Refuses with conflict if the host was declared dead, after which it owns nothing. */
export function renewHostOp(store: Scope, id: string, leaseMs: number): WriteOp {
  return store.op(updateLease, [leaseMs, id], 1);
}

/** Says that a host takes no more work. */
export function leavingHostOps(store: Scope, id: string): WriteOp[] {
  return [store.op(updateLeaving, [id]), store.op(raiseView, [])];
}

/** Deletes the row of a host that ends. */
export function leaveHostOps(store: Scope, id: string): WriteOp[] {
  return [store.op(deleteHost, [id]), store.op(raiseView, [])];
}

/** Deletes every other host of a mode, because this one holds the lock that only one process can hold. */
export function lapseOthersOp(store: Scope, id: string, mode: HostMode): WriteOp {
  return store.op(deleteOthers, [mode, id]);
}

/** Deletes hosts of the other mode with an expired lease. */
export function lapseOtherModeOp(store: Scope, mode: HostMode): WriteOp {
  return store.op(deleteOtherMode, [mode]);
}

/** The times of the store's clock at which hosts may be removed. */
export interface ExpectedTime {
  readonly from: number;
  readonly to: number;
}

/** Any time. */
export const anyTime: ExpectedTime = { from: 0, to: Number.MAX_SAFE_INTEGER };

/** Deletes hosts with an expired lease, if the store's clock shows an expected time. The batch returns a row for each. */
export function expireHostsOps(store: Scope, { from, to }: ExpectedTime = anyTime): WriteOp[] {
  // Both statements see the same time, that of the transaction.
  return [store.op(noteExpired, [from, to]), store.op(deleteExpired, [from, to])];
}

/** Returns true if a host has a row. */
export async function hostExists(store: Scope, id: string): Promise<boolean> {
  return (await store.read(selectHost, id)).length > 0;
}

/** Reads the row of the cluster in a batch. */
export function readClusterOp(store: Scope): WriteOp {
  return store.op(selectCluster, []);
}

/** Returns all hosts, with their leases by the store's clock. */
export async function readHosts(store: Scope): Promise<readonly HostRow[]> {
  const rows = await store.read(selectHosts);
  return rows.map((row) => ({
    id: String(row.id),
    mode: row.mode as HostMode,
    leaving: row.leaving !== 0,
    card: JSON.parse(String(row.card)) as HostCard,
    lease_ms: Number(row.lease_ms),
  }));
}

/** Makes `host` the one that starts the periodic tasks. Returns false if `before` is no longer the one that does. */
export async function takeSchedule(store: Scope, host: string, before: string): Promise<boolean> {
  try {
    await store.write([store.op(updateScheduler, [host, before], 1)]);
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}

/** Returns the id of the deployment; the first call stores `made`. */
export async function deploymentId(store: Scope, made: string): Promise<string> {
  await store.write([store.op(updateDeployment, [made])]);
  const [row] = await store.read(selectDeployment);
  return String(row?.deployment_id);
}
