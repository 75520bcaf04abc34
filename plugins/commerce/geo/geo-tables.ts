import { list } from "../../../storage/store/list.ts";
import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertInto, integer, json, type RowIn, selectOne, table, text } from "../../../storage/store/table.ts";

// Questions to models about brands, and the judged answers.

/** The questions. */
export const geoQueryTable = table(
  "commerce_geo_queries",
  {
    id: text,
    ts: integer,
    brand_id: text,
    query_text: text,
    /** Ids of the models to ask; empty for the one of GEO_MONITOR. */
    models: json<readonly string[]>(),
    active: integer,
    /** Time of the last pass; 0 for none. */
    asked_at: integer,
  },
  ({ text: query_text }) => ({
    ...{ id: "row", ts: 5, brand_id: "row", query_text, models: [query_text], active: 1, asked_at: 5 },
  }),
);

/** The answers. */
export const observationTable = table(
  "commerce_geo_observations",
  {
    id: text,
    ts: integer,
    query_id: text,
    brand_id: text,
    /** Id of the model. */
    engine: text,
    brand_mentioned: integer,
    /** Position of the brand among the named ones, from 1; 0 if it is absent. */
    rank: integer,
    competitors: json<readonly string[]>(),
    products: json<readonly string[]>(),
    answer_excerpt: text,
  },
  ({ text: answer_excerpt }) => ({
    ...{ id: "row", ts: 5, query_id: "row", brand_id: "row", engine: "demo", brand_mentioned: 1, rank: 5 },
    ...{ competitors: [answer_excerpt], products: [answer_excerpt], answer_excerpt },
  }),
);

/** A stored question. */
export type GeoQueryRow = RowIn<typeof geoQueryTable>;
/** A stored answer. */
export type ObservationRow = RowIn<typeof observationTable>;

/** Max questions of a brand. */
export const queriesMax = 500;

const { columns } = geoQueryTable;
const insertQuery = tenantSql(
  "commerce_geo_query_insert",
  `INSERT INTO commerce_geo_queries (tenant_id, ${columns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, brand_id, query_text) DO UPDATE SET models = excluded.models, active = excluded.active`,
);
const selectByText = tenantSql(
  "commerce_geo_query_by_text",
  `SELECT ${columns} FROM commerce_geo_queries WHERE tenant_id = :tenant AND brand_id = ? AND query_text = ?`,
);
const countQueries = tenantSql(
  "commerce_geo_queries_count",
  "SELECT COUNT(*) AS count FROM commerce_geo_queries WHERE tenant_id = :tenant AND brand_id = ?",
);
const deleteQuery = tenantSql(
  "commerce_geo_query_delete",
  "DELETE FROM commerce_geo_queries WHERE tenant_id = :tenant AND id = ? RETURNING id",
);
const claimQuery = tenantSql(
  "commerce_geo_query_claim",
  "UPDATE commerce_geo_queries SET asked_at = ? WHERE tenant_id = :tenant AND id = ? AND asked_at = ? AND active = 1",
);
const selectDue = systemSql(
  "commerce_geo_queries_due",
  `SELECT tenant_id, ${columns} FROM commerce_geo_queries WHERE active = 1 AND asked_at < ? ORDER BY asked_at LIMIT ?`,
);
const selectFigures = tenantSql(
  "commerce_geo_figures",
  `SELECT engine, COUNT(*) AS observations, SUM(brand_mentioned) AS mentions, SUM(rank) AS ranks
   FROM commerce_geo_observations WHERE tenant_id = :tenant AND brand_id = ? AND ts >= ? AND ts < ?
   GROUP BY engine ORDER BY engine LIMIT 200`,
);
const selectNamed = tenantSql("commerce_geo_competitors", {
  sqlite: `SELECT named.value AS name, COUNT(*) AS mentions
    FROM commerce_geo_observations o INDEXED BY commerce_geo_observations_brand, json_each(o.competitors) named
    WHERE o.tenant_id = :tenant AND o.brand_id = ? AND o.ts >= ? AND o.ts < ?
    GROUP BY named.value ORDER BY COUNT(*) DESC, named.value LIMIT 50`,
  postgres: `SELECT named.value AS name, COUNT(*) AS mentions
    FROM commerce_geo_observations o, jsonb_array_elements_text(CAST(o.competitors AS jsonb)) named (value)
    WHERE o.tenant_id = :tenant AND o.brand_id = ? AND o.ts >= ? AND o.ts < ?
    GROUP BY named.value ORDER BY COUNT(*) DESC, named.value LIMIT 50`,
});
const selectAsked = tenantSql(
  "commerce_geo_queries_observed",
  `SELECT COUNT(DISTINCT query_id) AS queries FROM commerce_geo_observations
   WHERE tenant_id = :tenant AND brand_id = ? AND ts >= ? AND ts < ?`,
);
const deleteOld = systemSql("commerce_geo_observations_delete", "DELETE FROM commerce_geo_observations WHERE ts < ?");

/** Returns a page of questions, newest first. */
export const geoQueryPage = list(geoQueryTable, ["brand_id"], {
  indexes: { brand_id: "commerce_geo_queries_brand" },
}).page;
/** Returns a page of answers, newest first. */
export const observationPage = list(observationTable, ["query_id", "brand_id"], {
  indexes: { query_id: "commerce_geo_observations_query", brand_id: "commerce_geo_observations_brand" },
}).page;
/** Returns a question. */
export const geoQueryById = selectOne(geoQueryTable, ["id"]);
/** Returns the operation that stores an answer. */
export const insertObservationOp: (store: TenantStore, row: ObservationRow) => WriteOp = insertInto(observationTable);

/** Returns the operation that stores a question; one with the same text gets its models. */
export function putGeoQueryOp(store: TenantStore, row: GeoQueryRow): WriteOp {
  return store.op(insertQuery, geoQueryTable.encode(row));
}

/** Returns the question of a brand with a text. */
export async function geoQueryByText(
  store: TenantStore,
  brandId: string,
  queryText: string,
): Promise<GeoQueryRow | undefined> {
  const [row] = await store.read(selectByText, brandId, queryText);
  return row && geoQueryTable.decode(row);
}

/** Returns the number of questions of a brand. */
export async function geoQueryCount(store: TenantStore, brandId: string): Promise<number> {
  return Number((await store.read(countQueries, brandId))[0]?.count ?? 0);
}

/** Deletes a question; returns false if there is none. */
export async function removeGeoQuery(store: TenantStore, id: string): Promise<boolean> {
  const [rows = []] = await store.write([store.op(deleteQuery, [id])]);
  return rows.length > 0;
}

/** Returns the operation that takes a question for a pass. Its batch refuses with conflict if another process was first. */
export function claimGeoQueryOp(store: TenantStore, { id, asked_at }: GeoQueryRow, now: number): WriteOp {
  return store.op(claimQuery, [now, id, asked_at], 1);
}

/** Returns the questions that were asked the longest time ago, before a time, over all tenants. */
export async function dueGeoQueries(
  store: Store,
  before: number,
  limit: number,
): Promise<{ readonly tenant_id: string; readonly query: GeoQueryRow }[]> {
  const rows = await store.system.read(selectDue, before, limit);
  return rows.map((row) => ({ tenant_id: row.tenant_id as string, query: geoQueryTable.decode(row) }));
}

/** What the answers about a brand said in a time. */
export interface GeoFigures {
  readonly queries: number;
  readonly engines: readonly { engine: string; observations: number; mentions: number; ranks: number }[];
  readonly competitors: readonly { name: string; mentions: number }[];
}

/** Returns what the answers about a brand said in a time. */
export async function geoFigures(
  store: TenantStore,
  brandId: string,
  since: number,
  until: number,
): Promise<GeoFigures> {
  const [engines, named, asked] = await Promise.all([
    store.readLong(selectFigures, brandId, since, until),
    store.readLong(selectNamed, brandId, since, until),
    store.readLong(selectAsked, brandId, since, until),
  ]);
  return {
    queries: Number(asked[0]?.queries ?? 0),
    engines: engines.map(({ engine, observations, mentions, ranks }) => {
      return {
        engine: String(engine),
        observations: Number(observations),
        mentions: Number(mentions),
        ranks: Number(ranks),
      };
    }),
    competitors: named.map(({ name, mentions }) => ({ name: String(name), mentions: Number(mentions) })),
  };
}

/** Deletes answers from before a time. */
export async function deleteOldObservations(store: Store, before: number): Promise<void> {
  await store.system.write([store.system.op(deleteOld, [before])]);
}
