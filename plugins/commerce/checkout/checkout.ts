import { hash } from "node:crypto";
import type { Env } from "../../../bus/env.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type Cart, cartTotals } from "../cart/cart.ts";
import { pricedProducts } from "../cart/cart-tools.ts";
import { isInStock, type ProductRow } from "../catalog/products.ts";
import { shippingOf, type Totals } from "../core/money.ts";
import type { ShippingOption } from "../core/shipping-settings.ts";

/** The charge of a checkout. */
export interface Priced extends Totals {
  readonly cart: Cart;
  readonly shipping: ShippingOption;
  /** Country to which the order is sent. */
  readonly country: string;
  readonly products: ReadonlyMap<string, ProductRow>;
}

/** What a checkout depends on, besides the cart. */
export interface CheckoutRules {
  readonly country: string;
  /** Cheapest first. */
  readonly options: readonly ShippingOption[];
  readonly freeThreshold: number | null;
  readonly taxBps: number;
}

/** Returns what a checkout of the cart would charge, or the reason why it cannot be. `optionId` null is the cheapest one. */
export async function priceCheckout(
  { store, env }: { readonly store: TenantStore; readonly env: Env },
  cart: Cart,
  optionId: string | null,
  { country, options, freeThreshold, taxBps }: CheckoutRules,
): Promise<Priced | string> {
  if (cart.items.length === 0) return "the cart is empty";
  const products = await pricedProducts(
    { store, env },
    cart.items.map(({ product_id }) => product_id),
  );
  for (const { product_id, title, qty } of cart.items) {
    const product = products.get(product_id);
    if (product === undefined || product.active !== 1) return `${title} is not sold any more; remove it`;
    if (!isInStock(product, qty)) return `only ${product.inventory} units of ${title} are in stock`;
  }
  const [cheapest] = options;
  const shipping = optionId === null ? cheapest : options.find(({ id }) => id === optionId);
  if (shipping === undefined) return `shipping_option_id must be one of ${options.map(({ id }) => id).join(", ")}`;
  const { subtotal_cents } = cartTotals(cart.items) ?? { subtotal_cents: 0 };
  const shipping_cents = shippingOf(shipping, shipping === cheapest, subtotal_cents, freeThreshold);
  const totals = cartTotals(cart.items, { shipping_cents, tax_bps: taxBps });
  if (totals === null) return "the cart would cost too much";
  return { cart, shipping, country, products, ...totals };
}

/** Returns the facts that an approval of a checkout holds for, besides the arguments of the call. */
export function boundFacts(threadId: string, { cart, shipping, country, ...totals }: Priced): unknown {
  const { subtotal_cents, shipping_cents, tax_cents, total_cents } = totals;
  return {
    ...{ thread: threadId, version: cart.version, items: cart.items, currency: cart.currency },
    ...{ shipping: shipping.id, country },
    ...{ subtotal_cents, shipping_cents, tax_cents, total_cents },
  };
}

/** Returns the id of the order of a cart version. `key` is that of the approved call, so that a repeated call finds its order. */
export function orderIdOf(threadId: string, cartVersion: number, key: string): string {
  return `order_${hash("sha256", JSON.stringify([threadId, cartVersion, key]), "hex").slice(0, 32)}`;
}
