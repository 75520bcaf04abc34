import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { anyWordQuery, wordMatches } from "../../../storage/tables/corpus-words.ts";
import { type ProductRow, productTable } from "./products.ts";

// Searches active products by their words, like documents.

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

/** Returns the active products that have a word of the query, best first; without a query, all that fit, by SKU. */
export async function searchProducts(
  store: TenantStore,
  query: string,
  { category = "", max_price_cents = Number.MAX_SAFE_INTEGER }: ProductFilter,
  limit: number,
): Promise<ProductRow[]> {
  const filter = [category, category, max_price_cents, limit] as const;
  if (query.trim() === "") return (await store.readLong(selectFitting, ...filter)).map(productTable.decode);
  const words = anyWordQuery(store.tenantId, query);
  if (words === null) return [];
  return (await store.readLong(selectHits, words, ...filter)).map(productTable.decode);
}
