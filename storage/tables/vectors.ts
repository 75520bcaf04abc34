import type { Dialect } from "../store/dialect.ts";
import { type Param, type Statement, systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";

// Vectors of texts, one for each key of a corpus (decision 132). A text waits in vector_queue, whose row is written in the
// batch of the text, until a worker has stored its vector. A row of the queue names the version of the text, so that the
// vector of an old text is never stored for a new one.
//
// A search reads all vectors of the tenant up to `exactMax`. Above, SQLite compares one bit of each number first and then
// computes the distances of the best; Postgres uses an HNSW index. Statements with functions of sqlite-vec or pgvector are
// declared at their first use, because a database may lack them.

/** The name of texts that have vectors: documents, memories, or those of a plugin. A key is unique within its corpus. */
export type Corpus = string;

/** A text that waits for its vector. */
export interface QueuedText {
  readonly key: number;
  /** The version of the text. */
  readonly ts: number;
}

/** The model of vectors. Only vectors of the same model and dimensions are compared. */
export interface VectorModel {
  readonly model: string;
  readonly dimensions: number;
}

/** The vector of a query. */
export interface QueryVector extends VectorModel {
  /** Of unit length. */
  readonly vector: Float32Array;
}

/** A key that a search found. */
export interface NearKey {
  readonly key: number;
  /** Cosine similarity, from -1 to 1. */
  readonly similarity: number;
}

/** Max dimensions of pgvector's index. */
export const indexedDimensionsMax = 2_000;
/** Vectors of a tenant and corpus up to which a search compares all of them. */
const exactRowsMax = 10_000;
/** Candidates of the search by bits, for each result. */
const candidatesOfResult = 20;

const engine = systemSql("vectors_engine", {
  sqlite: "SELECT EXISTS (SELECT 1 FROM pragma_function_list WHERE name = 'vec_distance_cosine') AS is_there",
  postgres: "SELECT CAST(to_regtype('vector') IS NOT NULL AS INTEGER) AS is_there",
});
const queue = tenantSql("vector_queue_add", {
  sqlite: `INSERT INTO vector_queue (tenant_id, corpus, key, ts) SELECT :tenant, ?, value, ? FROM json_each(?) wanted WHERE TRUE
    ON CONFLICT (tenant_id, corpus, key) DO UPDATE SET ts = excluded.ts`,
  postgres: `INSERT INTO vector_queue (tenant_id, corpus, key, ts)
    SELECT :tenant, ?, CAST(value AS BIGINT), ? FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value)
    ON CONFLICT (tenant_id, corpus, key) DO UPDATE SET ts = excluded.ts`,
});
const unqueue = tenantSql("vector_queue_remove", {
  sqlite: `DELETE FROM vector_queue WHERE tenant_id = :tenant AND corpus = ? AND (key, ts) IN
    (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?) wanted)`,
  postgres: `DELETE FROM vector_queue WHERE tenant_id = :tenant AND corpus = ? AND (key, ts) IN
    (SELECT CAST(value ->> 0 AS BIGINT), CAST(value ->> 1 AS BIGINT) FROM jsonb_array_elements(CAST(? AS jsonb)) wanted (value))`,
});
const deleteQueued = tenantSql(
  "vector_queue_delete",
  "DELETE FROM vector_queue WHERE tenant_id = :tenant AND corpus = ? AND key >= ? AND key < ?",
);
const deleteVectors = tenantSql(
  "vectors_delete",
  "DELETE FROM vectors WHERE tenant_id = :tenant AND corpus = ? AND key >= ? AND key < ?",
);
const countUpTo = tenantSql(
  "vectors_count",
  "SELECT COUNT(*) AS rows FROM (SELECT 1 FROM vectors WHERE tenant_id = :tenant AND corpus = ? LIMIT ?) counted",
);
const nextTenant = systemSql(
  "vector_queue_next_tenant",
  "SELECT tenant_id FROM vector_queue WHERE tenant_id > ? ORDER BY tenant_id LIMIT 1",
);

const otherModel = systemSql("vectors_other_model", {
  sqlite: "SELECT model, dimensions FROM vector_bits WHERE model <> ? OR dimensions <> ? LIMIT 1",
  postgres: "SELECT model, dimensions FROM vectors WHERE model <> ? OR dimensions <> ? LIMIT 1",
});

const insertTexts = {
  sqlite: `INSERT INTO vectors (tenant_id, corpus, key, model, dimensions, embedding)
    SELECT q.tenant_id, q.corpus, q.key, ?, ?, vec_f32(json_extract(made.value, '$[2]')) FROM json_each(?) made
    CROSS JOIN vector_queue q ON q.tenant_id = :tenant AND q.corpus = ?
      AND q.key = json_extract(made.value, '$[0]') AND q.ts = json_extract(made.value, '$[1]') WHERE TRUE`,
  postgres: `INSERT INTO vectors (tenant_id, corpus, key, model, dimensions, embedding)
    SELECT q.tenant_id, q.corpus, q.key, ?, CAST(? AS BIGINT), CAST(translate(made.value ->> 2, '[]', '{}') AS REAL[])
    FROM jsonb_array_elements(CAST(? AS jsonb)) made (value)
    JOIN vector_queue q ON q.tenant_id = :tenant AND q.corpus = ?
      AND q.key = CAST(made.value ->> 0 AS BIGINT) AND q.ts = CAST(made.value ->> 1 AS BIGINT)`,
};
const replaces = ` ON CONFLICT (tenant_id, corpus, key) DO UPDATE
  SET model = excluded.model, dimensions = excluded.dimensions, embedding = excluded.embedding`;
const insertVectors = once(() =>
  tenantSql("vectors_insert", { sqlite: insertTexts.sqlite + replaces, postgres: insertTexts.postgres + replaces }),
);

/** True if the database can compare vectors: it has sqlite-vec, or pgvector. */
export async function vectorsAreOn(store: Scope): Promise<boolean> {
  const [row] = await store.read(engine);
  return row?.is_there === 1;
}

/** Returns another model of stored vectors, which no search compares; undefined if there is none. */
export async function otherStoredModel(
  store: Scope,
  { model, dimensions }: VectorModel,
): Promise<VectorModel | undefined> {
  const [row] = await store.readLong(otherModel, model, dimensions);
  return row && { model: row.model as string, dimensions: Number(row.dimensions) };
}

/** Returns the operation that queues texts for their vectors, in the batch that writes the texts. `ts` is their version. */
export function queueVectorsOp(store: TenantStore, corpus: Corpus, keys: readonly number[], ts: number): WriteOp {
  return store.op(queue, [corpus, ts, JSON.stringify(keys)]);
}

/** Returns the operations that delete the vectors of keys from `from` up to, but not including, `to`. */
export function deleteVectorsOps(store: TenantStore, corpus: Corpus, from: number, to: number): WriteOp[] {
  return [store.op(deleteVectors, [corpus, from, to]), store.op(deleteQueued, [corpus, from, to])];
}

/** Stores the vectors of queued texts and removes the texts from the queue. Texts that have changed stay in the queue. */
export async function storeVectors(
  store: TenantStore,
  corpus: Corpus,
  { model, dimensions }: VectorModel,
  made: readonly (QueuedText & { readonly vector: Float32Array })[],
): Promise<void> {
  const rows = made.map(({ key, ts, vector }) => [key, ts, vectorText(vector)]);
  await store.write([
    store.op(insertVectors(), [model, dimensions, JSON.stringify(rows), corpus]),
    store.op(unqueue, [corpus, JSON.stringify(made.map(({ key, ts }) => [key, ts]))]),
  ]);
}

/** Declares statements of a corpus whose texts are rows of other tables. */
interface VectorSelection {
  /** Queues the keys that a select returns as `key`, with their versions as `ts`. A queued key keeps its version. */
  readonly queue: Statement;
  /** Deletes the vectors of the keys that a select returns as `key`. */
  readonly forget: Statement;
  /** Removes the keys that a select returns as `key` from the queue. */
  readonly unqueue: Statement;
}

/**
 * Declares the statements that keep the queue of a corpus in the batch that writes its rows: `changed` selects the keys whose text is
 * about to change, `missing` those that need a vector afterwards. `name` is unique and begins the names of the statements.
 */
export function vectorSelection(
  name: string,
  corpus: Corpus,
  changed: Record<Dialect, string>,
  missing: Record<Dialect, string>,
): VectorSelection {
  const both = (text: (select: string) => string, selects: Record<Dialect, string>): Record<Dialect, string> => ({
    sqlite: text(selects.sqlite),
    postgres: text(selects.postgres),
  });
  const without = (table: string) => (select: string) =>
    `DELETE FROM ${table} WHERE tenant_id = :tenant AND corpus = '${corpus}' AND key IN (SELECT found.key FROM (${select}) found)`;
  const queued = (select: string) =>
    `INSERT INTO vector_queue (tenant_id, corpus, key, ts) SELECT :tenant, '${corpus}', found.key, found.ts FROM (${select}) found
     WHERE TRUE ON CONFLICT (tenant_id, corpus, key) DO NOTHING`;
  return {
    queue: tenantSql(`${name}_queue`, both(queued, missing)),
    forget: tenantSql(`${name}_forget`, both(without("vectors"), changed)),
    unqueue: tenantSql(`${name}_unqueue`, both(without("vector_queue"), changed)),
  };
}

/** Removes texts from the queue, which then have no vector. */
export async function leaveWithoutVectors(
  store: TenantStore,
  corpus: Corpus,
  texts: readonly QueuedText[],
): Promise<void> {
  await store.write([store.op(unqueue, [corpus, JSON.stringify(texts.map(({ key, ts }) => [key, ts]))])]);
}

/** Returns the first tenant after `after` with a queued text; undefined if there is none. */
export async function nextQueuedTenant(store: Scope, after: string): Promise<string | undefined> {
  const [row] = await store.read(nextTenant, after);
  return row?.tenant_id as string | undefined;
}

/** A condition of a search on `v.tenant_id` and `v.key`, with its parameters as `?`. */
export type NearFilter = string | Record<Dialect, string>;

/** Returns the nearest keys, nearest first. `params` are those of the filter. */
export type NearestSearch = (
  store: TenantStore,
  query: QueryVector,
  limit: number,
  params?: readonly Param[],
  exactMax?: number,
) => Promise<NearKey[]>;

/**
 * Declares a search of one corpus. `name` is unique and begins the names of its statements. The database must have vectors:
 * see `vectorsAreOn`.
 */
export function nearestSearch(name: string, corpus: Corpus, filter: NearFilter = "TRUE"): NearestSearch {
  const filters = typeof filter === "string" ? { sqlite: filter, postgres: filter } : filter;
  const exact = once(() => tenantSql(`${name}_exact`, exactTexts(corpus, filters)));
  const byIndex = new Map<number, Statement>();
  const indexed = (dimensions: number): Statement => {
    let statement = byIndex.get(dimensions);
    if (statement === undefined) {
      statement = tenantSql(`${name}_near_${dimensions}`, nearTexts(corpus, dimensions, filters));
      byIndex.set(dimensions, statement);
    }
    return statement;
  };
  return async (store, { model, dimensions, vector }, limit, params = [], exactMax = exactRowsMax) => {
    const [{ rows = 0 } = {}] = await store.read(countUpTo, corpus, exactMax + 1);
    if (rows === 0) return [];
    const given = [vectorText(vector), model, dimensions, ...params];
    const found =
      Number(rows) <= exactMax
        ? await store.readLong(exact(), ...given, limit)
        : await store.readLong(indexed(dimensions), ...given, limit * candidatesOfResult, limit);
    return found.map(({ key, similarity }) => ({ key: Number(key), similarity: Number(similarity) }));
  };
}

function ofCorpus(corpus: Corpus, filter: string): string {
  return `v.tenant_id = :tenant AND v.corpus = '${corpus}' AND v.model = ? AND v.dimensions = ? AND ${filter}`;
}

function exactTexts(corpus: Corpus, filter: Record<Dialect, string>): Record<Dialect, string> {
  return {
    sqlite: `WITH wanted AS MATERIALIZED (SELECT vec_f32(?) AS vector)
      SELECT v.key, 1 - vec_distance_cosine(v.embedding, wanted.vector) AS similarity FROM wanted CROSS JOIN vectors v
      WHERE ${ofCorpus(corpus, filter.sqlite)} ORDER BY similarity DESC, v.key LIMIT ?`,
    postgres: `WITH wanted AS MATERIALIZED (SELECT CAST(? AS vector) AS vector),
      mine AS MATERIALIZED (SELECT v.key, v.embedding FROM vectors v WHERE ${ofCorpus(corpus, filter.postgres)})
      SELECT key, 1 - (CAST(embedding AS vector) <=> wanted.vector) AS similarity FROM mine, wanted
      ORDER BY similarity DESC, key LIMIT ?`,
  };
}

function nearTexts(corpus: Corpus, dimensions: number, filter: Record<Dialect, string>): Record<Dialect, string> {
  // Only these literals make Postgres use the index of the dimensions.
  const isIndexed = dimensions <= indexedDimensionsMax;
  const type = isIndexed ? `vector(${dimensions})` : "vector";
  return {
    sqlite: `WITH wanted AS MATERIALIZED (SELECT vec_f32(?) AS vector),
      wanted_bits AS MATERIALIZED (SELECT vec_quantize_binary(vector) AS bits FROM wanted),
      near AS MATERIALIZED (
        SELECT v.tenant_id, v.corpus, v.key, vec_distance_hamming(vec_bit(v.bits), vec_bit(wanted_bits.bits)) AS distance
        FROM wanted_bits CROSS JOIN vector_bits v WHERE ${ofCorpus(corpus, filter.sqlite)} ORDER BY distance LIMIT ?)
      SELECT v.key, 1 - vec_distance_cosine(v.embedding, wanted.vector) AS similarity
      FROM wanted CROSS JOIN near CROSS JOIN vectors v
      ON v.tenant_id = near.tenant_id AND v.corpus = near.corpus AND v.key = near.key
      ORDER BY similarity DESC, v.key LIMIT ?`,
    postgres: `SELECT key, 1 - distance AS similarity FROM (
        SELECT v.key, CAST(v.embedding AS ${type}) <=> CAST(? AS ${type}) AS distance FROM vectors v
        WHERE ${ofCorpus(corpus, filter.postgres)} ${isIndexed ? `AND v.dimensions = ${dimensions}` : ""}
        ORDER BY distance LIMIT ?) near
      ORDER BY similarity DESC, key LIMIT ?`,
  };
}

/** Seven digits keep a 32-bit float, and are a third of the length of its exact decimal form. */
function vectorText(vector: Float32Array): string {
  return `[${Array.from(vector, (value) => Number(value.toPrecision(7))).join(",")}]`;
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
