import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { integer, json, nullable, type RowIn, selectOne, table, text } from "../../../storage/store/table.ts";
import { indexText } from "../../../storage/tables/corpus-words.ts";
import type { VectorModel } from "../../../storage/tables/vectors.ts";
import type { ImportBatch } from "./import-job.ts";
import { type Product, searchedText } from "./product.ts";
import { importVectorOps, queueProductsOps } from "./product-vectors.ts";

// The products of a tenant. A batch of an import replaces rows with their words, so that no search sees a part of it, and raises
// the version of the catalog, from which feeds make their ETags.

/** The products. */
export const productTable = table(
  "commerce_products",
  {
    /** The SKU. */
    id: text,
    /** Globally unique number, the key of the words. It stays the same when the product is imported again. */
    product_key: integer,
    /** Time of the last import. */
    ts: integer,
    title: text,
    description: text,
    price_cents: integer,
    currency: text,
    image_url: nullable(text),
    category: text,
    /** -1 for unlimited. */
    inventory: integer,
    active: integer,
    attrs: json<Readonly<Record<string, unknown>>>(),
    created_at: integer,
  },
  ({ text: title, threadKey: product_key }) => ({
    ...{ id: "row", product_key, ts: 5, title, description: title, price_cents: 5, currency: "usd", image_url: title },
    ...{ category: title, inventory: 5, active: 1, attrs: { title }, created_at: 5 },
  }),
);

/** The words of products; its statements are here and in catalog-search.ts. */
export const productSearchTable = table("commerce_product_search", { product_key: integer });

/** The version of each catalog. */
export const catalogTable = table("commerce_catalogs", { version: integer, changed_at: integer }, () => ({
  version: 5,
  changed_at: 5,
}));

/** A stored product. */
export type ProductRow = RowIn<typeof productTable>;

const { columns } = productTable;
/** The columns that an import replaces. */
const imported = "title description price_cents currency image_url category inventory active attrs".split(" ");
const replaces = ["ts", ...imported].map((name) => `${name} = excluded.${name}`).join(", ");

const takeKeys = systemSql(
  "commerce_product_keys",
  "UPDATE counters SET value = value + ? WHERE name = 'commerce_product_key' RETURNING value",
);
const upsertProducts = tenantSql("commerce_products_import", {
  sqlite: `INSERT INTO commerce_products (tenant_id, id, product_key, ts, ${imported.join(", ")}, created_at)
    SELECT :tenant, json_extract(given.value, '$.id'), ? + given.key, COALESCE(json_extract(given.value, '$.ts'), ?),
      ${imported.map((name) => `json_extract(given.value, '$.${name}')`).join(", ")}, ?
    FROM json_each(?) given WHERE TRUE
    ON CONFLICT (tenant_id, id) DO UPDATE SET ${replaces}`,
  postgres: `INSERT INTO commerce_products (tenant_id, id, product_key, ts, ${imported.join(", ")}, created_at)
    SELECT :tenant, given.value ->> 'id', CAST(? AS BIGINT) + given.place - 1,
      COALESCE(CAST(given.value ->> 'ts' AS BIGINT), CAST(? AS BIGINT)), given.value ->> 'title',
      given.value ->> 'description', CAST(given.value ->> 'price_cents' AS BIGINT), given.value ->> 'currency',
      given.value ->> 'image_url', given.value ->> 'category', CAST(given.value ->> 'inventory' AS BIGINT),
      CAST(given.value ->> 'active' AS BIGINT), given.value ->> 'attrs', CAST(? AS BIGINT)
    FROM jsonb_array_elements(CAST(? AS jsonb)) WITH ORDINALITY AS given (value, place)
    ON CONFLICT (tenant_id, id) DO UPDATE SET ${replaces}`,
});
const ofIds = {
  sqlite: "(SELECT value FROM json_each(?) wanted)",
  postgres: "(SELECT value FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))",
};
const deleteWords = tenantSql("commerce_product_words_delete", {
  sqlite: `DELETE FROM commerce_product_search WHERE rowid IN
    (SELECT product_key FROM commerce_products WHERE tenant_id = :tenant AND id IN ${ofIds.sqlite})`,
  postgres: `DELETE FROM commerce_product_search WHERE product_key IN
    (SELECT product_key FROM commerce_products WHERE tenant_id = :tenant AND id IN ${ofIds.postgres})`,
});
const insertWords = tenantSql("commerce_product_words_insert", {
  sqlite: `INSERT INTO commerce_product_search (rowid, content)
    SELECT p.product_key, json_extract(words.value, '$[1]') FROM json_each(?) words
    JOIN commerce_products p ON p.tenant_id = :tenant AND p.id = json_extract(words.value, '$[0]')`,
  postgres: `INSERT INTO commerce_product_search (document, product_key, tenant_id)
    SELECT to_tsvector('svc_words', words.value ->> 1), p.product_key, p.tenant_id
    FROM jsonb_array_elements(CAST(? AS jsonb)) words (value)
    JOIN commerce_products p ON p.tenant_id = :tenant AND p.id = words.value ->> 0`,
});
const selectIn = tenantSql("commerce_products_in", {
  sqlite: `SELECT ${columns} FROM commerce_products WHERE tenant_id = :tenant AND id IN ${ofIds.sqlite}`,
  postgres: `SELECT ${columns} FROM commerce_products WHERE tenant_id = :tenant AND id IN ${ofIds.postgres}`,
});
const selectByKeys = tenantSql("commerce_products_by_key", {
  sqlite: `SELECT ${columns} FROM commerce_products WHERE tenant_id = :tenant
    AND product_key IN (SELECT value FROM json_each(?) wanted)`,
  postgres: `SELECT ${columns} FROM commerce_products WHERE tenant_id = :tenant
    AND product_key IN (SELECT CAST(value AS BIGINT) FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))`,
});
const countIn = tenantSql("commerce_products_known", {
  sqlite: `SELECT COUNT(*) AS products FROM commerce_products WHERE tenant_id = :tenant AND id IN ${ofIds.sqlite}`,
  postgres: `SELECT COUNT(*) AS products FROM commerce_products WHERE tenant_id = :tenant AND id IN ${ofIds.postgres}`,
});
const selectAfter = tenantSql(
  "commerce_products_after",
  `SELECT ${columns} FROM commerce_products WHERE tenant_id = :tenant AND id > ? ORDER BY id LIMIT ?`,
);
const selectActive = tenantSql(
  "commerce_products_active_page",
  `SELECT ${columns} FROM commerce_products
   WHERE tenant_id = :tenant AND active = 1 AND id > ? ORDER BY id LIMIT ? OFFSET ?`,
);
const selectAll = tenantSql(
  "commerce_products_page",
  `SELECT ${columns} FROM commerce_products WHERE tenant_id = :tenant AND id > ? ORDER BY id LIMIT ? OFFSET ?`,
);
const selectBoundary = tenantSql(
  "commerce_products_active_boundary",
  `SELECT id FROM commerce_products WHERE tenant_id = :tenant AND active = 1 AND id > ? ORDER BY id LIMIT 1 OFFSET ?`,
);
const countProducts = tenantSql(
  "commerce_products_count",
  "SELECT COUNT(*) AS products FROM commerce_products WHERE tenant_id = :tenant",
);
const selectCategories = tenantSql(
  "commerce_product_categories",
  `SELECT category, COUNT(*) AS products FROM commerce_products
   WHERE tenant_id = :tenant AND active = 1 AND category <> '' GROUP BY category ORDER BY category LIMIT ?`,
);
const deactivateOld = tenantSql(
  "commerce_products_deactivate_old",
  "UPDATE commerce_products SET active = 0 WHERE tenant_id = :tenant AND active = 1 AND ts < ? RETURNING id",
);
const takeStock = tenantSql(
  "commerce_product_take_stock",
  `UPDATE commerce_products SET inventory = CASE WHEN inventory > CAST(? AS BIGINT) THEN inventory - CAST(? AS BIGINT) ELSE 0 END
   WHERE tenant_id = :tenant AND id = ? AND inventory >= 0`,
);
const giveStock = tenantSql(
  "commerce_product_give_stock",
  "UPDATE commerce_products SET inventory = inventory + ? WHERE tenant_id = :tenant AND id = ? AND inventory >= 0",
);
const raiseVersion = tenantSql(
  "commerce_catalog_raise",
  `INSERT INTO commerce_catalogs (tenant_id, version, changed_at) VALUES (:tenant, 1, ?)
   ON CONFLICT (tenant_id) DO UPDATE SET version = commerce_catalogs.version + 1, changed_at = excluded.changed_at`,
);
const selectVersion = tenantSql(
  "commerce_catalog_version",
  "SELECT version, changed_at FROM commerce_catalogs WHERE tenant_id = :tenant",
);

/** Returns a product by its SKU, also an inactive one. */
export const productById = selectOne(productTable, ["id"]);

/** Returns the products with these SKUs, by SKU. */
export async function productsById(
  store: TenantStore,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ProductRow>> {
  if (ids.length === 0) return new Map();
  const rows = await store.read(selectIn, JSON.stringify(ids));
  return new Map(rows.map((row) => [row.id as string, productTable.decode(row)]));
}

/** Returns up to `limit` products after an SKU, in the order of SKUs; also inactive ones. */
export async function productsAfter(store: TenantStore, after: string, limit: number): Promise<ProductRow[]> {
  return (await store.read(selectAfter, after, limit)).map(productTable.decode);
}

/** A page of products in the order of SKUs. */
interface ProductPageOf {
  readonly limit: number;
  /** Products to skip after `after`. Its cost grows with the number. */
  readonly offset?: number;
  /** The SKU before the page; absent for the first page. */
  readonly after?: string | undefined;
  readonly activeOnly: boolean;
}

/** Returns a page of products, active ones alone or all. `next` is the SKU after which the next page begins; null on the last page. */
export async function productPage(
  store: TenantStore,
  { limit, offset = 0, after = "", activeOnly }: ProductPageOf,
): Promise<{ readonly rows: ProductRow[]; readonly next: string | null }> {
  const found = await store.readLong(activeOnly ? selectActive : selectAll, after, limit + 1, offset);
  const rows = found.slice(0, limit).map(productTable.decode);
  return { rows, next: found.length > limit ? String(rows.at(-1)?.id) : null };
}

/** Returns the SKUs at which pages of `size` active products begin after the first page: the last SKU before each. */
export async function pageBoundaries(store: TenantStore, size: number): Promise<string[]> {
  const found: string[] = [];
  for (let after = ""; ; ) {
    // One more product than the page shows that another page follows.
    const [last, next] = await Promise.all(
      [size - 1, size].map(async (offset) => (await store.readLong(selectBoundary, after, offset))[0]?.id),
    );
    if (last === undefined || next === undefined) return found;
    after = String(last);
    found.push(after);
  }
}

/** Returns the number of products, active and inactive. */
export async function productCount(store: TenantStore): Promise<number> {
  const [row] = await store.readLong(countProducts);
  return Number(row?.products ?? 0);
}

/** Returns the categories of active products with their numbers of products, at most `limit`. */
export async function categoriesOf(
  store: TenantStore,
  limit: number,
): Promise<{ readonly category: string; readonly products: number }[]> {
  const rows = await store.readLong(selectCategories, limit);
  return rows.map(({ category, products }) => ({ category: category as string, products: Number(products) }));
}

/** Returns the version of the catalog, which grows with each change, and the time of that change; 0 for an empty catalog. */
export async function catalogVersion(
  store: TenantStore,
): Promise<{ readonly version: number; readonly changed_at: number }> {
  const [row] = await store.read(selectVersion);
  return { version: Number(row?.version ?? 0), changed_at: Number(row?.changed_at ?? 0) };
}

/** Reserves keys for new products; returns the first. */
async function firstKey(store: Store, count: number): Promise<number> {
  const { system } = store;
  const [[row] = []] = await system.write([system.op(takeKeys, [count], 1)]);
  return (row?.value as number) - count;
}

/** Makes vectors of texts: a `TextVectors`. */
export interface ProductVectors {
  queuedModel(): Promise<VectorModel | null>;
  wake(tenantId: string): void;
}

/**
 * Stores products of one batch with their words, and replaces those with the same SKU. Each SKU is once in the batch. New texts are
 * queued for their vectors.
 */
export async function importProducts(
  store: Store,
  tenantId: string,
  batch: ImportBatch,
  { ts, textVectors }: { readonly ts: number; readonly textVectors: ProductVectors },
): Promise<void> {
  const { count, ids, rows, words } = batch;
  const tenant = store.tenant(tenantId);
  const key = await firstKey(store, count);
  const vectors = importVectorOps(tenant, batch, await textVectors.queuedModel());
  await tenant.write([
    ...vectors.before,
    tenant.op(deleteWords, [ids]),
    tenant.op(upsertProducts, [key, ts, ts, rows]),
    tenant.op(insertWords, [words]),
    raiseOp(tenant, ts),
    ...vectors.after,
  ]);
  textVectors.wake(tenantId);
}

/** Returns how many of the SKUs in a batch the catalog has. */
export async function knownCount(store: TenantStore, { ids }: Pick<ImportBatch, "ids">): Promise<number> {
  const [row] = await store.read(countIn, ids);
  return Number(row?.products ?? 0);
}

/** Makes the words of stored products anew, and queues active ones for new vectors. */
export async function reindexProducts(
  store: TenantStore,
  rows: readonly ProductRow[],
  textVectors: ProductVectors,
): Promise<void> {
  if (rows.length === 0) return;
  const ids = JSON.stringify(rows.map(({ id }) => id));
  const words = rows.map((row) => [row.id, indexText(store.tenantId, searchedText(productOf(row)))]);
  const hasVectors = (await textVectors.queuedModel()) !== null;
  const keys = hasVectors ? rows.filter(({ active }) => active === 1).map(({ product_key }) => product_key) : [];
  const { version } = await catalogVersion(store);
  await store.write([
    store.op(deleteWords, [ids]),
    store.op(insertWords, [JSON.stringify(words)]),
    ...queueProductsOps(store, keys, version),
  ]);
}

/** Returns products by their keys in the index. */
export async function productsByKey(
  store: TenantStore,
  keys: readonly number[],
): Promise<ReadonlyMap<number, ProductRow>> {
  if (keys.length === 0) return new Map();
  const rows = (await store.read(selectByKeys, JSON.stringify(keys))).map(productTable.decode);
  return new Map(rows.map((row) => [row.product_key, row]));
}

/** Makes every active product inactive that was not imported since `ts`; returns how many. */
export async function deactivateOlder(store: TenantStore, ts: number): Promise<number> {
  const [rows = []] = await store.write([store.op(deactivateOld, [ts]), raiseOp(store, ts)]);
  return rows.length;
}

/** Returns the operation that raises the version of the catalog. */
export function raiseOp(store: TenantStore, now: number): WriteOp {
  return store.op(raiseVersion, [now]);
}

/** Returns the operation that takes units of a product off the stock, which never gets below 0. Unlimited stock stays so. */
export function takeStockOp(store: TenantStore, id: string, quantity: number): WriteOp {
  return store.op(takeStock, [quantity, quantity, id]);
}

/** Returns the operation that puts units back into the stock. Unlimited stock stays so. */
export function giveStockOp(store: TenantStore, id: string, quantity: number): WriteOp {
  return store.op(giveStock, [quantity, id]);
}

/** Returns the product of a row. */
export function productOf({ active, product_key: _, ts: __, created_at: ___, ...product }: ProductRow): Product {
  return { ...product, active: active === 1 };
}

/** True if a quantity of the product can be sold now. */
export function isInStock({ inventory, active }: Pick<ProductRow, "inventory" | "active">, quantity = 1): boolean {
  return active === 1 && (inventory < 0 || inventory >= quantity);
}
