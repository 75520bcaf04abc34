import { list } from "../store/list.ts";
import { type Row, tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, oneOf, type RowIn, real, table, text } from "../store/table.ts";

const usageTable = table("usage", {
  id: text,
  ts: integer,
  manifest_id: text,
  /** The route; `wire_model_id` is the provider's name. */
  model_id: text,
  wire_model_id: text,
  /** `decider` for a question to a decider model; `tokens` for any call without a kind of its own. */
  kind: oneOf("tokens", "decider", "judge", "screener", "embedding", "skill_eval", "skill_improve", "geo"),
  /** Without cached tokens. */
  tokens_input: integer,
  tokens_output: integer,
  cache_creation: integer,
  cache_read: integer,
  cost_usd: real,
  /** The full id, empty for a turn without a thread. */
  thread_id: text,
  meta_json: text,
});

/** Usage and cost of one model call. */
export type UsageRow = RowIn<typeof usageTable>;

/** Details of a call, stored as `meta_json`. */
interface UsageMeta {
  readonly provider: string;
  readonly request_id: string;
  readonly estimated: boolean;
}

/** Returns the text of `meta_json`; `estimated` is present only if true. */
export function usageMeta({ provider, request_id, estimated }: UsageMeta): string {
  return JSON.stringify({ provider, request_id, ...(estimated && { estimated }) });
}

/** True if svc estimated the usage because the provider reported none. */
export function isEstimated({ meta_json }: Pick<UsageRow, "meta_json">): boolean {
  return (JSON.parse(meta_json) as Partial<UsageMeta>).estimated === true;
}

/** Inserts the usage of one model call. */
export const insertUsageOp = insertInto(usageTable, "ledger");

/** True if the operation inserts a usage row. */
export function isUsageOp({ statement }: WriteOp): boolean {
  return statement.name === "usage_insert";
}

/** Returns one page, newest first. Refuses with invalid_cursor. */
export const usagePage = list(usageTable, ["manifest_id", "thread_id"], {
  indexes: { thread_id: "usage_by_thread", manifest_id: "usage_by_manifest" },
}).page;

/** Sums over several model calls. */
export interface UsageSums {
  readonly calls: number;
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly cache_creation: number;
  readonly cache_read: number;
  /** Rounded to 8 decimals. */
  readonly cost_usd: number;
}

/** Usage by manifest, model and day. */
export interface UsageSummary {
  readonly items: readonly (UsageSums & {
    readonly manifest_id: string;
    readonly model_id: string;
    /** The UTC day, as YYYY-MM-DD. */
    readonly day: string;
  })[];
  readonly totals: UsageSums;
}

/** Usage by thread, the most recently used first. */
export interface ThreadsUsage {
  readonly items: readonly (UsageSums & {
    readonly thread_id: string;
    readonly first_ts: number;
    readonly last_ts: number;
  })[];
  /** Over all threads, including those beyond the limit. */
  readonly totals: UsageSums;
  readonly truncated: boolean;
}

/** From `since` to before `until`, in epoch milliseconds. */
export interface UsageWindow {
  readonly since: number;
  readonly until: number;
}

const sums = `COUNT(*) AS calls, SUM(tokens_input) AS tokens_input, SUM(tokens_output) AS tokens_output,
  SUM(cache_creation) AS cache_creation, SUM(cache_read) AS cache_read, SUM(cost_usd) AS cost_usd`;
const inWindow = "FROM usage WHERE tenant_id = :tenant AND ts >= ? AND ts < ?";

/** A UTC day in milliseconds. */
const dayMs = 86_400_000;
const summed = ["calls", "tokens_input", "tokens_output", "cache_creation", "cache_read", "cost_usd"] as const;
const oneCall = `manifest_id, model_id, ts / ${dayMs} AS day, 1 AS calls, ${summed.slice(1).join(", ")}`;

// A trigger adds the rows of each day to usage_days. Only the first and last day of a window are summed from their
// rows. This happens only if the tenant has rows of that day outside the window.
const selectSummary = tenantSql(
  "usage_summary",
  `SELECT manifest_id, model_id, day, ${summed.map((name) => `SUM(${name}) AS ${name}`).join(", ")} FROM (
   WITH wanted AS (SELECT
     CAST(? AS BIGINT) AS since, CAST(? AS BIGINT) AS until, CAST(? AS TEXT) AS manifest,
     CASE WHEN EXISTS (SELECT 1 FROM usage WHERE tenant_id = :tenant AND ts >= ? AND ts < ?)
       THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END AS first_day,
     CASE WHEN EXISTS (SELECT 1 FROM usage WHERE tenant_id = :tenant AND ts >= ? AND ts < ?)
       THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END AS end_day
   )
     SELECT manifest_id, model_id, day, ${summed.join(", ")} FROM wanted CROSS JOIN usage_days
     WHERE tenant_id = :tenant AND day >= first_day AND day < end_day AND (manifest IS NULL OR manifest_id = manifest)
     UNION ALL
     SELECT ${oneCall} FROM wanted CROSS JOIN usage
     WHERE tenant_id = :tenant AND ts >= since AND ts < CASE WHEN first_day * ${dayMs} < until THEN first_day * ${dayMs} ELSE until END
       AND (manifest IS NULL OR manifest_id = manifest)
     UNION ALL
     SELECT ${oneCall} FROM wanted CROSS JOIN usage
     WHERE tenant_id = :tenant AND ts >= CASE WHEN first_day > end_day THEN first_day ELSE end_day END * ${dayMs} AND ts < until
       AND (manifest IS NULL OR manifest_id = manifest)
   ) parts
   GROUP BY manifest_id, model_id, day ORDER BY day DESC, manifest_id, model_id`,
);
const selectThreads = tenantSql(
  "usage_threads",
  `SELECT thread_id, MIN(ts) AS first_ts, MAX(ts) AS last_ts, ${sums} ${inWindow} AND thread_id <> ''
   GROUP BY thread_id ORDER BY last_ts DESC, thread_id LIMIT ?`,
);
const selectThreadsTotals = tenantSql("usage_threads_totals", `SELECT ${sums} ${inWindow} AND thread_id <> ''`);

/** Returns usage per manifest, model and UTC day, newest day first, and in total. */
export async function usageSummary(
  store: TenantStore,
  window: UsageWindow,
  manifestId: string | null,
): Promise<UsageSummary> {
  const { since, until } = window;
  const [firstDay, firstWhole] = daysAround(since);
  const [lastWhole, endDay] = daysAround(until);
  const rows = await store.readLong(
    selectSummary,
    ...[since, until, manifestId],
    ...[firstDay * dayMs, since, firstWhole, firstDay],
    ...[until, endDay * dayMs, lastWhole, endDay],
  );
  const items = rows.map((row) => ({
    manifest_id: row.manifest_id as string,
    model_id: row.model_id as string,
    day: utcDay(row.day as number),
    ...toSums(row),
  }));
  // Summed from the rows, because the costs of the items are rounded.
  return { items, totals: addUp(rows) };
}

/** Returns usage per thread, the most recently active first, and in total. Excludes turns without a thread. */
export async function threadsUsage(store: TenantStore, window: UsageWindow, limit: number): Promise<ThreadsUsage> {
  const rows = await store.readLong(selectThreads, window.since, window.until, limit + 1);
  const [totals] = await store.readLong(selectThreadsTotals, window.since, window.until);
  return {
    items: rows.slice(0, limit).map((row) => ({
      thread_id: row.thread_id as string,
      ...toSums(row),
      first_ts: row.first_ts as number,
      last_ts: row.last_ts as number,
    })),
    totals: toSums(totals as Row),
    truncated: rows.length > limit,
  };
}

function toSums(row: Row): UsageSums {
  return addUp([row]);
}

function addUp(rows: readonly Row[]): UsageSums {
  const total = Object.fromEntries(summed.map((key) => [key, 0])) as Record<(typeof summed)[number], number>;
  for (const row of rows) for (const key of summed) total[key] += (row[key] as number | null) ?? 0;
  return { ...total, cost_usd: Math.round(total.cost_usd * 1e8) / 1e8 };
}

/** Returns the day of a time, and the first day that starts at or after it. */
function daysAround(ts: number): [before: number, after: number] {
  return [Math.floor(ts / dayMs), Math.ceil(ts / dayMs)];
}

function utcDay(daysSinceEpoch: number): string {
  return new Date(daysSinceEpoch * dayMs).toISOString().slice(0, 10);
}
