import type { Outcomes } from "../../bus/protocol/manifests.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";
import { integer, type RowIn, real, selectOne, table, text, upsertInto } from "../store/table.ts";

// Failure rates of runs. The recent rate is read from the runs in pages. The usual rate is a row per manifest, with
// sums that decay. Runs that were stopped, interrupted by a crash, or expired without an answer are not counted,
// because they say nothing about the manifest, and neither are those of evaluations.

const rateTable = table(
  "run_rates",
  {
    manifest: text,
    /** Both decay, so that recent runs count more. */
    runs: real,
    failures: real,
    seen_at: integer,
  },
  ({ text }) => ({ manifest: text, runs: 1, failures: 1, seen_at: 5 }),
);

/** The usual failure rate of a manifest's runs. */
export type RateRow = RowIn<typeof rateTable>;

/** Outcomes of the runs of one version of a manifest. */
export interface VersionOutcomes extends Outcomes {
  readonly tenant_id: string;
  readonly manifest: string;
  /** Version in the tenant's store; null for a manifest that is not stored there. */
  readonly version: number | null;
  /** Time of the last pointer change, if there is a canary; else null. */
  readonly rollout: number | null;
  /** Outcomes of the runs that started since then. */
  readonly ofRollout: Outcomes;
}

/** A position among ended runs. */
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
  surface: string,
) => `SELECT q.tenant_id, q.manifest, q.version, p.updated_at AS rollout, COUNT(*) AS runs,
     SUM(q.failed) AS failures,
     SUM(CASE WHEN q.started_at >= p.updated_at THEN 1 ELSE 0 END) AS rollout_runs,
     SUM(CASE WHEN q.started_at >= p.updated_at THEN q.failed ELSE 0 END) AS rollout_failures
   FROM (SELECT tenant_id, manifest, manifest_version AS version, started_at,
       CASE WHEN status = 'completed' THEN 0 ELSE 1 END AS failed, status, ${error} AS error, ${surface} AS surface
     FROM runs WHERE ${between} ORDER BY ended_at, run_key LIMIT ?) q
   LEFT JOIN manifest_pointers p ON p.tenant_id = q.tenant_id AND p.name = q.manifest AND p.canary_version IS NOT NULL
   WHERE q.status IN ('completed', 'failed', 'dead') AND (q.error IS NULL OR q.error NOT IN ('aborted', 'interrupted'))
     AND q.surface <> 'eval'
   GROUP BY q.tenant_id, q.manifest, q.version, p.updated_at`;
const selectOutcomes = systemSql("run_outcomes", {
  sqlite: outcomes("result ->> '$.error'", "asked ->> '$.surface'"),
  postgres: outcomes("CAST(result AS json) ->> 'error'", "CAST(asked AS json) ->> 'surface'"),
});
const deleteUnseen = systemSql(
  "run_rates_delete_unseen",
  `DELETE FROM run_rates WHERE (tenant_id, manifest) IN
     (SELECT tenant_id, manifest FROM run_rates WHERE seen_at < ? ORDER BY seen_at LIMIT ?) RETURNING seen_at`,
);

/** Returns the usual failure rate of a manifest, if known. */
export const usualRate = selectOne(rateTable, ["manifest"]);

/** Sets the usual failure rate of a manifest. */
export const setUsualRateOp = upsertInto(rateTable, ["manifest"]);

/**
 * Returns the outcomes of runs after a position and up to a time, by version, from at most `limit` runs of all tenants.
 * `last` is the position of the last run; null if there are none.
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

/** Deletes up to `limit` rates of manifests that have not run since a time. Returns their number. */
export async function deleteUnseenRates(store: Scope, until: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteUnseen, [until, limit])]);
  return rows?.length ?? 0;
}
