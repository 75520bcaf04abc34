import { SvcError } from "../../bus/errors.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { storedRows, writeStored } from "./stored-bytes.ts";

// Texts that content screening has withheld from the model, for operators (decision 192). They are stored bytes of the tenant, and are
// deleted with their thread.

const quarantineTable = table(
  "quarantine",
  {
    id: text,
    created_at: integer,
    /** Null for none. */
    expires_at: nullable(integer),
    /** The thread whose deletion deletes it; null for a run without a thread. */
    thread_key: nullable(integer),
    /** Full id; empty for a run without a thread. */
    thread_id: text,
    manifest_id: text,
    /** Tool and call that had the result. */
    tool: text,
    tool_call_id: text,
    findings: json<readonly string[]>(),
    content: text,
    /** Bytes that it counts against the quota. */
    bytes: integer,
  },
  ({ text: content, threadKey: thread_key }) => ({
    ...{ id: "row", created_at: 5, expires_at: 1000, thread_key, thread_id: "t1", manifest_id: "m", tool: content },
    ...{ tool_call_id: "c", findings: [content], content, bytes: 5 },
  }),
);

/** A withheld text. */
export type QuarantinedRow = RowIn<typeof quarantineTable>;

/** Bytes that a row counts in addition to its text. */
const rowBytes = 256;

const insertQuarantined = insertInto(quarantineTable);
const selectQuarantined = selectOne(quarantineTable, ["id"]);
const deleteQuarantined = tenantSql("quarantine_delete", "DELETE FROM quarantine WHERE tenant_id = :tenant AND id = ?");
/** Locks the texts of a thread, so that a sweep and the deletion of the thread wait for each other. */
const lockOfThread = tenantSql(
  "quarantine_lock",
  "UPDATE quarantine SET bytes = bytes WHERE tenant_id = :tenant AND thread_key = ?",
);
const giveBackOfThread = tenantSql(
  "quarantine_give_back",
  `UPDATE stored_bytes SET bytes = bytes -
     (SELECT COALESCE(CAST(SUM(q.bytes) AS BIGINT), 0) FROM quarantine q WHERE q.tenant_id = :tenant AND q.thread_key = ?)
   WHERE tenant_id = :tenant AND kind = ?`,
);
const deleteOfThread = tenantSql(
  "quarantine_delete_of_thread",
  "DELETE FROM quarantine WHERE tenant_id = :tenant AND thread_key = ?",
);
const selectExpired = systemSql(
  "quarantine_lapsed",
  "SELECT tenant_id, id, bytes FROM quarantine WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
);

/** Stores a text. `limit` is the tenant's storage quota, 0 for none. Refuses with storage_quota_exceeded. */
export async function writeQuarantined(
  store: TenantStore,
  row: Omit<QuarantinedRow, "bytes">,
  limit: number,
): Promise<void> {
  const bytes = Buffer.byteLength(row.content) + rowBytes;
  await writeStored(store, { kind: "quarantine", bytes }, limit, [insertQuarantined(store, { ...row, bytes })]);
}

/** Returns a withheld text of the tenant, unless it has expired. */
export async function quarantined(store: TenantStore, id: string, now: number): Promise<QuarantinedRow | undefined> {
  const row = await selectQuarantined(store, id);
  return row === undefined || (row.expires_at !== null && row.expires_at <= now) ? undefined : row;
}

/** Deletes the texts of a thread and subtracts their bytes from the quota. */
export function deleteQuarantineOps(store: TenantStore, threadKey: number): WriteOp[] {
  return [
    store.op(lockOfThread, [threadKey]),
    ...storedRows("quarantine").map((kind) => store.op(giveBackOfThread, [threadKey, kind])),
    store.op(deleteOfThread, [threadKey]),
  ];
}

/** Deletes up to `limit` expired texts of all tenants. Returns their number. */
export async function deleteExpiredQuarantine(store: Store, now: number, limit: number): Promise<number> {
  const lapsed = await store.system.read(selectExpired, now, limit);
  let deleted = 0;
  for (const row of lapsed) {
    const { tenant_id, id, bytes } = row as { tenant_id: string; id: string; bytes: number };
    const tenant = store.tenant(tenant_id);
    const change = { kind: "quarantine", bytes: -bytes } as const;
    try {
      await writeStored(tenant, change, 0, [tenant.op(deleteQuarantined, [id], 1)]);
      deleted++;
    } catch (error) {
      // Its thread was deleted in the meantime.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
  return deleted;
}
