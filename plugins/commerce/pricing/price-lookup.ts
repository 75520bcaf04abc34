import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import type { ProductRow } from "../catalog/products.ts";
import { isInStock } from "../catalog/products.ts";
import { activeRules, cheapestCents, contractOf } from "./price-tables.ts";
import {
  covers,
  type PricingRule,
  ruleApplies,
  type UnitPrice,
  unitPrice,
  type VelocityCondition,
  windowHoursDefault,
} from "./prices.ts";

// Looks up prices of products, from the rows of a tenant.

const selectUnits = tenantSql("commerce_units_ordered", {
  sqlite: `SELECT COALESCE(SUM(json_extract(line.value, '$.qty')), 0) AS units
    FROM commerce_orders o INDEXED BY commerce_orders_recent, json_each(o.items) line
    WHERE o.tenant_id = :tenant AND o.ts >= ? AND o.status IN ('paid', 'fulfilled')
      AND json_extract(line.value, '$.product_id') = ?`,
  postgres: `SELECT COALESCE(SUM(CAST(line.value ->> 'qty' AS BIGINT)), 0) AS units
    FROM commerce_orders o, jsonb_array_elements(CAST(o.items AS jsonb)) line (value)
    WHERE o.tenant_id = :tenant AND o.ts >= ? AND o.status IN ('paid', 'fulfilled') AND line.value ->> 'product_id' = ?`,
});

const hourMs = 3_600_000;

/** The rules of a tenant, read once for several products. */
export type Rules = readonly PricingRule[];

/** Returns the rules of a tenant. */
export function rulesOf(store: TenantStore): Promise<Rules> {
  return activeRules(store);
}

/** Returns the rules that apply to a product now. */
async function rulesFor(store: TenantStore, product: ProductRow, rules: Rules, now: number): Promise<PricingRule[]> {
  const near = rules.filter((rule) => covers(rule, product));
  if (near.length === 0) return [];
  const units = new Map<number, number>();
  for (const { kind, conditions } of near) {
    if (kind !== "velocity") continue;
    const { window_hours = windowHoursDefault } = conditions as VelocityCondition;
    if (!units.has(window_hours))
      units.set(window_hours, await unitsOrdered(store, product.id, now - window_hours * hourMs));
  }
  const asksCompetitors = near.some(({ kind }) => kind === "competitor");
  const competitorCents = asksCompetitors ? await cheapestCents(store, product.id, product.currency) : null;
  const demand = { now, units: (hours: number) => units.get(hours) ?? 0, competitorCents };
  return near.filter((rule) => ruleApplies(rule, product, demand));
}

/** Returns products with their public prices: the catalog price after the rules that apply now. */
export async function withPublicPrices(
  store: TenantStore,
  products: Iterable<ProductRow>,
  now: number,
): Promise<ReadonlyMap<string, ProductRow>> {
  const rules = await rulesOf(store);
  const priced = new Map<string, ProductRow>();
  for (const product of products) {
    const applied = rules.length === 0 ? [] : await rulesFor(store, product, rules, now);
    const { unit_price_cents } = unitPrice({ catalogCents: product.price_cents, quantity: 1, rules: applied });
    priced.set(product.id, { ...product, price_cents: unit_price_cents });
  }
  return priced;
}

/** Returns the price of a product for an account; an account of null has the public price. */
export async function accountPrice(
  store: TenantStore,
  account: { readonly id: string; readonly discount_bps: number } | null,
  product: ProductRow,
  quantity: number,
  { rules, now, overrideCents = null }: { rules: Rules; now: number; overrideCents?: number | null },
): Promise<UnitPrice> {
  const contract = account === null ? undefined : await contractOf(store, account.id, product.id);
  return unitPrice({
    catalogCents: product.price_cents,
    quantity,
    overrideCents,
    // A contract in another currency than the product's says nothing about this price.
    tiers: contract?.currency === product.currency ? contract.tiers : [],
    discountBps: account?.discount_bps ?? 0,
    rules: await rulesFor(store, product, rules, now),
  });
}

/** Returns why a product cannot be sold in this quantity; null if it can. */
export function sellingProblem(product: ProductRow | undefined, id: string, quantity: number): string | null {
  if (product === undefined || product.active === 0) return `${id}: there is no such product`;
  return isInStock(product, quantity) ? null : `${id}: fewer than ${quantity} are in stock`;
}

/** Returns the units of a product in orders that were paid since a time. */
async function unitsOrdered(store: TenantStore, productId: string, since: number): Promise<number> {
  const [row] = await store.readLong(selectUnits, Math.max(0, since), productId);
  return Number(row?.units ?? 0);
}
