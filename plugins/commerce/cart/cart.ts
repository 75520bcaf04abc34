import { lineTotal, type Totals, totalsOf } from "../core/money.ts";

/** A line of a cart, with the price of when it was added. */
export interface CartItem {
  readonly product_id: string;
  readonly title: string;
  readonly qty: number;
  readonly price_cents: number;
}

/** A cart. `version` is the sequence number of its record, -1 for none. */
export interface Cart {
  readonly version: number;
  readonly items: readonly CartItem[];
  /** Empty for an empty cart. */
  readonly currency: string;
}

/** Max lines of a cart. */
export const linesMax = 100;
/** Max units of a line. */
export const quantityMax = 999;

/** The cart of a thread that has none. */
export const emptyCart: Cart = { version: -1, items: [], currency: "" };

/** Returns the totals of lines with shipping and tax; null if they exceed the largest amount. */
export function cartTotals(
  items: readonly CartItem[],
  more: { readonly shipping_cents?: number; readonly tax_bps?: number } = {},
): Totals | null {
  return totalsOf(
    items.map(({ qty, price_cents }) => ({ quantity: qty, unit_price_cents: price_cents })),
    more,
  );
}

/** Returns a cart as tools and routes show it. */
export function cartView(cart: Cart, tax_bps: number): Readonly<Record<string, unknown>> {
  const totals = cartTotals(cart.items, { tax_bps });
  return {
    items: cart.items.map((item) => ({
      ...item,
      line_total_cents: lineTotal({ quantity: item.qty, unit_price_cents: item.price_cents }),
    })),
    ...totals,
    currency: cart.currency,
  };
}

/** Returns the lines without those of a paid order: as many units as the order has are taken from each line. */
export function withoutOrdered(
  items: readonly CartItem[],
  ordered: readonly { readonly product_id: string; readonly qty: number }[],
): CartItem[] {
  const taken = new Map(ordered.map(({ product_id, qty }) => [product_id, qty]));
  return items.flatMap((item) => {
    const qty = item.qty - (taken.get(item.product_id) ?? 0);
    return qty > 0 ? [{ ...item, qty }] : [];
  });
}
