import { tenantSql } from "./statements.ts";
import type { TenantStore, WriteOp } from "./store.ts";

/** What one model call used and cost. */
export interface UsageRow {
  readonly id: string;
  readonly ts: number;
  readonly manifest_id: string;
  /** The route; `wire_model_id` is the provider's own name. */
  readonly model_id: string;
  readonly wire_model_id: string;
  readonly kind: "tokens";
  /** Without cached tokens. */
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly cache_creation: number;
  readonly cache_read: number;
  readonly cost_usd: number;
  /** The full id, empty for a stateless turn. */
  readonly thread_id: string;
  readonly meta_json: string;
}

const insertUsage = tenantSql(
  "usage_insert",
  `INSERT INTO usage (tenant_id, id, ts, manifest_id, model_id, wire_model_id, kind, tokens_input, tokens_output,
     cache_creation, cache_read, cost_usd, thread_id, meta_json)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
);

export function insertUsageOp(store: TenantStore, row: UsageRow): WriteOp {
  return store.op(insertUsage, [
    row.id,
    row.ts,
    row.manifest_id,
    row.model_id,
    row.wire_model_id,
    row.kind,
    row.tokens_input,
    row.tokens_output,
    row.cache_creation,
    row.cache_read,
    row.cost_usd,
    row.thread_id,
    row.meta_json,
  ]);
}
