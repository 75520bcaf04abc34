import { list } from "../store/list.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, type RowIn, real, table, text } from "../store/table.ts";

const columns = {
  id: text,
  ts: integer,
  event_type: text,
  manifest_id: text,
  principal_subj: text,
  status: text,
  /** JSON, already masked. */
  payload: text,
};
const auditTable = table("audit", columns);
/** With the columns of a tool call that the metrics need. */
export const wholeAuditTable = table("audit", { ...columns, tool: nullable(text), latency_ms: nullable(real) });
const insertAudit = insertInto(wholeAuditTable, "ledger");

/** An audit row with all its columns. */
export type WholeAuditRow = RowIn<typeof wholeAuditTable>;

/** A stored audit row; the store adds the tenant. */
export type AuditRow = RowIn<typeof auditTable>;

const audit = list(auditTable, ["event_type", "status", "manifest_id"], {
  common: { event_type: ["user_input", "final_response"], status: ["ok"] },
  indexes: { status: "audit_by_status", event_type: "audit_by_type" },
  unindexed: ["manifest_id"],
});

/** The filters of an audit query: rows match all given fields. */
export type AuditFilter = Parameters<typeof audit.page>[1];

/** Returns one page, newest first. Refuses with invalid_cursor and invalid_window. */
export const auditPage = audit.page;
/** Yields every row of a window, newest first, in pages. */
export const auditExport = audit.all;

/** Calls, errors and latency of a tool. */
export interface ToolMetrics {
  readonly tool: string;
  readonly calls: number;
  readonly errors: number;
  /** Mean over the timed calls, 0 if there are none. */
  readonly avg_latency_ms: number;
}

/** Repeats the WHERE clause of the index by type, as the engines require. */
const isRareType = "event_type <> 'user_input' AND event_type <> 'final_response'";
const selectToolMetrics = tenantSql(
  "audit_tool_metrics",
  `SELECT tool, COUNT(*) AS calls, SUM(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS errors, AVG(latency_ms) AS latency
   FROM audit INDEXED BY audit_by_type
   WHERE tenant_id = :tenant AND event_type = 'tool_call' AND ${isRareType} AND ts >= ? AND tool IS NOT NULL
   GROUP BY tool ORDER BY calls DESC, tool LIMIT ?`,
);

const erasePayload = tenantSql(
  "audit_erase_payload",
  "UPDATE audit SET payload = ? WHERE tenant_id = :tenant AND ts = ? AND id = ?",
);

/** Returns the operation that replaces the payload of a row. */
export function erasePayloadOp(store: TenantStore, ts: number, id: string, payload: string): WriteOp {
  return store.op(erasePayload, [payload, ts, id]);
}

/** Inserts a row. Takes the metrics columns of a tool call from its payload. */
export function insertAuditOp(store: TenantStore, row: AuditRow): WriteOp {
  const call = row.event_type === "tool_call" ? readCall(row.payload) : {};
  return insertAudit(store, {
    ...row,
    tool: typeof call.tool === "string" ? call.tool : null,
    latency_ms: typeof call.latency_ms === "number" ? call.latency_ms : null,
  });
}

function readCall(payload: string): { tool?: unknown; latency_ms?: unknown } {
  try {
    return Object(JSON.parse(payload));
  } catch {
    // Masking has cut through the JSON: the row is stored, but the metrics cannot name its tool.
    return {};
  }
}

/** Returns calls, errors and mean latency of each tool since a time, the most called first. */
export async function auditToolMetrics(store: TenantStore, since: number, limit: number): Promise<ToolMetrics[]> {
  const rows = await store.readLong(selectToolMetrics, since, limit);
  return rows.map((row) => ({
    tool: row.tool as string,
    calls: row.calls as number,
    errors: row.errors as number,
    avg_latency_ms: (row.latency as number | null) ?? 0,
  }));
}
