import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";

// The version of a manifest that a thread is pinned to (decision 130). The thread's row says that it may have a pin, so other
// threads cost no statement. A release deletes the row, and the next turn of the thread pins anew.

const pinTable = table(
  "manifest_pins",
  {
    thread_key: integer,
    /** The client's part of the thread's id. */
    suffix: text,
    manifest: text,
    /** Version in the tenant's store; null for a manifest of the operator. */
    version: nullable(integer),
    /** Of the compiled manifest and its sub-agents. */
    digest: text,
    pinned_at: integer,
  },
  ({ threadKey: thread_key, text: suffix }) => ({
    ...{ thread_key, suffix, manifest: "m", version: 1, digest: "d", pinned_at: 5 },
  }),
);

/** The pin of one thread. */
export type ManifestPin = RowIn<typeof pinTable>;

const insertPin = insertInto(pinTable);
const deletePin = tenantSql(
  "manifest_pin_delete",
  "DELETE FROM manifest_pins WHERE tenant_id = :tenant AND thread_key = ?",
);
const releaseOne = tenantSql(
  "manifest_pin_release",
  "DELETE FROM manifest_pins INDEXED BY manifest_pins_of WHERE tenant_id = :tenant AND manifest = ? AND suffix = ? RETURNING suffix",
);
const releaseAll = tenantSql(
  "manifest_pins_release",
  "DELETE FROM manifest_pins INDEXED BY manifest_pins_of WHERE tenant_id = :tenant AND manifest = ? RETURNING suffix",
);
const countMoved = tenantSql(
  "manifest_pins_moved",
  "SELECT COUNT(*) AS threads FROM manifest_pins WHERE tenant_id = :tenant AND manifest = ? AND digest <> ?",
);

/** Returns the number of threads that are pinned to a manifest with another digest. */
export async function countMovedPins(store: TenantStore, manifest: string, digest: string): Promise<number> {
  const [row] = await store.readLong(countMoved, manifest, digest);
  return Number(row?.threads ?? 0);
}

/** Returns the pin of a thread. */
export const pinOfThread = selectOne(pinTable, ["thread_key"]);

/** Pins a thread. Refuses with conflict if it has a pin. */
export const insertPinOp = insertPin;

/** Deletes the pin of a thread, if it has one. */
export function deletePinOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deletePin, [threadKey]);
}

/** Releases the threads that are pinned to a manifest, or the one with this suffix. Its batch returns their suffixes. */
export function releasePinsOp(store: TenantStore, manifest: string, suffix: string | null): WriteOp {
  return suffix === null ? store.op(releaseAll, [manifest]) : store.op(releaseOne, [manifest, suffix]);
}
