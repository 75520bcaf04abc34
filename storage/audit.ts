import { SvcError } from "../bus/errors.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { tenantSql } from "./statements.ts";
import type { TenantStore, WriteOp } from "./store.ts";

/** An audit row as it is kept; the tenant is the store's. */
export interface AuditRow {
  readonly id: string;
  readonly ts: number;
  readonly event_type: string;
  readonly manifest_id: string;
  readonly principal_subj: string;
  readonly status: string;
  /** JSON, already masked. */
  readonly payload: string;
}

/** Which rows are asked for: all that match every field that is given. */
export interface AuditFilter {
  readonly event_type?: string;
  readonly status?: string;
  readonly manifest_id?: string;
  /** Epoch milliseconds, this one included. */
  readonly since?: number;
  /** Epoch milliseconds, this one excluded. */
  readonly until?: number;
}

/** One page of audit rows, newest first. `next_cursor` is null on the last. */
export interface AuditPage {
  readonly rows: AuditRow[];
  readonly next_cursor: string | null;
}

/** How often a tool was called, and how it did. */
export interface ToolMetrics {
  readonly tool: string;
  readonly calls: number;
  readonly errors: number;
  /** The mean over the calls that were timed, 0 when none was. */
  readonly avg_latency_ms: number;
}

/** Rows of one page of an export. */
const exportPageRows = 500;

const columns = "id, ts, event_type, manifest_id, principal_subj, status, payload";
const insertAudit = tenantSql(
  "audit_insert",
  `INSERT INTO audit (tenant_id, ${columns}, tool, latency_ms) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
);
const newestFirst = `tenant_id = :tenant AND (ts, id) < (?, ?) AND ts >= ? AND ts < ?
     AND (CAST(? AS TEXT) IS NULL OR status = ?) AND (CAST(? AS TEXT) IS NULL OR manifest_id = ?)
   ORDER BY ts DESC, id DESC LIMIT ?`;
const selectPage = tenantSql("audit_page", `SELECT ${columns} FROM audit WHERE ${newestFirst}`);
const selectPageOfCommonType = tenantSql(
  "audit_page_of_common_type",
  `SELECT ${columns} FROM audit WHERE event_type = ? AND ${newestFirst}`,
);
/** Written with every turn, so that they are found without an index of their own. */
const commonTypes: ReadonlySet<string> = new Set(["user_input", "final_response"]);
const isRareType = "event_type <> 'user_input' AND event_type <> 'final_response'";
const selectPageOfType = tenantSql(
  "audit_page_of_type",
  `SELECT ${columns} FROM audit WHERE event_type = ? AND ${isRareType} AND ${newestFirst}`,
);
const selectToolMetrics = tenantSql(
  "audit_tool_metrics",
  `SELECT tool, COUNT(*) AS calls, SUM(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS errors, AVG(latency_ms) AS latency
   FROM audit WHERE tenant_id = :tenant AND event_type = 'tool_call' AND ${isRareType} AND ts >= ? AND tool IS NOT NULL
   GROUP BY tool ORDER BY calls DESC, tool LIMIT ?`,
);

/** What the metrics count of a tool call is taken from its payload. */
export function insertAuditOp(store: TenantStore, row: AuditRow): WriteOp {
  const call = row.event_type === "tool_call" ? readCall(row.payload) : {};
  return store.op(insertAudit, [
    row.id,
    row.ts,
    row.event_type,
    row.manifest_id,
    row.principal_subj,
    row.status,
    row.payload,
    typeof call.tool === "string" ? call.tool : null,
    typeof call.latency_ms === "number" ? call.latency_ms : null,
  ]);
}

function readCall(payload: string): { tool?: unknown; latency_ms?: unknown } {
  try {
    return Object(JSON.parse(payload));
  } catch {
    // Masking has cut through the JSON: the row is kept, and counted under no tool.
    return {};
  }
}

/** One page, newest first. Refuses with invalid_cursor and invalid_window. */
export async function auditPage(
  store: TenantStore,
  filter: AuditFilter,
  cursor: string | null,
  limit: number,
): Promise<AuditPage> {
  // The row after the page, if there is one, says that there is another page.
  const rows = await readRows(store, "read", filter, startOf(cursor), limit + 1);
  const more = rows.length > limit;
  if (more) rows.pop();
  const last = rows.at(-1);
  return { rows, next_cursor: more && last ? writeCursor([last.ts, last.id]) : null };
}

/**
 * Every row of a window, newest first, in pages: rows that are written meanwhile are not among them. The first page is read by
 * the first `next()`, so that a caller can still answer with an error.
 */
export async function* auditExport(store: TenantStore, filter: AuditFilter): AsyncGenerator<AuditRow[], void, void> {
  let start = startOf(null);
  while (true) {
    const rows = await readRows(store, "readLong", filter, start, exportPageRows);
    const last = rows.at(-1);
    if (last) yield rows;
    if (!last || rows.length < exportPageRows) return;
    start = [last.ts, last.id];
  }
}

/** Calls, errors and mean latency of each tool since a time, the most called first. */
export async function auditToolMetrics(store: TenantStore, since: number, limit: number): Promise<ToolMetrics[]> {
  const rows = await store.readLong(selectToolMetrics, since, limit);
  return rows.map((row) => ({
    tool: row.tool as string,
    calls: row.calls as number,
    errors: row.errors as number,
    avg_latency_ms: (row.latency as number | null) ?? 0,
  }));
}

/** Rows come before this key in the order of the list. */
type Start = readonly [ts: number, id: string];

function startOf(cursor: string | null): Start {
  return cursor === null ? [Number.MAX_SAFE_INTEGER, ""] : readCursor(cursor, ["number", "string"]);
}

async function readRows(
  store: TenantStore,
  read: "read" | "readLong",
  filter: AuditFilter,
  [ts, id]: Start,
  limit: number,
): Promise<AuditRow[]> {
  const { event_type, status = null, manifest_id = null, since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
  if (until <= since) throw new SvcError("invalid_window");
  const rest = [ts, id, since, until, status, status, manifest_id, manifest_id, limit];
  if (event_type === undefined) return (await store[read](selectPage, ...rest)) as unknown as AuditRow[];
  const statement = commonTypes.has(event_type) ? selectPageOfCommonType : selectPageOfType;
  return (await store[read](statement, event_type, ...rest)) as unknown as AuditRow[];
}
