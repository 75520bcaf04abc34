import { adjustedPrice, sumOf } from "../core/money.ts";

// The price of a product for an account. An override of the line wins over a contract, that over the account's discount, that over
// dynamic rules, and those over the catalog. Dynamic rules change catalog prices only.

/** Where a price came from. */
export type PriceSource = "override" | "contract" | "account_discount" | "dynamic" | "catalog";

/** A price from a number of units on. */
export interface PriceTier {
  readonly min_qty: number;
  readonly unit_price_cents: number;
}

/** A time of the week in UTC. `days` are 0 for Sunday to 6; a window that ends before it begins goes over midnight. */
export interface TimeCondition {
  readonly days?: readonly number[];
  readonly from?: string;
  readonly to?: string;
}
/** At least this many units were ordered in the last hours. */
export interface VelocityCondition {
  readonly window_hours?: number;
  readonly min_units: number;
}
/** The cheapest known price of a competitor is at most this. */
export interface CompetitorCondition {
  readonly max_price_cents: number;
}

/** A rule that changes catalog prices. */
export interface PricingRule {
  readonly scope: "catalog" | "category" | "product";
  /** The category or the SKU; null for the catalog. */
  readonly scope_value: string | null;
  readonly kind: "time" | "velocity" | "competitor";
  /** In basis points; negative for a discount. */
  readonly adjustment_bps: number;
  readonly floor_cents: number | null;
  readonly ceiling_cents: number | null;
  readonly conditions: TimeCondition | VelocityCondition | CompetitorCondition;
  readonly active: boolean;
}

/** What rules look at. */
export interface PricedProduct {
  readonly id: string;
  readonly category: string;
  readonly price_cents: number;
}

/** What happened around a product, as far as rules ask. */
export interface Demand {
  readonly now: number;
  /** Units ordered in the last hours. */
  units(windowHours: number): number;
  /** The cheapest price of a competitor; null if none is known. */
  readonly competitorCents: number | null;
}

/** Hours of demand that a rule looks at unless it says otherwise. */
export const windowHoursDefault = 168;

/** True if a rule applies to a product now. */
export function ruleApplies(rule: PricingRule, product: PricedProduct, demand: Demand): boolean {
  return rule.active && covers(rule, product) && holds(rule, demand);
}

/** True if a product is in the scope of a rule. */
export function covers({ scope, scope_value }: PricingRule, { id, category }: PricedProduct): boolean {
  if (scope === "catalog") return true;
  return scope_value === (scope === "category" ? category : id);
}

function holds({ kind, conditions }: PricingRule, { now, units, competitorCents }: Demand): boolean {
  switch (kind) {
    case "time":
      return isInWindow(conditions as TimeCondition, now);
    case "velocity": {
      const { window_hours = windowHoursDefault, min_units } = conditions as VelocityCondition;
      return units(window_hours) >= min_units;
    }
    case "competitor":
      return competitorCents !== null && competitorCents <= (conditions as CompetitorCondition).max_price_cents;
  }
}

function isInWindow({ days, from = "00:00", to = "24:00" }: TimeCondition, now: number): boolean {
  const at = new Date(now);
  const clock = `${String(at.getUTCHours()).padStart(2, "0")}:${String(at.getUTCMinutes()).padStart(2, "0")}`;
  const today = at.getUTCDay();
  const isDay = (day: number): boolean => days === undefined || days.includes(day);
  if (from <= to) return isDay(today) && clock >= from && clock < to;
  // Over midnight: the part after it belongs to the day before.
  return (clock >= from && isDay(today)) || (clock < to && isDay((today + 6) % 7));
}

/** Returns the catalog price after the rules that apply. Their adjustments add up, then the strictest clamps hold. */
export function dynamicPrice(
  price: number,
  rules: readonly Pick<PricingRule, "adjustment_bps" | "floor_cents" | "ceiling_cents">[],
): number {
  const floors = rules.flatMap(({ floor_cents }) => floor_cents ?? []);
  const ceilings = rules.flatMap(({ ceiling_cents }) => ceiling_cents ?? []);
  return adjustedPrice(price, sumOf(rules.map(({ adjustment_bps }) => adjustment_bps)), {
    floor: floors.length === 0 ? null : Math.max(...floors),
    ceiling: ceilings.length === 0 ? null : Math.min(...ceilings),
  });
}

/** Returns the price of the tier with the most units that the quantity reaches; null if it reaches none. */
export function tierPrice(tiers: readonly PriceTier[], quantity: number): number | null {
  let best: PriceTier | null = null;
  for (const tier of tiers)
    if (tier.min_qty <= quantity && (best === null || tier.min_qty >= best.min_qty)) best = tier;
  return best?.unit_price_cents ?? null;
}

/** A unit price, and where it came from. */
export interface UnitPrice {
  readonly unit_price_cents: number;
  readonly source: PriceSource;
}

/** Returns the unit price of a product. `rules` are those that apply to it now. */
export function unitPrice({
  catalogCents,
  quantity,
  overrideCents = null,
  tiers = [],
  discountBps = 0,
  rules = [],
}: {
  readonly catalogCents: number;
  readonly quantity: number;
  readonly overrideCents?: number | null;
  readonly tiers?: readonly PriceTier[];
  readonly discountBps?: number;
  readonly rules?: readonly Pick<PricingRule, "adjustment_bps" | "floor_cents" | "ceiling_cents">[];
}): UnitPrice {
  if (overrideCents !== null) return { unit_price_cents: overrideCents, source: "override" };
  const contract = tierPrice(tiers, quantity);
  if (contract !== null) return { unit_price_cents: contract, source: "contract" };
  if (discountBps > 0)
    return { unit_price_cents: adjustedPrice(catalogCents, -discountBps), source: "account_discount" };
  if (rules.length > 0) return { unit_price_cents: dynamicPrice(catalogCents, rules), source: "dynamic" };
  return { unit_price_cents: catalogCents, source: "catalog" };
}
