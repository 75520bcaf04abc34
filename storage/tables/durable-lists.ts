import { readCursor, writeCursor } from "../store/cursor.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { type RowIn, table, text } from "../store/table.ts";
import { durableColumns, durableTable } from "./durable-rows.ts";

// Lists of a tenant's durable runs, in pages.

const listedTable = table("fibers", {
  ...durableColumns,
  status: text,
  manifest: text,
});
/** A durable run as lists show it. */
export type ListedDurable = RowIn<typeof listedTable>;

const listed = `SELECT ${durableTable.columns.replace(/\w+/g, "f.$&")}, r.status, r.manifest FROM fibers f JOIN runs r ON r.run_key = f.run_key
   WHERE f.tenant_id = :tenant AND (f.accepted_at, f.run_id) < (?, ?)`;
const newestFirst = "ORDER BY f.accepted_at DESC, f.run_id DESC LIMIT ?";
const selectPage = tenantSql("fibers_page", `${listed} ${newestFirst}`);
const selectPageOfStatus = tenantSql("fibers_page_status", `${listed} AND r.status = ? ${newestFirst}`);
// Dead runs are few and have their own index. Their start time equals their acceptance.
const dead = "FROM runs r JOIN fibers f ON f.run_key = r.run_key WHERE r.tenant_id = :tenant AND r.status = 'dead'";
const selectPageOfDead = tenantSql(
  "fibers_page_dead",
  `SELECT ${durableTable.columns.replace(/\w+/g, "f.$&")}, r.status, r.manifest ${dead} AND (r.started_at, r.run_id) < (?, ?)
   ORDER BY r.started_at DESC, r.run_id DESC LIMIT ?`,
);
const left = `SELECT f.run_id, f.suffix, r.started_at ${dead} AND (r.started_at, r.run_id) > (?, ?)
     AND f.requeued_as IS NULL AND f.ended_at <= ?`;
const oldestFirst = "ORDER BY r.started_at, r.run_id LIMIT ?";
const selectLeft = tenantSql("fibers_left", `${left} ${oldestFirst}`);
const selectLeftOfManifest = tenantSql("fibers_left_manifest", `${left} AND r.manifest = ? ${oldestFirst}`);

/** Returns one page of durable runs, newest first, optionally of one status. Refuses with invalid_cursor. */
export async function durablePage(
  store: TenantStore,
  status: string | null,
  cursor: string | null,
  limit: number,
): Promise<{ rows: ListedDurable[]; next_cursor: string | null }> {
  const before = cursor === null ? [Number.MAX_SAFE_INTEGER, ""] : readCursor(cursor, ["number", "string"]);
  // One row more than the page shows whether another page follows.
  const found = await (status === null
    ? store.read(selectPage, ...before, limit + 1)
    : status === "dead"
      ? store.read(selectPageOfDead, ...before, limit + 1)
      : store.readLong(selectPageOfStatus, ...before, status, limit + 1));
  const rows = found.map((row) => listedTable.decode(row));
  const more = rows.length > limit;
  if (more) rows.pop();
  const last = rows.at(-1);
  return { rows, next_cursor: more && last ? writeCursor([last.accepted_at, last.run_id]) : null };
}

/** The selection of dead runs. */
export interface DeadRuns {
  /** Manifest id; null for any. */
  readonly manifest: string | null;
  /** Latest time of death, in epoch milliseconds. */
  readonly until: number;
  /** Cursor of the previous page; null for the first. */
  readonly cursor: string | null;
}

/** A dead run that no other run continues, and the cursor after it. */
export interface DeadRun {
  readonly run_id: string;
  readonly suffix: string;
  readonly cursor: string;
}

/** Returns dead runs that no other run continues, oldest first. Refuses with invalid_cursor. */
export async function deadDurables(
  store: TenantStore,
  { manifest, until, cursor }: DeadRuns,
  limit: number,
): Promise<DeadRun[]> {
  const after = cursor === null ? [-1, ""] : readCursor(cursor, ["number", "string"]);
  const rows = await (manifest === null
    ? store.readLong(selectLeft, ...after, until, limit)
    : store.readLong(selectLeftOfManifest, ...after, until, manifest, limit));
  return rows.map((row) => {
    const { run_id, suffix, started_at } = row as unknown as { run_id: string; suffix: string; started_at: number };
    return { run_id, suffix, cursor: writeCursor([Number(started_at), run_id]) };
  });
}
