import type { Outcomes } from "../../bus/protocol/manifests.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";
import { integer, type RowIn, real, selectOne, table, text, upsertInto } from "../store/table.ts";

// How runs have ended: of late, read from the runs themselves in pages, and usually, in a row for each manifest whose sums fade. Runs that
// somebody has stopped, that a crash has cut off, or that nobody has answered in time say nothing of their manifest and are not counted.

const rateTable = table(
  "run_rates",
  {
    manifest: text,
    /** Both fade, so that they say what was usual of late. */
    runs: real,
    failures: real,
    seen_at: integer,
  },
  ({ text }) => ({ manifest: text, runs: 1, failures: 1, seen_at: 5 }),
);

/** How a manifest's runs usually end. */
export type RateRow = RowIn<typeof rateTable>;

/** How the runs of one version of a manifest have ended. */
export interface VersionOutcomes extends Outcomes {
  readonly tenant_id: string;
  readonly manifest: string;
  /** Of the tenant's store; null for a manifest that it has not stored. */
  readonly version: number | null;
  /** When the pointer was last moved, while it has a canary; else null. */
  readonly rollout: number | null;
  /** Of those that began since then. */
  readonly ofRollout: Outcomes;
}

/** A place among ended runs. */
export interface EndedPlace {
  readonly ended_at: number;
  readonly run_key: number;
}

const between = "ended_at IS NOT NULL AND (ended_at, run_key) > (?, ?) AND ended_at <= ?";
const selectLast = systemSql(
  "run_outcomes_last",
  `SELECT ended_at, run_key FROM (SELECT ended_at, run_key FROM runs WHERE ${between} ORDER BY ended_at, run_key LIMIT ?) page
   ORDER BY ended_at DESC, run_key DESC LIMIT 1`,
);
const outcomes = (
  error: string,
) => `SELECT q.tenant_id, q.manifest, q.version, p.updated_at AS rollout, COUNT(*) AS runs,
     SUM(q.failed) AS failures,
     SUM(CASE WHEN q.started_at >= p.updated_at THEN 1 ELSE 0 END) AS rollout_runs,
     SUM(CASE WHEN q.started_at >= p.updated_at THEN q.failed ELSE 0 END) AS rollout_failures
   FROM (SELECT tenant_id, manifest, manifest_version AS version, started_at,
       CASE WHEN status = 'completed' THEN 0 ELSE 1 END AS failed, status, ${error} AS error
     FROM runs WHERE ${between} ORDER BY ended_at, run_key LIMIT ?) q
   LEFT JOIN manifest_pointers p ON p.tenant_id = q.tenant_id AND p.name = q.manifest AND p.canary_version IS NOT NULL
   WHERE q.status IN ('completed', 'failed', 'dead') AND (q.error IS NULL OR q.error NOT IN ('aborted', 'interrupted'))
   GROUP BY q.tenant_id, q.manifest, q.version, p.updated_at`;
const selectOutcomes = systemSql("run_outcomes", {
  sqlite: outcomes("result ->> '$.error'"),
  postgres: outcomes("CAST(result AS json) ->> 'error'"),
});
const deleteUnseen = systemSql(
  "run_rates_delete_unseen",
  `DELETE FROM run_rates WHERE (tenant_id, manifest) IN
     (SELECT tenant_id, manifest FROM run_rates WHERE seen_at < ? ORDER BY seen_at LIMIT ?) RETURNING seen_at`,
);

/** How a manifest's runs usually end, if that is known. */
export const usualRate = selectOne(rateTable, ["manifest"]);

/** Says how a manifest's runs usually end. */
export const setUsualRateOp = upsertInto(rateTable, ["manifest"]);

/**
 * How runs have ended behind a place, up to a time, by version; at most `limit` runs of all tenants at once, and where that ended: null
 * behind the last of them.
 */
export async function outcomesPage(
  store: Scope,
  after: EndedPlace,
  until: number,
  limit: number,
): Promise<{ readonly items: readonly VersionOutcomes[]; readonly last: EndedPlace | null }> {
  const page = [after.ended_at, after.run_key, until, limit];
  const [last] = await store.readLong(selectLast, ...page);
  if (last === undefined) return { items: [], last: null };
  const rows = await store.readLong(selectOutcomes, ...page);
  const items = rows.map((row) => ({
    tenant_id: row.tenant_id as string,
    manifest: row.manifest as string,
    version: row.version as number | null,
    rollout: row.rollout as number | null,
    runs: Number(row.runs),
    failures: Number(row.failures),
    ofRollout: { runs: Number(row.rollout_runs), failures: Number(row.rollout_failures) },
  }));
  return { items, last: { ended_at: last.ended_at as number, run_key: last.run_key as number } };
}

/** Deletes at most `limit` rates of manifests that have not run since a time; answers how many. */
export async function deleteUnseenRates(store: Scope, until: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteUnseen, [until, limit])]);
  return rows?.length ?? 0;
}
