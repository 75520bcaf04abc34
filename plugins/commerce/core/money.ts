// All arithmetic on amounts. Amounts are whole cents of currencies with two decimals, rates are basis points (1/10,000). The house
// rules refuse arithmetic on amounts in any other file of the plugin, so that cart, quote, order and invoice agree to the cent.

/** Max cents of a price, of a total and of any other amount. */
export const centsMax = 99_999_999;

/** Max basis points up to which a price may be raised. */
const bpsMax = 1_000_000;
/** Basis points of the whole. */
const whole = 10_000;

/** True for an amount that svc accepts: a whole number of cents from 0 to `centsMax`. */
export function isCents(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= centsMax;
}

/** One line of a cart, quote or order, as it is priced. */
export interface PricedLine {
  readonly unit_price_cents: number;
  readonly quantity: number;
  /** Subtracted from the line once. */
  readonly discount_cents?: number;
}

/** The amounts of a cart, quote or order. */
export interface Totals {
  /** The sum of the lines after their discounts. */
  readonly subtotal_cents: number;
  readonly discount_cents: number;
  readonly shipping_cents: number;
  readonly tax_cents: number;
  readonly total_cents: number;
}

/** Returns the sum of amounts. */
export function sumOf(amounts: Iterable<number>): number {
  let sum = 0;
  for (const amount of amounts) sum += amount;
  return sum;
}

/** Returns what is left of an amount after another one is taken away, at least 0. */
export function lessCents(amount: number, taken: number): number {
  return Math.max(0, amount - taken);
}

/** Returns an amount for each of a number of units. */
export function timesCents(amount: number, count: number): number {
  return amount * count;
}

/** Returns the amount of a line: unit price times quantity, less its discount, at least 0. */
export function lineTotal({ unit_price_cents, quantity, discount_cents = 0 }: PricedLine): number {
  return lessCents(unit_price_cents * quantity, discount_cents);
}

/** Returns a share of an amount in basis points, rounded half up once. */
export function shareOf(amount: number, bps: number): number {
  // Exact: the product has at most 17 digits, which a bigint holds.
  const product = BigInt(amount) * BigInt(bps);
  const rounded = (product * 2n + BigInt(whole)) / BigInt(2 * whole);
  return Number(rounded);
}

/**
 * Returns a price after an adjustment in basis points, rounded half up once and then clamped. An adjustment below -100 % counts
 * as -100 %. A floor beats a ceiling.
 */
export function adjustedPrice(
  price: number,
  adjustmentBps: number,
  { floor = null, ceiling = null }: { readonly floor?: number | null; readonly ceiling?: number | null } = {},
): number {
  const bps = whole + Math.min(bpsMax, Math.max(-whole, adjustmentBps));
  const adjusted = shareOf(price, bps);
  const below = ceiling === null ? adjusted : Math.min(adjusted, ceiling);
  const within = floor === null ? below : Math.max(below, floor);
  return Math.min(centsMax, within);
}

/** Returns an amount times a decimal factor, such as 1.5 for shipping abroad, rounded half up. */
export function scaledCents(amount: number, factor: number): number {
  return shareOf(amount, Math.round(factor * whole));
}

/** Returns the shipping of an order: the option's amount, or 0 from the threshold on if the option is the cheapest one. */
export function shippingOf(
  option: { readonly amount_cents: number },
  isCheapest: boolean,
  subtotal: number,
  freeThreshold: number | null,
): number {
  return isCheapest && freeThreshold !== null && subtotal >= freeThreshold ? 0 : option.amount_cents;
}

/** Returns the totals of lines. Tax is taken once, on subtotal plus shipping. Null if the total exceeds `centsMax`. */
export function totalsOf(
  lines: readonly PricedLine[],
  { shipping_cents = 0, tax_bps = 0 }: { readonly shipping_cents?: number; readonly tax_bps?: number } = {},
): Totals | null {
  const subtotal_cents = sumOf(lines.map(lineTotal));
  const gross = sumOf(lines.map(({ unit_price_cents, quantity }) => unit_price_cents * quantity));
  const taxed = subtotal_cents + shipping_cents;
  if (!Number.isSafeInteger(gross) || taxed > centsMax) return null;
  const tax_cents = shareOf(taxed, tax_bps);
  const total_cents = taxed + tax_cents;
  if (total_cents > centsMax) return null;
  return { subtotal_cents, discount_cents: gross - subtotal_cents, shipping_cents, tax_cents, total_cents };
}

/** Splits an amount over weights, so that the parts sum up to it: largest remainders get the last cents, earlier ones first. */
export function splitCents(amount: number, weights: readonly number[]): number[] {
  const all = BigInt(sumOf(weights));
  if (all === 0n) return weights.map((_, at) => (at === 0 ? amount : 0));
  const shares = weights.map((weight, at) => {
    const exact = BigInt(amount) * BigInt(weight);
    return { at, part: Number(exact / all), rest: exact % all };
  });
  let left = amount - sumOf(shares.map(({ part }) => part));
  const parts = shares.map(({ part }) => part);
  for (const { at } of shares.toSorted((a, b) => (a.rest === b.rest ? a.at - b.at : a.rest > b.rest ? -1 : 1))) {
    if (left === 0) break;
    parts[at] = (parts[at] as number) + 1;
    left--;
  }
  return parts;
}

/** Returns the amount as a decimal number, such as 19.99. */
export function decimalText(amount: number): string {
  const digits = String(amount).padStart(3, "0");
  return `${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

/** Returns the amount with its currency, such as 19.99 USD. */
export function priceText(amount: number, currency: string): string {
  return `${decimalText(amount)} ${currency.toUpperCase()}`;
}

/** ISO 4217 codes of currencies that have no, three or four decimals, which svc does not take. */
const otherDecimals = new Set(
  "bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf bhd iqd jod kwd lyd omr tnd clf uyw".split(" "),
);

/** True for the lower-case code of a currency with two decimals. */
export function isCurrency(code: unknown): code is string {
  return typeof code === "string" && /^[a-z]{3}$/.test(code) && !otherDecimals.has(code);
}
