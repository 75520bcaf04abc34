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

// One read for a page of products, which any crawler may ask for.
const selectAllUnits = tenantSql("commerce_units_ordered_by_product", {
  sqlite: `SELECT json_extract(line.value, '$.product_id') AS product_id, SUM(json_extract(line.value, '$.qty')) AS units
    FROM commerce_orders o INDEXED BY commerce_orders_recent, json_each(o.items) line
    WHERE o.tenant_id = :tenant AND o.ts >= ? AND o.status IN ('paid', 'fulfilled')
    GROUP BY json_extract(line.value, '$.product_id')`,
  postgres: `SELECT line.value ->> 'product_id' AS product_id, SUM(CAST(line.value ->> 'qty' AS BIGINT)) AS units
    FROM commerce_orders o, jsonb_array_elements(CAST(o.items AS jsonb)) line (value)
    WHERE o.tenant_id = :tenant AND o.ts >= ? AND o.status IN ('paid', 'fulfilled')
    GROUP BY line.value ->> 'product_id'`,
});

const hourMs = 3_600_000;

/** The rules of a tenant, read once for several products. */
export type Rules = readonly PricingRule[];

/** Returns the rules of a tenant. */
export function rulesOf(store: TenantStore): Promise<Rules> {
  return activeRules(store);
}

/** Returns the units of a product in orders that were paid since a time. */
type UnitsSince = (productId: string, since: number) => Promise<number>;

/** Returns the rules that apply to a product now. */
async function rulesFor(
  store: TenantStore,
  product: ProductRow,
  { rules, now, unitsSince }: { readonly rules: Rules; readonly now: number; readonly unitsSince: UnitsSince },
): Promise<PricingRule[]> {
  const near = rules.filter((rule) => covers(rule, product));
  if (near.length === 0) return [];
  const units = new Map<number, number>();
  for (const { kind, conditions } of near) {
    if (kind !== "velocity") continue;
    const { window_hours = windowHoursDefault } = conditions as VelocityCondition;
    if (!units.has(window_hours)) units.set(window_hours, await unitsSince(product.id, now - window_hours * hourMs));
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
  const windows = new Map<number, Promise<ReadonlyMap<string, number>>>();
  const unitsSince: UnitsSince = async (productId, since) => {
    const units = windows.get(since) ?? allUnits(store, since);
    windows.set(since, units);
    return (await units).get(productId) ?? 0;
  };
  for (const product of products) {
    const applied = rules.length === 0 ? [] : await rulesFor(store, product, { rules, now, unitsSince });
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
    rules: await rulesFor(store, product, { rules, now, unitsSince: (id, since) => unitsOrdered(store, id, since) }),
  });
}

/** Returns why a product cannot be sold in this quantity; null if it can. */
export function sellingProblem(product: ProductRow | undefined, id: string, quantity: number): string | null {
  if (product === undefined || product.active === 0) return `${id}: there is no such product`;
  return isInStock(product, quantity) ? null : `${id}: fewer than ${quantity} are in stock`;
}

async function allUnits(store: TenantStore, since: number): Promise<ReadonlyMap<string, number>> {
  const rows = await store.readLong(selectAllUnits, Math.max(0, since));
  return new Map(rows.map(({ product_id, units }) => [product_id as string, Number(units)]));
}

async function unitsOrdered(store: TenantStore, productId: string, since: number): Promise<number> {
  const [row] = await store.readLong(selectUnits, Math.max(0, since), productId);
  return Number(row?.units ?? 0);
}
