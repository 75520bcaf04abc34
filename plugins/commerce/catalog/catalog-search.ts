import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { anyWordQuery, wordMatches } from "../../../storage/tables/corpus-words.ts";
import { fuse } from "../../../storage/tables/fusion.ts";
import type { QueryVector } from "../../../storage/tables/vectors.ts";
import { nearestProducts } from "./product-vectors.ts";
import { type ProductRow, productsByKey, productTable } from "./products.ts";

// Searches active products by their words and their vectors, like documents.

/** What a search compares. */
export interface ProductQuery {
  readonly words: string;
  /** Of the words or of an image; null to compare words only. */
  readonly vector: QueryVector | null;
}

/** What narrows a search. */
export interface ProductFilter {
  readonly category?: string | undefined;
  readonly max_price_cents?: number | undefined;
}

const ofProduct = productTable.columns
  .split(", ")
  .map((name) => `p.${name}`)
  .join(", ");
const matches = wordMatches("commerce_product_search", "product_key");
const fits = "p.tenant_id = :tenant AND p.active = 1 AND (? = '' OR p.category = ?) AND p.price_cents <= ?";
const selectHits = tenantSql("commerce_product_hits", {
  sqlite: hitsFrom(matches.sqlite),
  postgres: hitsFrom(matches.postgres),
});
const selectFitting = tenantSql(
  "commerce_products_fitting",
  `SELECT ${ofProduct} FROM commerce_products p WHERE ${fits} ORDER BY p.id LIMIT ?`,
);

function hitsFrom(found: string): string {
  return `SELECT ${ofProduct} FROM (${found}) hit JOIN commerce_products p ON p.product_key = hit.product_key
    WHERE ${fits} ORDER BY hit.score DESC, p.id LIMIT ?`;
}

/** Hits of each channel for each result of the search. */
const depth = 4;

/**
 * Returns the active products that have a word of the query, and with a vector also the nearest ones, best first. Without both it
 * returns all that fit, by SKU.
 */
export async function searchProducts(
  store: TenantStore,
  { words: query, vector }: ProductQuery,
  { category = "", max_price_cents = Number.MAX_SAFE_INTEGER }: ProductFilter,
  limit: number,
): Promise<ProductRow[]> {
  const fit = [category, category, max_price_cents] as const;
  if (query.trim() === "" && vector === null)
    return (await store.readLong(selectFitting, ...fit, limit)).map(productTable.decode);
  const words = anyWordQuery(store.tenantId, query);
  const byWords = async (most: number): Promise<ProductRow[]> =>
    words === null ? [] : (await store.readLong(selectHits, words, ...fit, most)).map(productTable.decode);
  if (vector === null) return byWords(limit);
  const [hits, near] = await Promise.all([byWords(limit * depth), nearestProducts(store, vector, limit * depth, fit)]);
  const lexical = hits.map(({ product_key }) => product_key);
  const fused = fuse({ lexical, vector: near.map(({ key }) => key) }, limit);
  const known = new Map(hits.map((row) => [row.product_key, row]));
  const others = fused.map(({ key }) => key).filter((key) => !known.has(key));
  const found = await productsByKey(store, others);
  return fused.flatMap(({ key }) => known.get(key) ?? found.get(key) ?? []);
}
