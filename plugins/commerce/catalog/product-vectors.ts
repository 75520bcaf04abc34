import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import type { TextCorpus } from "../../../storage/tables/text-corpus.ts";
import { nearestSearch, queueVectorsOp, type VectorModel, vectorSelection } from "../../../storage/tables/vectors.ts";
import type { ImportBatch } from "./import-job.ts";

// Active products as a corpus with vectors. The version of a text is that of the catalog, which each import raises. An import that
// changes no text, such as one of prices, keeps the vector.

const corpus = "products";

const changedTexts = ["title", "description", "category", "attrs"] as const;
const given = {
  sqlite: (name: string) => `json_extract(given.value, '$.${name}')`,
  postgres: (name: string) => `given.value ->> '${name}'`,
};
const ofIds = {
  sqlite: "(SELECT value FROM json_each(?) wanted)",
  postgres: "(SELECT value FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))",
};

function changed(rows: string, field: (name: string) => string): string {
  const differs = changedTexts.map((name) => `p.${name} <> ${field(name)}`).join(" OR ");
  return `SELECT p.product_key AS key FROM ${rows}
    JOIN commerce_products p ON p.tenant_id = :tenant AND p.id = ${field("id")} WHERE ${differs}`;
}

function missing(ids: string, vectors: string): string {
  return `SELECT p.product_key AS key, c.version AS ts FROM commerce_products p
    JOIN commerce_catalogs c ON c.tenant_id = p.tenant_id
    WHERE p.tenant_id = :tenant AND p.id IN ${ids} AND p.active = 1 AND ${hasNone(vectors)}`;
}

function hasNone(vectors: string): string {
  return `NOT EXISTS (SELECT 1 FROM ${vectors} v WHERE v.tenant_id = p.tenant_id AND v.corpus = '${corpus}'
    AND v.key = p.product_key AND v.model = ? AND v.dimensions = ?)`;
}

const selection = vectorSelection(
  "commerce_product_vectors",
  corpus,
  {
    sqlite: changed("json_each(?) given", given.sqlite),
    postgres: changed("jsonb_array_elements(CAST(? AS jsonb)) AS given (value)", given.postgres),
  },
  { sqlite: missing(ofIds.sqlite, "vector_bits"), postgres: missing(ofIds.postgres, "vectors") },
);
const selectQueued = tenantSql(
  "commerce_product_vectors_queued",
  `SELECT q.key, q.ts, p.title, p.category, p.description, p.attrs FROM vector_queue q
   LEFT JOIN commerce_products p ON p.tenant_id = q.tenant_id AND p.product_key = q.key AND p.active = 1
   WHERE q.tenant_id = :tenant AND q.corpus = '${corpus}' ORDER BY q.key LIMIT ?`,
);
const selectLast = systemSql(
  "commerce_product_vectors_last",
  `SELECT MAX(product_key) AS key FROM
    (SELECT product_key FROM commerce_products WHERE product_key > ? ORDER BY product_key LIMIT ?) counted`,
);
const queueMissing = systemSql("commerce_product_vectors_missing", {
  sqlite: missingOfAll("vector_bits"),
  postgres: missingOfAll("vectors"),
});
const count = systemSql("commerce_product_vectors_count", {
  sqlite: counts("vector_bits"),
  postgres: counts("vectors"),
});

function missingOfAll(vectors: string): string {
  return `INSERT INTO vector_queue (tenant_id, corpus, key, ts)
    SELECT p.tenant_id, '${corpus}', p.product_key, c.version FROM commerce_products p
    JOIN commerce_catalogs c ON c.tenant_id = p.tenant_id
    WHERE p.product_key > ? AND p.product_key <= ? AND p.active = 1 AND ${hasNone(vectors)}
    ON CONFLICT DO NOTHING`;
}

function counts(vectors: string): string {
  return `SELECT (SELECT COUNT(*) FROM commerce_products WHERE active = 1) AS texts,
    (SELECT COUNT(*) FROM ${vectors} v WHERE v.corpus = '${corpus}' AND v.model = ? AND v.dimensions = ?) AS embedded,
    (SELECT COUNT(*) FROM vector_queue q WHERE q.corpus = '${corpus}') AS queued`;
}

/** Active products with their title, category, description and attributes. */
export const productCorpus: TextCorpus = {
  corpus,
  async queued(store, limit) {
    const rows = await store.read(selectQueued, limit);
    return rows.map(({ key, ts, title, category, description, attrs }) => ({
      key: Number(key),
      ts: Number(ts),
      text: title === null ? null : embeddedText([title, category, description], attrs as string),
    }));
  },
  async queueMissing({ system }, { model, dimensions }, after, limit) {
    const [row] = await system.read(selectLast, after, limit);
    if (row === undefined || row.key === null) return null;
    const last = Number(row.key);
    await system.write([system.op(queueMissing, [after, last, model, dimensions])]);
    return last;
  },
  async count({ system }, { model, dimensions }) {
    const [row] = await system.readLong(count, model, dimensions);
    return { texts: Number(row?.texts), embedded: Number(row?.embedded), queued: Number(row?.queued) };
  },
};

function embeddedText(texts: readonly unknown[], attrs: string): string {
  const values = Object.entries(JSON.parse(attrs) as object).filter(([, value]) => /string|number/.test(typeof value));
  const words = [...texts, ...values.map(([name, value]) => `${name}: ${value}`)];
  return words.filter((word) => word !== "").join("\n");
}

/** Operations around the one that stores the products of an import. */
interface VectorOps {
  readonly before: readonly WriteOp[];
  /** They follow the operation that raises the version of the catalog. */
  readonly after: readonly WriteOp[];
}

/** Returns the operations that queue new and changed products of an import; none without a model. */
export function importVectorOps(store: TenantStore, { ids, rows }: ImportBatch, model: VectorModel | null): VectorOps {
  if (model === null) return { before: [], after: [] };
  return {
    before: [store.op(selection.forget, [rows]), store.op(selection.unqueue, [rows])],
    after: [store.op(selection.queue, [ids, model.model, model.dimensions])],
  };
}

/** Returns the operations that queue products, also those with a vector. `version` is that of the catalog. */
export function queueProductsOps(store: TenantStore, keys: readonly number[], version: number): readonly WriteOp[] {
  return keys.length === 0 ? [] : [queueVectorsOp(store, corpus, keys, version)];
}

/** Finds the nearest active products that fit a filter: category or "", again, and the max price. */
export const nearestProducts = nearestSearch(
  "commerce_product_nearest",
  corpus,
  `EXISTS (SELECT 1 FROM commerce_products p WHERE p.tenant_id = v.tenant_id AND p.product_key = v.key AND p.active = 1
    AND (? = '' OR p.category = ?) AND p.price_cents <= ?)`,
);
